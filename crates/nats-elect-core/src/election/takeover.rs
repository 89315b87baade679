//! Taking over from a living leader of lower priority: ask it, and if the role's settings say so, claim over it in the end.
//!
//! A bid needs patience. The same leader must have been followed for the whole hysteresis by an instance that is connected and
//! out of its cool-down; whatever interrupts that begins it anew. So instances do not play ping-pong.

use uuid::Uuid;

use super::core::{Election, Phase};
use super::input::{Link, QuestionId};
use super::mutation::mutated;
use super::standing::Standing;
use crate::config::Takeover;
use crate::letter::{Answer, Question, Refusal};
use crate::moment::Moment;
use crate::record::{Content, Nonce, SeenRecord};

/// The wish to lead in another's place.
#[derive(Clone, Debug, Hash)]
pub(super) struct Bid {
    /// Against whom: records of other libraries have no incarnation.
    rival: (Option<Uuid>, String),
    /// When to ask, or to ask again.
    ask_at: Moment,
    asking: Option<QuestionId>,
    /// Since when the leader has been asked, by an instance that was well.
    since: Option<Moment>,
    /// It agreed once: it has until then to hand over.
    agreed_until: Option<Moment>,
}

impl Bid {
    pub fn hash_situation(&self, now: Moment, hasher: &mut impl std::hash::Hasher) {
        use std::hash::Hash;

        let Self {
            rival,
            ask_at,
            asking,
            since,
            agreed_until,
        } = self;
        // A question's number only tells it from others.
        let ask_at = asking.is_none().then(|| (*ask_at).max(now));
        (rival, ask_at, asking.is_some(), since, agreed_until).hash(hasher);
    }
}

impl Election {
    /// The living leader that this instance should rather replace.
    fn rival(&self) -> Option<&SeenRecord> {
        let Phase::Standing(standing) = &self.phase else {
            return None;
        };
        let able = self.settings.takeover != Takeover::Never
            && matches!(self.link, Link::Up(_))
            && standing.cooling_until().is_none()
            && self.stopping.is_none()
            && !self.paused
            && self.followed();
        match self.view.foreign_content() {
            Some(Content::Record(record)) if able && record.priority < self.settings.priority => {
                Some(record)
            }
            _ => None,
        }
    }

    /// Begins, keeps or drops the bid.
    pub(super) fn weigh_bid(&mut self) {
        let rival = self
            .rival()
            .map(|record| (record.incarnation, record.id.clone()));
        let ask_at = self.now + self.settings.takeover_hysteresis;
        let Phase::Standing(standing) = &mut self.phase else {
            return;
        };
        match rival {
            None => standing.bid = None,
            Some(rival) if standing.bid.as_ref().is_some_and(|bid| bid.rival == rival) => {}
            Some(rival) => {
                standing.bid = Some(Bid {
                    rival,
                    ask_at,
                    asking: None,
                    since: None,
                    agreed_until: None,
                });
            }
        }
    }

    /// When to ask the leader next.
    pub(super) fn ask_leader_at(standing: &Standing) -> Option<Moment> {
        let bid = standing.bid.as_ref()?;
        bid.asking.is_none().then_some(bid.ask_at)
    }

    /// From then on the role may be claimed over its living leader. Not while a question is open, by which this instance also learns
    /// whether it is well; not from a leader that has just agreed; and not as long as somebody else than the one who is seen may lead,
    /// because its record was written over or lost.
    pub(super) fn force_at(&self, standing: &Standing) -> Option<Moment> {
        let bid = standing.bid.as_ref()?;
        let since = bid.since?;
        match self.settings.takeover {
            Takeover::Forced { .. } if bid.asking.is_some() => None,
            Takeover::Forced { after } => {
                let agreed_until = bid.agreed_until.unwrap_or(since);
                let others_until = self.view.others_until(since);
                Some((since + after).max(agreed_until).max(others_until))
            }
            Takeover::Cooperative if mutated!(ForceWithoutLeave) => Some(since),
            _ => None,
        }
    }

    pub(super) fn ask_leader(&mut self) {
        let leader = self.rival().and_then(SeenRecord::nonce);
        // A leader of another library hears no questions. Who would force it must find out all the same whether it is well itself.
        let nobody = Nonce {
            incarnation: Uuid::nil(),
            beat: 0,
        };
        let forced = matches!(self.settings.takeover, Takeover::Forced { .. });
        let by = self.contender();
        let asking = leader
            .or(forced.then_some(nobody))
            .map(|leader| self.ask(Question::hand_over(leader, by)));
        let now = self.now;
        let again = now + self.settings.takeover_hysteresis;
        if let Phase::Standing(Standing { bid: Some(bid), .. }) = &mut self.phase {
            bid.since.get_or_insert(now);
            bid.asking = asking;
            bid.ask_at = again;
        }
    }

    pub(super) fn leader_answered(&mut self, question: QuestionId, answer: Option<&Answer>) {
        let soon = self.now + self.settings.heartbeat * 2;
        let later = self.now + self.settings.takeover_hysteresis;
        let handed_by = self.now + self.settings.handoff_time();
        let Phase::Standing(Standing { bid: Some(bid), .. }) = &mut self.phase else {
            return;
        };
        if bid.asking.take_if(|asked| *asked == question).is_none() {
            return;
        }
        bid.ask_at = match answer {
            // The question or its answer may have been lost.
            None => soon,
            Some(Answer::Refused {
                why: Refusal::Unhealthy,
            }) => {
                // This instance itself is not fit to lead.
                bid.since = None;
                later
            }
            Some(_) => later,
        };
        if answer == Some(&Answer::Yielding) {
            // Once: whoever agrees again and again does not keep the role by that.
            bid.agreed_until.get_or_insert(handed_by);
            self.expect_handoff();
        }
    }
}
