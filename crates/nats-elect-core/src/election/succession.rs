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
use super::line::poll_interval;
use super::machine::Election;
use super::phase::Phase;
use crate::event::{EndCause, Event};
use crate::handoff::Handoff;
use crate::heirs::{Heirs, TURN};
use crate::moment::Moment;
use crate::peer::{Contender, PeerReply, PeerRequest, Refusal};
use crate::record::Content;
use crate::release::ReleaseHash;
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
    search_at: Option<Moment>,
    search: Option<Search>,
    /// Whether a release was sent. Its heir can no longer change.
    closed: bool,
    /// Whether the keys were read since the release.
    looked: bool,
    /// How long this instance stays out.
    hold_off: Duration,
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

    pub const fn search_at(&self) -> Option<Moment> {
        self.search_at
    }

    pub const fn heir(&self) -> Option<&Contender> {
        self.heir.as_ref()
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

    pub const fn close(&mut self) {
        self.closed = true;
    }

    pub const fn looked(&mut self) {
        self.looked = true;
    }

    pub const fn has_looked(&self) -> bool {
        self.looked
    }

    pub const fn hold_off(&self) -> Duration {
        self.hold_off
    }

    /// Whether an heir may still be named. An heir that an operator named stays.
    pub fn may_name_heir(&self, cause: Option<EndCause>) -> bool {
        !self.closed && (self.heir.is_none() || cause == Some(EndCause::Preempted))
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

impl Election {
    pub(super) fn step_down(
        &mut self,
        request: RequestId,
        to: Option<String>,
        expected: Option<FencingToken>,
        hold_off: Duration,
    ) {
        if expected.is_some() && expected != self.phase.fencing_token() {
            self.reply(request, Reply::NotLeader);
            return;
        }
        if let Some(to) = to {
            self.hand_to(request, to, hold_off);
            return;
        }
        self.wind_down(EndCause::SteppedDown);
        if let Some(succession) = self.phase.succession() {
            succession.hold_off = succession.hold_off.max(hold_off);
        }
        self.answer_at_end(request);
    }

    /// Answers the caller that ended a term when its handler has ended and the role is freed, or
    /// can't be.
    pub(super) fn answer_at_end(&mut self, request: RequestId) {
        let is_term = self.phase.fencing_token().is_some();
        match self.phase.succession() {
            Some(succession) if is_term => succession.callers.push(request),
            _ => self.reply(request, Reply::NotLeader),
        }
    }

    /// Asks the named successor first. The term ends only if it is there and ready.
    fn hand_to(&mut self, request: RequestId, to: String, hold_off: Duration) {
        let Phase::Leading(leadership) = &self.phase else {
            self.reply(request, Reply::NotLeader);
            return;
        };
        if leadership.handoff_asked.is_some() {
            self.refused(request, Some(Refusal::Busy));
            return;
        }
        if !self.wire.is_up() {
            self.refused(request, None);
            return;
        }
        let release = Some(leadership.held.secrets.release.hash());
        let millis = u64::try_from(hold_off.as_millis()).unwrap_or(u64::MAX);
        let question = self.ask(PeerRequest::Ready {
            to: Some(to),
            release,
            hold_off_ms: (millis > 0).then_some(millis),
            urgent: false,
        });
        if let Phase::Leading(leadership) = &mut self.phase {
            leadership.handoff_asked = Some(PendingHandoff {
                question,
                request,
                hold_off,
            });
        }
    }

    /// Asks the candidates who could lead next, unless they were asked within the last two leases.
    pub(super) fn renew_line(&mut self) {
        let linked = self.wire.is_up() && !self.is_of_member();
        let recently = self.now - poll_interval(&self.settings);
        let Phase::Leading(leadership) = &self.phase else {
            return;
        };
        if !linked || leadership.line.asked.is_some_and(|at| at > recently) {
            return;
        }
        let among = leadership.line.to_ask();
        let release = leadership.held.secrets.release.hash();
        let question = self.ask_candidates(release, among, false);
        if let Phase::Leading(leadership) = &mut self.phase {
            leadership.line.asked(question, among, self.now);
        }
    }

    /// Sees to it that the role is handed over and not left to a race: the candidates are asked
    /// which is ready while the handler winds down. A line of succession is good enough for a
    /// handler that ends at once, as most do. The question would only be in the way of the release.
    pub(super) fn find_heir(&mut self) {
        match self.phase.succession() {
            Some(succession) if !succession.line.is_empty() => {
                succession.search_at = Some(self.now + TURN);
            }
            _ => self.search_heir(),
        }
    }

    pub(super) fn search_heir(&mut self) {
        if let Some(succession) = self.phase.succession() {
            succession.search_at = None;
        }
        if !self.wire.is_up() || self.is_of_member() {
            return;
        }
        let Some(held) = self.phase.held() else {
            return;
        };
        let release = held.secrets.release.hash();
        let question = self.ask_candidates(release, Heirs::NONE, true);
        let asked = self.now;
        let until = asked + self.settings.request_timeout / 5;
        if let Some(succession) = self.phase.succession() {
            succession.search = Some(Search {
                question,
                asked,
                until,
            });
        }
    }

    /// Asks candidates whether they could lead: these, or all if there are none.
    fn ask_candidates(
        &mut self,
        release: ReleaseHash,
        among: Heirs,
        urgent: bool,
    ) -> PeerRequestId {
        let question = PeerRequest::Ready {
            to: None,
            release: Some(release),
            hold_off_ms: None,
            urgent,
        };
        self.ask_among(question, among)
    }

    pub(super) fn ask(&mut self, question: PeerRequest) -> PeerRequestId {
        self.ask_among(question, Heirs::NONE)
    }

    fn ask_among(&mut self, question: PeerRequest, among: Heirs) -> PeerRequestId {
        let id = self.next_question();
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

    pub(super) fn answered(&mut self, question: PeerRequestId, answer: Option<PeerReply>) {
        if let Phase::Leading(leadership) = &mut self.phase {
            let asked = |handoff_asked: &mut PendingHandoff| handoff_asked.question == question;
            if let Some(handoff_asked) = leadership.handoff_asked.take_if(asked) {
                self.successor_answered(handoff_asked, answer);
                return;
            }
        }
        if let Some(PeerReply::Ready { contender }) = &answer
            && self.keeps_failing(&contender.id)
        {
            return;
        }
        match &mut self.phase {
            Phase::Leading(leadership) => leadership.line.answered(question, answer),
            Phase::Waiting(_) => self.leader_answered(question, answer.as_ref()),
            phase => {
                if let Some(succession) = phase.succession() {
                    succession.answered(question, answer, self.now, self.settings.priority);
                }
            }
        }
    }

    fn successor_answered(&mut self, handoff_asked: PendingHandoff, answer: Option<PeerReply>) {
        match answer {
            Some(PeerReply::Ready { contender }) => {
                self.wind_down(EndCause::SteppedDown);
                if let Some(succession) = self.phase.succession() {
                    succession.heir = Some(contender);
                    succession.hold_off = handoff_asked.hold_off;
                    succession.callers.push(handoff_asked.request);
                }
            }
            Some(PeerReply::Refused { why }) => self.refused(handoff_asked.request, Some(why)),
            Some(PeerReply::Yielding) | None => self.refused(handoff_asked.request, None),
        }
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
    pub(super) fn seen_after(&self, heir: &Contender, marker: u64) -> Option<Handoff> {
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
