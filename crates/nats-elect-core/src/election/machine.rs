//! The state of one election, and the way through one step.

use uuid::Uuid;

use super::effect::{Effect, Reply};
use super::failing::Failing;
use super::input::{Input, PeerRequestId, RequestId};
use super::observed_role::ObservedRole;
use super::phase::Phase;
use super::waiting::Waiting;
use crate::config::RoleSettings;
use crate::event::Event;
use crate::lease::{AdaptiveTimeout, Bequest, Failure, Fresh, TermId, Wire};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::release::ReleaseSecret;
use crate::status::{ConnectionStatus, LeaderInfo, RoleState};
use crate::token::{FencingToken, LeaseToken};

/// A candidate for a role, with its settings.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The instance id, as records show it.
    pub instance_id: String,
    /// The start of this instance. Together with the id it is the instance's identity.
    pub incarnation: Uuid,
    /// The first beat to use. It must be greater than every beat that an earlier machine of this
    /// incarnation used.
    pub first_beat: u64,
    /// Whether the election begins paused.
    pub paused: bool,
    /// The role's settings.
    pub settings: RoleSettings,
}

/// The status of an election.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreStatus {
    /// The instance's state.
    pub state: RoleState,
    /// Whether the instance is paused.
    pub paused: bool,
    /// Until when the instance counts as one whose terms keep failing.
    pub failing_until: Option<Moment>,
    /// Until when the instance, which leads by an operator's order, keeps the role against higher
    /// priorities.
    pub kept_until: Option<Moment>,
    /// The known leader, if there is one.
    pub leader: Option<LeaderInfo>,
    /// The fencing token of this instance's term, until its role is freed or given up.
    pub fencing_token: Option<FencingToken>,
    /// When the last confirmed write of the held lease was sent.
    pub last_heartbeat: Option<Moment>,
    /// When the state last changed.
    pub last_transition: Moment,
    /// The revision last seen under the role's key.
    pub revision: Option<u64>,
    /// How much of NATS the role can rely on.
    pub connection: ConnectionStatus,
    /// The end of this instance's lease, unless it was revoked.
    pub lease_until: Option<Moment>,
    /// Whether a handler still runs although its lease is over.
    pub overrun: bool,
}

/// One instance's side of one role's election.
///
/// The [crate's front page](crate) tells how to drive it.
#[derive(Clone, Debug)]
pub struct Election {
    pub(super) candidate: Candidate,
    pub(super) settings: RoleSettings,
    pub(super) wire: Wire,
    pub(super) phase: Phase,
    pub(super) observed_role: ObservedRole,
    /// The instance leaves the election. The value tells whether it frees the role.
    pub(super) stopping: Option<bool>,
    /// The instance takes part in no election until resumed.
    pub(super) paused: bool,
    pub(super) failures_in_a_row: u32,
    /// The handoffs that leaders agreed to since this instance last led.
    pub(super) handoffs_in_vain: u32,
    pub(super) failing: Failing,
    /// Until when a term of this instance is held against higher priorities, by order.
    pub(super) ordered_until: Moment,
    pub(super) state: RoleState,
    pub(super) now: Moment,
    pub(super) fresh: Fresh,
    pub(super) last_transition: Moment,
    /// Since when the link is not up, or a leader's heartbeats are late.
    pub(super) suspended_since: Option<Moment>,
    pub(super) leader: Option<LeaderInfo>,
    pub(super) told_connection: ConnectionStatus,
    pub(super) last_question: u64,
    pub(super) last_term: u64,
    pub(super) out: Vec<Effect>,
}

impl CoreStatus {
    /// The status of an election that has not begun.
    pub const fn initial(now: Moment) -> Self {
        Self {
            state: RoleState::Init,
            paused: false,
            failing_until: None,
            kept_until: None,
            leader: None,
            fencing_token: None,
            last_heartbeat: None,
            last_transition: now,
            revision: None,
            connection: ConnectionStatus::Suspended,
            lease_until: None,
            overrun: false,
        }
    }
}

impl Election {
    /// An election that knows nothing yet. Its first input is the [`Link`](crate::Link) to the bucket.
    pub fn new(candidate: Candidate, now: Moment) -> Self {
        let settings = candidate.settings.clone();
        Self {
            wire: Wire::new(
                candidate.incarnation,
                candidate.first_beat,
                settings.retry.clone(),
                AdaptiveTimeout::new(settings.request_timeout, settings.ttl),
                now,
            ),
            phase: Phase::Waiting(Waiting::new()),
            observed_role: ObservedRole::new(
                candidate.incarnation,
                settings.ttl,
                settings.handoff_hold(),
            ),
            stopping: None,
            paused: candidate.paused,
            failures_in_a_row: 0,
            handoffs_in_vain: 0,
            failing: Failing::default(),
            ordered_until: Moment::default(),
            state: RoleState::Init,
            now,
            fresh: Fresh {
                lease_token: LeaseToken::new(Uuid::nil()),
                release_secret: ReleaseSecret::new(0),
                chance: 0.5,
            },
            last_transition: now,
            suspended_since: Some(now),
            leader: None,
            told_connection: ConnectionStatus::Suspended,
            last_question: 0,
            last_term: 0,
            out: Vec::new(),
            candidate,
            settings,
        }
    }

