//! Handing over, from the leader's side. The role goes to a candidate that said that it is ready,
//! at the leader's own wish or because a candidate of higher priority asked.
//!
//! The release names the heir. It is written as any other, after the handler has ended and the
//! lease is over. No message between instances decides who leads. A false answer costs the role a
//! moment without a leader, no more.

use std::time::Duration;

use uuid::Uuid;

use super::effect::{Effect, Reply};
use super::input::{PeerRequestId, RequestId};
use super::leading::Leadership;
use super::line::poll_interval;
use super::phase::Phase;
use super::scene::Scene;
use crate::event::{EndCause, Event};
use crate::handoff::Handoff;
use crate::heirs::{Heirs, TURN};
use crate::lease::Held;
use crate::moment::Moment;
use crate::peer::{Contender, PeerReply, PeerRequest, Refusal};
use crate::record::Content;
use crate::token::FencingToken;

/// A named successor is asked whether it is ready. The term goes on meanwhile.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct PendingHandoff {
    question: PeerRequestId,
    pub request: RequestId,
    hold_off: Duration,
}

/// How a term that ends hands the role over.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Succession {
    pub heir: Option<Contender>,
    /// The line of succession, for a release that names no heir.
    pub line: Heirs,
    /// When to ask them, if the handler has not ended before.
    pub search_at: Option<Moment>,
    search: Option<Search>,
    /// Whether a release was sent. Its heir can no longer change.
    pub closed: bool,
    /// Whether the keys were read since the release.
    pub looked: bool,
    /// How long this instance stays out.
    pub hold_off: Duration,
    /// The callers that ended the term, or asked for its end. They are answered when the role is
    /// freed, or can't be.
    pub callers: Vec<RequestId>,
}

/// The request to all candidates.
#[derive(Clone, Copy, Debug, Hash)]
struct Search {
    question: PeerRequestId,
    asked: Moment,
    /// The release waits for replies until then. If the first reply is of a lower priority than
    /// ours, it waits as long again as that reply took.
    until: Moment,
}

impl Succession {
    pub fn of(line: Heirs) -> Self {
        Self {
            line,
            ..Self::default()
        }
    }

    /// Until when the release waits for replies. With a line of succession it does not wait.
    pub fn search_until(&self) -> Option<Moment> {
        let search = self.search.filter(|_| self.line.is_empty());
        search.map(|search| search.until)
    }

    /// Whom a release names: an heir that said that it is ready, or else the line.
    pub fn named(&self) -> (Option<Uuid>, Heirs) {
        match &self.heir {
            Some(heir) => (Some(heir.incarnation), Heirs::NONE),
            None => (None, self.line),
        }
    }

    /// Whether an heir may still be named. An heir that an operator named stays.
    pub fn may_name_heir(&self, cause: Option<EndCause>) -> bool {
        !self.closed && (self.heir.is_none() || cause == Some(EndCause::Preempted))
    }

    /// The candidates are asked which is ready while the handler winds down. A line of succession is
    /// good enough for a handler that ends at once, as most do. The question would only be in the
    /// way of the release.
    fn find_heir(&mut self, at: &mut Scene, held: &Held) {
        if self.line.is_empty() {
            self.search_heir(at, held);
        } else {
            self.search_at = Some(at.now + TURN);
        }
    }

    pub fn search_heir(&mut self, at: &mut Scene, held: &Held) {
        self.search_at = None;
        if at.wire.is_up() {
            self.search = Some(Search {
                question: at.ask_candidates(held, Heirs::NONE, true),
                asked: at.now,
                until: at.now + at.settings.request_timeout / 5,
            });
        }
    }

    /// Takes a reply. Of several candidates that are ready, the one of the highest priority is
    /// chosen, and of equal ones the first.
    fn answered(
        &mut self,
        question: PeerRequestId,
        answer: Option<PeerReply>,
        now: Moment,
        own_priority: i64,
    ) {
        let asked = |search: &&mut Search| search.question == question;
        let Some(search) = self.search.as_mut().filter(asked) else {
            return;
        };
        if self.closed {
            return;
        }
        match answer {
            Some(PeerReply::Ready { contender }) => {
                // A candidate of at least our priority is good enough. After one of lower priority,
                // other replies are awaited once more.
                let wait = if contender.priority < own_priority {
                    now.since(search.asked)
                } else {
                    Duration::ZERO
                };
                search.until = search.until.min(now + wait);
                let better = |heir: &Contender| contender.priority > heir.priority;
                if self.heir.as_ref().is_none_or(better) {
                    self.heir = Some(contender);
                }
            }
            Some(_) => {}
            None => self.search = None,
        }
    }
}

impl Phase {
    pub fn step_down(
        self,
        at: &mut Scene,
        request: RequestId,
        to: Option<String>,
        expected: Option<FencingToken>,
        hold_off: Duration,
    ) -> Self {
        let is_meant = expected.is_none() || expected == self.fencing_token();
        match (self, to) {
            (Self::Leading(it), Some(to)) if is_meant => it.hand_to(at, request, to, hold_off),
            (phase, None) if is_meant => {
                let mut phase = phase.wind_down(at, EndCause::SteppedDown);
                if let Some(succession) = phase.succession() {
                    succession.hold_off = succession.hold_off.max(hold_off);
                }
                phase.answer_at_end(at, request);
                phase
            }
            (phase, _) => {
                at.reply(request, Reply::NotLeader);
                phase
            }
        }
    }

