//! What an election knows and has, whatever its phase, and what a step leaves to be done.

use std::hash::{Hash, Hasher};

use uuid::Uuid;

use super::effect::{Effect, Reply};
use super::failing::Failing;
use super::input::RequestId;
use super::observed_role::ObservedRole;
use crate::config::RoleSettings;
use crate::event::Event;
use crate::lease::{AdaptiveTimeout, Failure, Fresh, Wire};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::release::ReleaseSecret;
use crate::status::{ConnectionStatus, LeaderInfo, RoleState};
use crate::token::LeaseToken;

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

/// Everything of an election but its phase.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub candidate: Candidate,
    pub settings: RoleSettings,
    pub wire: Wire,
    pub observed_role: ObservedRole,
    /// The instance leaves the election. The value tells whether it frees the role.
    pub stopping: Option<bool>,
    /// The instance takes part in no election until resumed.
    pub paused: bool,
    pub failures_in_a_row: u32,
    /// The handoffs that leaders agreed to since this instance last led.
    pub handoffs_in_vain: u32,
    pub failing: Failing,
    /// Until when a term of this instance is held against higher priorities, by order.
    pub ordered_until: Moment,
    pub state: RoleState,
    pub now: Moment,
    pub fresh: Fresh,
    pub last_transition: Moment,
    /// Since when the link is not up, or a leader's heartbeats are late.
    pub suspended_since: Option<Moment>,
    pub leader: Option<LeaderInfo>,
    pub told_connection: ConnectionStatus,
    pub told_open: bool,
    pub last_question: u64,
    pub last_term: u64,
    pub out: Vec<Effect>,
}

impl Scene {
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
            told_open: false,
            last_question: 0,
            last_term: 0,
            out: Vec::new(),
            candidate,
            settings,
        }
    }

    /// Feeds a hasher everything that decides what happens from `now` on. A new field asks here
    /// whether it does.
    pub fn hash_state(&self, now: Moment, hasher: &mut impl Hasher) {
        let Self {
            wire,
            observed_role,
            stopping,
            paused,
            failures_in_a_row,
            handoffs_in_vain,
            failing,
            ordered_until,
            state,
            suspended_since,
            settings,
            // It never changes.
            candidate: _,
            // Set at the beginning of each step, or empty at its end.
            now: _,
            fresh: _,
            out: _,
            // Nothing is decided by these: they are told only.
            last_transition: _,
            leader: _,
            told_connection: _,
            told_open: _,
            // These only need to be greater than the ones in use.
            last_question: _,
            last_term: _,
        } = self;
        let mut wire = wire.clone();
        wire.forget_what_is_over(now);
        let ordered_until = ordered_until.max(&now);
        let read_sent = wire.operations.read_sent().unwrap_or(now);
        observed_role.hash_state(now, read_sent, settings, hasher);
        (wire, stopping, paused).hash(hasher);
        failing.hash_state(now, settings, hasher);
        (failures_in_a_row, handoffs_in_vain).hash(hasher);
        (ordered_until, state, suspended_since).hash(hasher);
    }

    pub fn emit(&mut self, effect: Effect) {
        self.out.push(effect);
    }

    /// Emits an effect ahead of the events that this step ends with. So a slow subscriber or
    /// exporter never delays it.
    pub fn emit_before_events(&mut self, effect: Effect) {
        let is_told = |effect: &&Effect| matches!(effect, Effect::Event(_));
        let events = self.out.iter().rev().take_while(is_told).count();
        self.out.insert(self.out.len() - events, effect);
    }

    pub fn tell(&mut self, event: Event) {
        self.out.push(Effect::Event(event));
    }

    pub fn reply(&mut self, request: RequestId, reply: Reply) {
        self.out.push(Effect::Reply { request, reply });
    }

    pub fn report(&mut self, failure: &Failure) {
        self.tell(Event::Failure {
            request: None,
            kind: failure.kind,
            detail: failure.detail.clone(),
        });
    }

    pub fn lease_until(&self, sent: Moment) -> Moment {
        mutated!(NoDriftMargin => return sent + self.settings.ttl);
        sent + self.settings.ttl - self.settings.drift_margin()
    }
}