    /// Takes one input and returns what is to be done, in order.
    ///
    /// `now` must not go back between calls. If it does, the later time is used. `fresh` must be
    /// new at each call.
    pub fn step(&mut self, now: Moment, fresh: Fresh, input: Input) -> Vec<Effect> {
        self.now = self.now.max(now);
        self.fresh = fresh;
        #[cfg(feature = "__mutations")]
        let input = self.disguise(input);
        self.take(input);
        self.update_takeover_request();
        self.run_timers();
        self.update_takeover_request();
        self.relabel();
        std::mem::take(&mut self.out)
    }

    /// When to step with [`Input::Tick`] next. `None` if only another input can change anything.
    pub fn next_wakeup(&self) -> Option<Moment> {
        self.timers().into_iter().map(|(due, _)| due).min()
    }

    /// Whether the instance has left the election. Another step has no effect.
    pub const fn is_stopped(&self) -> bool {
        matches!(self.phase, Phase::Stopped)
    }

    /// The present status.
    pub fn status(&self) -> CoreStatus {
        let held = self.phase.held();
        CoreStatus {
            state: self.state,
            paused: self.paused,
            failing_until: self.failing_until(),
            kept_until: self.kept_until(),
            leader: self.leader.clone(),
            fencing_token: self.phase.fencing_token(),
            last_heartbeat: held.map(|held| held.sent),
            last_transition: self.last_transition,
            revision: self.observed_role.revision(),
            connection: self.connection(held),
            lease_until: match &self.phase {
                Phase::Leading(leadership) => Some(leadership.held.until),
                Phase::WindingDown(winding_down) => winding_down.lease_until(),
                _ => None,
            },
            overrun: matches!(&self.phase, Phase::WindingDown(it) if it.is_overrun()),
        }
    }

    /// What a companion must know to release the present term, if there is one.
    pub fn bequest(&self) -> Option<Bequest> {
        let (held, fencing_token) = match &self.phase {
            Phase::Leading(it) => (it.held, it.fencing_token),
            Phase::WindingDown(it) => (it.held, it.fencing_token),
            Phase::Waiting(_) | Phase::Acquiring(_) | Phase::Releasing(_) | Phase::Stopped => {
                return None;
            }
        };
        Some(Bequest {
            incarnation: self.candidate.incarnation,
            fencing_token,
            revision: held.revision,
            secret: held.secrets.release,
            line: self.phase.heirs(),
            lease: self.settings.ttl,
        })
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Tick => {}
            Input::Link(link) => {
                self.wire.reopen_at = None;
                self.link_changed(link);
            }
            Input::GraceOver { since } => self.grace_over(since),
            Input::Observed(entry) => self.observed(entry),
            Input::ObservedFence(fence) => {
                self.observed_role.watched_fence(fence, self.now);
                self.watch_showed_fence(fence);
            }
            Input::WriteEnded { op, outcome } => self.write_ended(op, &outcome),
            Input::ReadEnded { op, outcome } => self.read_ended(op, outcome),
            Input::HandlerEnding { term, end } => self.handler_ending(term, end),
            Input::HandlerEnded { term, end } => self.handler_ended(term, end),
            Input::LeaseOver { term } => self.lease_over(term),
            Input::Superseded { term } => self.superseded(term),
            Input::Health { term, healthy } => self.health_checked(term, healthy),
            Input::Intend(request, intent) => self.intend(request, intent),
            Input::PeerAsked { reply_to, question } => self.asked(reply_to, question),
            Input::PeerReplied { question, answer } => self.answered(question, answer),
            Input::Validate { request, term } => self.validate(request, term),
            Input::EndLease { request, revision } => self.end_lease(request, revision),
            Input::Tell(info) => self.tell_of_member(*info),
        }
    }

    pub(super) fn emit(&mut self, effect: Effect) {
        self.out.push(effect);
    }

    /// Emits an effect ahead of the events that this step ends with. So a slow subscriber or
    /// exporter never delays it.
    pub(super) fn emit_before_events(&mut self, effect: Effect) {
        let is_told = |effect: &&Effect| matches!(effect, Effect::Event(_));
        let events = self.out.iter().rev().take_while(is_told).count();
        self.out.insert(self.out.len() - events, effect);
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.out.push(Effect::Event(event));
    }

    pub(super) fn reply(&mut self, request: RequestId, reply: Reply) {
        self.out.push(Effect::Reply { request, reply });
    }

    pub(super) fn report(&mut self, failure: &Failure) {
        self.tell(Event::Failure {
            request: None,
            kind: failure.kind,
            detail: failure.detail.clone(),
        });
    }

    pub(super) fn lease_until(&self, sent: Moment) -> Moment {
        mutated!(NoDriftMargin => return sent + self.settings.ttl);
        sent + self.settings.ttl - self.settings.drift_margin()
    }

    pub(super) fn next_question(&mut self) -> PeerRequestId {
        self.last_question += 1;
        PeerRequestId(self.last_question)
    }

    /// Numbers a new acquisition.
    pub(super) fn next_term(&mut self) -> TermId {
        self.last_term += 1;
        TermId(self.last_term)
    }
}
