//! The state machine of one election, and the way through one step.

use std::hash::{Hash, Hasher};

use super::effect::{Effect, Reply};
use super::input::Input;
use super::phase::Phase;
use super::scene::{Candidate, Scene};
use super::waiting::Waiting;
use crate::event::{EndCause, Vacancy};
use crate::lease::{Bequest, Failure, Fresh, Link};
use crate::moment::Moment;
use crate::status::{ConnectionStatus, LeaderInfo, RoleState};
use crate::token::FencingToken;

/// The status of an election.
#[derive(Clone, Debug, Default, PartialEq)]
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
    pub(super) phase: Phase,
    pub(super) scene: Scene,
}

impl CoreStatus {
    /// The status of an election that has not begun.
    pub fn initial(now: Moment) -> Self {
        Self {
            last_transition: now,
            ..Self::default()
        }
    }
}

impl Election {
    /// An election that knows nothing yet. Its first input is the [`Link`](crate::Link) to the bucket.
    pub fn new(candidate: Candidate, now: Moment) -> Self {
        Self {
            phase: Phase::Waiting(Waiting::new()),
            scene: Scene::new(candidate, now),
        }
    }

    /// Takes one input and returns what is to be done, in order.
    ///
    /// `now` must not go back between calls. If it does, the later time is used. `fresh` must be
    /// new at each call.
    pub fn step(&mut self, now: Moment, fresh: Fresh, input: Input) -> Vec<Effect> {
        let Self { phase, scene: at } = self;
        at.now = at.now.max(now);
        at.fresh = fresh;
        #[cfg(feature = "__mutations")]
        let input = at.disguise(input);
        let taken = std::mem::replace(phase, Phase::Stopped).take(at, input);
        let done = taken.update_takeover_request(at).run_timers(at);
        *phase = done.update_takeover_request(at);
        phase.relabel(at);
        std::mem::take(&mut at.out)
    }

    /// Feeds a hasher everything that decides what this machine does from `now` on.
    ///
    /// Two machines that feed the same, up to a shift of time, behave the same. It is for model
    /// checkers, which must tell new situations from known ones.
    pub fn hash_state(&self, now: Moment, hasher: &mut impl Hasher) {
        let mut phase = self.phase.clone();
        if let Phase::Waiting(waiting) = &mut phase {
            waiting.forget_what_is_over(now, &self.scene);
        }
        phase.hash(hasher);
        self.scene.hash_state(now, hasher);
    }

    /// When to step with [`Input::Tick`] next. `None` if only another input can change anything.
    pub fn next_wakeup(&self) -> Option<Moment> {
        self.phase
            .timers(&self.scene)
            .into_iter()
            .map(|(due, _)| due)
            .min()
    }

    /// Whether the instance has left the election. Another step has no effect.
    pub const fn is_stopped(&self) -> bool {
        matches!(self.phase, Phase::Stopped)
    }

    /// The present status.
    pub fn status(&self) -> CoreStatus {
        let Self { phase, scene: at } = self;
        let held = phase.held();
        CoreStatus {
            state: at.state,
            paused: at.paused,
            failing_until: at.failing_until(),
            kept_until: phase.kept_until(at),
            leader: at.leader.clone(),
            fencing_token: phase.fencing_token(),
            last_heartbeat: held.map(|held| held.sent),
            last_transition: at.last_transition,
            revision: at.observed_role.revision(),
            connection: at.connection(held),
            lease_until: match &phase {
                Phase::Leading(leadership) => Some(leadership.held.until),
                Phase::WindingDown(winding_down) => winding_down.lease_until(),
                _ => None,
            },
            overrun: matches!(&phase, Phase::WindingDown(it) if it.is_overrun()),
        }
    }

    /// What a companion must know to release the present term, if there is one.
    pub fn bequest(&self) -> Option<Bequest> {
        let (held, fencing_token, line) = match &self.phase {
            Phase::Leading(it) => (it.held, it.fencing_token, it.line.heirs()),
            Phase::WindingDown(it) => (it.held, it.term.fencing_token, it.succession.line),
            _ => return None,
        };
        Some(Bequest {
            incarnation: self.scene.candidate.incarnation,
            fencing_token,
            revision: held.revision,
            secret: held.secrets.release,
            line,
            lease: self.scene.settings.ttl,
        })
    }

    /// How the role became free, by what was seen last of its key.
    pub fn vacancy(&self) -> Vacancy {
        self.scene.vacancy()
    }

    /// Why the bucket cannot be used although NATS is connected. `None` if it can be, or if there
    /// is no connection.
    pub const fn link_failure(&self) -> Option<&Failure> {
        match &self.scene.wire.link {
            Link::Unusable(failure) => Some(failure),
            Link::Down { .. } | Link::Up(_) => None,
        }
    }
}

impl Phase {
    fn take(self, at: &mut Scene, input: Input) -> Self {
        match (self, input) {
            (phase, Input::Link(link)) => {
                at.wire.reopen_at = None;
                phase.link_changed(at, link)
            }
            (phase, Input::Observed(entry)) => phase.observed(at, entry),
            (phase, Input::ObservedFence(fence)) => {
                at.observed_role.watched_fence(fence, at.now);
                match phase {
                    Self::Leading(it) => it.watch_showed_fence(at, fence),
                    phase => phase,
                }
            }
            (phase, Input::WriteEnded { op, outcome }) => phase.write_ended(at, op, &outcome),
            (phase, Input::ReadEnded { op, outcome }) => phase.read_ended(at, op, outcome),
            (phase, Input::Intend(request, intent)) => phase.intend(at, request, intent),
            (phase, Input::PeerAsked { reply_to, question }) => phase.asked(at, reply_to, question),
            (phase, Input::PeerReplied { question, answer }) => {
                phase.answered(at, question, answer)
            }
            (Self::Waiting(it), Input::EndLease { request, revision }) => {
                it.end_lease(at, request, revision)
            }
            (phase, Input::EndLease { request, .. }) => {
                at.reply(request, Reply::Changed);
                phase
            }
            (Self::Leading(it), Input::Validate { request, term })
                if term.is_none_or(|term| term == it.held.term) =>
            {
                it.validate(at, request)
            }
            (phase, Input::Validate { request, .. }) => {
                at.reply(request, Reply::NotLeader);
                phase
            }
            (Self::Leading(it), Input::GraceOver { since }) => it.grace_over(at, since),
            // It is about a term that is over.
            (
                phase,
                Input::HandlerEnding { term, .. }
                | Input::HandlerEnded { term, .. }
                | Input::LeaseOver { term }
                | Input::Superseded { term }
                | Input::Health { term, .. },
            ) if !phase.is_of(term) => phase,
            (phase, Input::LeaseOver { .. }) => phase.lost(at, EndCause::LeaseExpired, None),
            (Self::Leading(it), Input::HandlerEnding { end, .. }) => it.handler_ending(at, end),
            (Self::Leading(it), Input::HandlerEnded { end, .. }) => it.handler_ended(at, end),
            (Self::WindingDown(it), Input::HandlerEnded { .. }) => it.handler_ended(at),
            (Self::Leading(it), Input::Health { healthy, .. }) => it.health_checked(at, healthy),
            (Self::Leading(it), Input::Superseded { .. }) => it.superseded(at),
            (phase @ (Self::WindingDown(_) | Self::Releasing(_)), Input::Superseded { .. }) => {
                phase.lost(at, EndCause::Superseded, None)
            }
            // A tick, or an input that means nothing in this phase.
            (phase, _) => phase,
        }
    }
}
