//! Taking over from a living leader of lower priority. This instance asks the leader. If the role's
//! settings allow force, it claims over the leader in the end.
//!
//! A takeover request needs time. This instance must have followed the same leader for the whole
//! hysteresis, connected and out of its cool-down. Any interruption starts the hysteresis again. So
//! instances do not take the role from each other again and again. Each handoff that came to nothing
//! doubles the hysteresis, for this instance may be one that can't claim.

use std::time::Duration;

use uuid::Uuid;

use super::input::{Link, PeerRequestId};
use super::machine::Election;
use super::mutation::mutated;
use super::phase::Phase;
use super::waiting::Waiting;
use crate::config::Takeover;
use crate::moment::Moment;
use crate::peer::{PeerReply, PeerRequest, Refusal};
use crate::record::{Content, Nonce, SeenRecord};

/// With the default hysteresis, one request in a quarter of an hour.
const MOST_DOUBLINGS: u32 = 6;

/// The wish to take over from a leader.
#[derive(Clone, Debug, Hash)]
pub(super) struct TakeoverRequest {
    /// The leader's incarnation and id. Records of other libraries have no incarnation.
    pub rival: (Option<Uuid>, String),
    pub followed_since: Moment,
    /// When to ask, or to ask again.
    pub ask_at: Moment,
    pub asking: Option<PeerRequestId>,
    /// Since when the leader has been asked, by an instance that was healthy.
    pub since: Option<Moment>,
    /// Until when a leader that agreed has time to hand over. It gets that time once.
    pub agreed_until: Option<Moment>,
}

impl Election {
    /// The living leader that this instance should take over from.
    fn rival(&self) -> Option<&SeenRecord> {
        let Phase::Waiting(waiting) = &self.phase else {
            return None;
        };
        let able = self.settings.takeover != Takeover::Never
            && matches!(self.link, Link::Up(_))
            && waiting.cooling_until.is_none()
            && self.stopping.is_none()
            && !self.paused
            && self.failing_until().is_none()
            && self.followed();
        match self.observed_role.foreign_content() {
            Some(Content::Record(record)) if able && record.priority < self.settings.priority => {
                Some(record)
            }
            _ => None,
        }
    }

    /// Begins, keeps or drops the takeover request.
    pub(super) fn update_takeover_request(&mut self) {
        let rival = self
            .rival()
            .map(|record| (record.incarnation, record.id.clone()));
        let followed_since = self.now;
        let ask_at = followed_since + self.hysteresis();
        let Phase::Waiting(waiting) = &mut self.phase else {
            return;
        };
        match rival {
            None => waiting.takeover_request = None,
            Some(rival)
                if waiting
                    .takeover_request
                    .as_ref()
                    .is_some_and(|takeover_request| takeover_request.rival == rival) => {}
            Some(rival) => {
                waiting.takeover_request = Some(TakeoverRequest {
                    rival,
                    followed_since,
                    ask_at,
                    asking: None,
                    since: None,
                    agreed_until: None,
                });
            }
        }
    }

    /// How long a leader must have been followed before it is asked.
    fn hysteresis(&self) -> Duration {
        mutated!(AskAsOftenInVain => return self.settings.takeover_hysteresis);
        let doublings = self.handoffs_in_vain.min(MOST_DOUBLINGS);
        self.settings.takeover_hysteresis * (1 << doublings)
    }

    /// When to ask the leader next: not before its release would free the role for this instance.
    ///
    /// Until then another instance may lead, as far as this one has seen. The role would stand
    /// empty and then go to somebody else, again and again. A leader of another library hears no
    /// request, so it releases nothing.
    pub(super) fn ask_leader_at(&self, waiting: &Waiting) -> Option<Moment> {
        let takeover_request = waiting.takeover_request.as_ref()?;
        let asks = takeover_request.asking.is_none();
        mutated!(AskForWhatIsNotFree => return asks.then_some(takeover_request.ask_at));
        let is_heard = takeover_request.rival.0.is_some();
        let free_at = is_heard.then(|| self.observed_role.free_if_handed_over());
        asks.then(|| takeover_request.ask_at.max(free_at.unwrap_or_default()))
    }

    /// When the role may be claimed over its living leader.
    ///
    /// Nothing is forced in these cases:
    ///
    /// - A request is open. By its reply this instance also learns whether it is healthy.
    /// - The leader has just agreed.
    /// - An instance other than the observed leader may lead, because its record was written over
    ///   or lost.
    pub(super) fn force_at(&self, waiting: &Waiting) -> Option<Moment> {
        let takeover_request = waiting.takeover_request.as_ref()?;
        let since = takeover_request.since?;
        match self.settings.takeover {
            Takeover::Forced { .. } if takeover_request.asking.is_some() => None,
            Takeover::Forced { after } => {
                let agreed_until = takeover_request.agreed_until.unwrap_or(since);
                let followed_since = takeover_request.followed_since;
                let others_until = self.observed_role.others_until(followed_since);
                Some((since + after).max(agreed_until).max(others_until))
            }
            Takeover::Cooperative if mutated!(ForceWithoutLeave) => Some(since),
            _ => None,
        }
    }

    pub(super) fn ask_leader(&mut self) {
        let leader = self.rival().and_then(SeenRecord::nonce);
        // A leader of another library gets no requests. This instance must find out all the same
        // whether it is healthy itself, before it uses force.
        let nobody = Nonce {
            incarnation: Uuid::nil(),
            beat: 0,
        };
        let forced = matches!(self.settings.takeover, Takeover::Forced { .. });
        let by = self.contender();
        let asking = leader
            .or(forced.then_some(nobody))
            .map(|leader| self.ask(PeerRequest::hand_over(leader, by)));
        let now = self.now;
        let again = now + self.hysteresis();
        if let Phase::Waiting(Waiting {
            takeover_request: Some(takeover_request),
            ..
        }) = &mut self.phase
        {
            takeover_request.since.get_or_insert(now);
            takeover_request.asking = asking;
            takeover_request.ask_at = again;
        }
    }

    pub(super) fn leader_answered(&mut self, question: PeerRequestId, answer: Option<&PeerReply>) {
        let soon = self.now + self.settings.heartbeat * 2;
        let later = self.now + self.hysteresis();
        let handed_by = self.now + self.settings.handoff_time();
        let Phase::Waiting(Waiting {
            takeover_request: Some(takeover_request),
            ..
        }) = &mut self.phase
        else {
            return;
        };
        if takeover_request
            .asking
            .take_if(|asked| *asked == question)
            .is_none()
        {
            return;
        }
        takeover_request.ask_at = match answer {
            // The request or its reply may have been lost.
            None => soon,
            Some(PeerReply::Refused {
                why: Refusal::Unhealthy | Refusal::Failing | Refusal::Ordered,
            }) => {
                // This instance itself is not healthy, or an operator chose that leader.
                takeover_request.since = None;
                later
            }
            Some(_) => later,
        };
        if answer == Some(&PeerReply::Yielding) {
            // The leader gets this time only once. It does not keep the role by agreeing again and
            // again.
            if takeover_request.agreed_until.is_none() {
                takeover_request.agreed_until = Some(handed_by);
                // Until this instance leads.
                self.handoffs_in_vain = self.handoffs_in_vain.saturating_add(1);
            }
            self.expect_handoff(None);
        }
        let why = Refusal::Failing;
        if answer == Some(&PeerReply::Refused { why }) {
            self.told_to_be_failing();
        }
    }
}