    /// Answers the caller that ended a term when its handler has ended and the role is freed, or
    /// can't be.
    pub fn answer_at_end(&mut self, at: &mut Scene, request: RequestId) {
        let is_term = self.fencing_token().is_some();
        match self.succession() {
            Some(succession) if is_term => succession.callers.push(request),
            _ => at.reply(request, Reply::NotLeader),
        }
    }

    /// Ends the term in good order, and sees to it that the role is handed over and not left to a
    /// race.
    pub fn hand_over(self, at: &mut Scene, cause: EndCause) -> Self {
        let leads = self.is_leading();
        let mut phase = self.wind_down(at, cause);
        if let Self::WindingDown(it) = &mut phase
            && leads
        {
            it.succession.find_heir(at, &it.held);
        }
        phase
    }

    pub fn answered(
        mut self,
        at: &mut Scene,
        question: PeerRequestId,
        answer: Option<PeerReply>,
    ) -> Self {
        if let Self::Leading(it) = &mut self
            && let Some(asked) = it.handoff_asked.take_if(|it| it.question == question)
        {
            return self.successor_answered(at, asked, answer);
        }
        if let Some(PeerReply::Ready { contender }) = &answer
            && at.keeps_failing(&contender.id)
        {
            return self;
        }
        match &mut self {
            Self::Waiting(it) => it.leader_answered(at, question, answer.as_ref()),
            Self::Leading(it) => it.line.answered(question, answer),
            phase => {
                if let Some(succession) = phase.succession() {
                    succession.answered(question, answer, at.now, at.settings.priority);
                }
            }
        }
        self
    }

    fn successor_answered(
        self,
        at: &mut Scene,
        handoff_asked: PendingHandoff,
        answer: Option<PeerReply>,
    ) -> Self {
        let why = match answer {
            Some(PeerReply::Ready { contender }) => {
                let mut phase = self.wind_down(at, EndCause::SteppedDown);
                if let Some(succession) = phase.succession() {
                    succession.heir = Some(contender);
                    succession.hold_off = handoff_asked.hold_off;
                    succession.callers.push(handoff_asked.request);
                }
                return phase;
            }
            Some(PeerReply::Refused { why }) => Some(why),
            Some(PeerReply::Yielding) | None => None,
        };
        at.refused(handoff_asked.request, why);
        self
    }
}

impl Leadership {
    /// Asks the named successor first. The term ends only if it is there and ready.
    fn hand_to(
        mut self,
        at: &mut Scene,
        request: RequestId,
        to: String,
        hold_off: Duration,
    ) -> Phase {
        if self.handoff_asked.is_some() {
            at.refused(request, Some(Refusal::Busy));
        } else if !at.wire.is_up() {
            at.refused(request, None);
        } else {
            let millis = u64::try_from(hold_off.as_millis()).unwrap_or(u64::MAX);
            let asked = PeerRequest::Ready {
                to: Some(to),
                release: Some(self.held.secrets.release.hash()),
                hold_off_ms: (millis > 0).then_some(millis),
                urgent: false,
            };
            let question = at.ask(asked, Heirs::NONE);
            self.handoff_asked = Some(PendingHandoff {
                question,
                request,
                hold_off,
            });
        }
        Phase::Leading(self)
    }

    /// Asks the candidates who could lead next, unless they were asked within the last two leases.
    pub fn renew_line(&mut self, at: &mut Scene) {
        let linked = at.wire.is_up();
        let recently = at.now - poll_interval(&at.settings);
        if linked && self.line.asked.is_none_or(|asked| asked <= recently) {
            let among = self.line.to_ask();
            let question = at.ask_candidates(&self.held, among, false);
            self.line.asked(question, among, at.now);
        }
    }
}

impl Scene {
    /// Asks candidates whether they could lead: these, or all if there are none.
    fn ask_candidates(&mut self, held: &Held, among: Heirs, urgent: bool) -> PeerRequestId {
        let question = PeerRequest::Ready {
            to: None,
            release: Some(held.secrets.release.hash()),
            hold_off_ms: None,
            urgent,
        };
        self.ask(question, among)
    }

    pub fn ask(&mut self, question: PeerRequest, among: Heirs) -> PeerRequestId {
        self.last_question += 1;
        let id = PeerRequestId(self.last_question);
        // The other instance's handler is asked for its health, too.
        let within = self
            .settings
            .request_timeout
            .saturating_add(self.settings.health.timeout);
        self.emit(Effect::AskPeers {
            id,
            question,
            among,
            within,
        });
        id
    }

    /// The named successor does not take the role. `why` is `None` if no instance of that name
    /// answered.
    fn refused(&mut self, request: RequestId, why: Option<Refusal>) {
        self.tell(Event::HandoffRefused { why });
        let reply = why.map_or(Reply::SuccessorAbsent, Reply::SuccessorRefused);
        self.reply(request, reply);
    }

    /// The outcome for a role that was freed for its heir by the marker at this revision. `None`
    /// while no instance has claimed it.
    pub fn seen_after(&self, heir: &Contender, marker: u64) -> Option<Handoff> {
        let entry = self
            .observed_role
            .seen()
            .filter(|entry| entry.revision > marker)?;
        Some(match &entry.content {
            Content::Record(record) if record.incarnation == Some(heir.incarnation) => {
                Handoff::Accepted
            }
            _ => Handoff::TakenByAnother,
        })
    }
}
