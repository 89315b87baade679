//! Feeds a hasher with the state of an election. It is for model checkers alone: no rule uses it.
//!
//! What is hashed is a copy in which everything that decides nothing is the same. It does not matter
//! how long a thing has been due or over, nor by which number a request is told from others. What is not
//! copied whole names all its fields, so that a new one asks here whether it decides anything.

use std::hash::{Hash, Hasher};

use super::input::PeerRequestId;
use super::leading::Leadership;
use super::line::{Line, poll_interval};
use super::machine::Election;
use super::phase::Phase;
use super::scene::Scene;
use super::streak::{Failing, short};
use super::takeover::TakeoverRequest;
use super::waiting::Waiting;
use crate::config::RoleSettings;
use crate::moment::Moment;

/// In the place of a moment that decides nothing.
const WHENEVER: Moment = Moment::from_nanos(0);
/// In the place of the number of a request.
const ANY_REQUEST: PeerRequestId = PeerRequestId(0);

impl Election {
    /// Feeds a hasher everything that decides what this machine does from `now` on.
    ///
    /// Two machines that feed the same, up to a shift of time, behave the same. It is for model
    /// checkers, which must tell new situations from known ones.
    pub fn hash_state(&self, now: Moment, hasher: &mut impl Hasher) {
        let Self { phase, scene } = self;
        let Scene {
            settings,
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
        } = scene;
        let read_sent = wire.operations.read_sent().unwrap_or(now);
        let mut phase = phase.clone();
        match &mut phase {
            Phase::Waiting(waiting) => waiting.normalise(now, *paused, settings),
            Phase::Leading(leadership) => leadership.normalise(now, settings),
            _ => {}
        }
        // Without a grace period the start of the outage does not matter.
        let suspended = suspended_since.is_some() && phase.is_leading();
        let suspended_since = settings.grace.and(*suspended_since);
        (suspended, suspended_since).hash(hasher);
        (phase, state).hash(hasher);
        (stopping, paused, failures_in_a_row).hash(hasher);
        let ordered_until = (*ordered_until).max(now);
        (handoffs_in_vain, ordered_until).hash(hasher);
        failing.hash_state(now, settings, hasher);
        observed_role.hash_state(now, read_sent, settings, hasher);
        wire.hash_state(now, hasher);
    }
}

impl Failing {
    fn hash_state(&self, now: Moment, settings: &RoleSettings, hasher: &mut impl Hasher) {
        let mut it = self.clone();
        it.told = None;
        let in_touch = it.in_touch.take().map(|since| since < now);
        let streaks = it.others.values_mut().map(|other| &mut other.streak);
        for streak in streaks.chain([&mut it.own]) {
            streak.until = streak.until.max(now);
        }
        // It does not matter by how much a term is longer than a short one.
        let lasted = it.led.as_mut().map(|led| {
            let since = std::mem::replace(&mut led.since, WHENEVER);
            led.until.unwrap_or(now).since(since).min(short(settings))
        });
        (it, in_touch, lasted).hash(hasher);
    }
}

impl Waiting {
    fn normalise(&mut self, now: Moment, paused: bool, settings: &RoleSettings) {
        self.read_at = if self.unread {
            self.read_at.max(now)
        } else {
            WHENEVER
        };
        self.cooling_until = self.cooling_until.map(|until| until.max(now));
        // An older check does not count.
        let counts_for = if paused {
            settings.ttl
        } else {
            settings.heartbeat
        };
        self.checked_at.take_if(|at| *at < now - counts_for);
        self.looked_at.take_if(|at| *at < now - settings.ttl);
        self.promised.take_if(|promised| promised.until <= now);
        self.warned = None;
        if let Some(takeover_request) = &mut self.takeover_request {
            takeover_request.normalise(now);
        }
    }
}

impl Leadership {
    fn normalise(&mut self, now: Moment, settings: &RoleSettings) {
        // A term of this length does not count among failures in a row.
        self.started = self.started.max(now - settings.max_cooldown);
        self.line.normalise(now, settings);
    }
}

impl Line {
    fn normalise(&mut self, now: Moment, settings: &RoleSettings) {
        if let Some(poll) = &mut self.poll {
            poll.question = ANY_REQUEST;
        }
        let interval = poll_interval(settings);
        self.asked = self.asked.map(|at| at.max(now - interval));
    }
}

impl TakeoverRequest {
    fn normalise(&mut self, now: Moment) {
        self.ask_at = if self.asking.is_none() {
            self.ask_at.max(now)
        } else {
            WHENEVER
        };
        self.asking = self.asking.map(|_| ANY_REQUEST);
    }
}
