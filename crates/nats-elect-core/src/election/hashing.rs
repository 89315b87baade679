//! Feeds a hasher with the state of an election. It is for model checkers alone: no rule uses it.
//!
//! Each `hash_state` names all fields of its type. So a new field asks here whether it decides
//! anything.

use std::hash::{Hash, Hasher};

use super::failing::{Failing, Led, OtherId, Streak, short};
use super::leading::Leadership;
use super::line::{Line, poll_interval};
use super::machine::Election;
use super::operations::{Operation, Operations};
use super::phase::Phase;
use super::takeover::TakeoverRequest;
use super::waiting::Waiting;
use crate::config::RoleSettings;
use crate::moment::Moment;

impl Election {
    /// Feeds a hasher everything that decides what this machine does from `now` on.
    ///
    /// Two machines that feed the same, up to a shift of time, behave the same. It is for model
    /// checkers, which must tell new situations from known ones.
    pub fn hash_state(&self, now: Moment, hasher: &mut impl Hasher) {
        let Self {
            link,
            bucket,
            phase,
            observed_role,
            attempts,
            retry,
            operations,
            reopen_at,
            stopping,
            paused,
            failures_in_a_row,
            handoffs_in_vain,
            failing,
            ordered_until,
            state,
            candidate: _,
            settings,
            // Set at the beginning of each step, or empty at its end.
            now: _,
            fresh: _,
            out: _,
            // Nothing is decided by these: they are told only.
            last_transition: _,
            link_lost_at: _,
            leader: _,
            told_connection: _,
            // These only need to be greater than the ones in use.
            last_question: _,
            last_term: _,
        } = self;
        let read_sent = operations.read_sent().unwrap_or(now);
        (link, bucket).hash(hasher);
        operations.hash_state(read_sent, hasher);
        let reopen_at = reopen_at.map(|at| at.max(now));
        (reopen_at, stopping, paused).hash(hasher);
        (failures_in_a_row, handoffs_in_vain, state).hash(hasher);
        failing.hash_state(now, settings, hasher);
        (*ordered_until).max(now).hash(hasher);
        match phase {
            Phase::Waiting(waiting) => waiting.hash_state(now, *paused, settings, hasher),
            Phase::Leading(leadership) => leadership.hash_state(now, settings, hasher),
            phase => phase.hash(hasher),
        }
        observed_role.hash_state(now, read_sent, settings, hasher);
        attempts.hash_state(hasher);
        retry.hash_state(now, hasher);
    }
}

impl Failing {
    fn hash_state(&self, now: Moment, settings: &RoleSettings, hasher: &mut impl Hasher) {
        let Self {
            own,
            // Nothing is decided by it: it is told only.
            told: _,
            others,
            led,
            in_touch,
        } = self;
        in_touch.map(|since| since < now).hash(hasher);
        let streak = |Streak { terms, until }: &Streak| (*terms, (*until).max(now));
        streak(own).hash(hasher);
        for (
            id,
            OtherId {
                incarnation,
                streak: it,
            },
        ) in others
        {
            (id, incarnation, streak(it)).hash(hasher);
        }
        if let Some(Led {
            id,
            incarnation,
            since,
            until,
        }) = led
        {
            // It does not matter by how much a term is longer than a short one.
            let lasted = until.unwrap_or(now).since(*since).min(short(settings));
            (id, incarnation, lasted, until).hash(hasher);
        }
    }
}

impl Operations {
    fn read_sent(&self) -> Option<Moment> {
        match self.pending?.what {
            Operation::Read { sent } => Some(sent),
            Operation::Write(_) | Operation::Void => None,
        }
    }

    fn hash_state(&self, read_sent: Moment, hasher: &mut impl Hasher) {
        let Self {
            pending,
            late,
            last_write,
            timeout,
            // It only needs to be greater than the ones in use.
            last_op: _,
        } = self;
        pending.map(|pending| pending.what).hash(hasher);
        for late in late {
            late.what.hash(hasher);
        }
        last_write.map(|sent| sent < read_sent).hash(hasher);
        timeout.hash_state(hasher);
    }
}

impl Waiting {
    fn hash_state(
        &self,
        now: Moment,
        paused: bool,
        settings: &RoleSettings,
        hasher: &mut impl Hasher,
    ) {
        let Self {
            unread,
            read_at,
            in_doubt,
            claim_wait,
            checked_at,
            looked_at,
            cooling_until,
            takeover_request,
            promised,
            // Nothing is decided by it: it is told only.
            warned: _,
        } = self;
        // It does not matter how long a thing has been due.
        let read_at = unread.then(|| (*read_at).max(now));
        let cooling_until = cooling_until.map(|until| until.max(now));
        // An older check does not count.
        let counts_for = if paused {
            settings.ttl
        } else {
            settings.heartbeat
        };
        let checked_at = checked_at.filter(|at| *at >= now - counts_for);
        let looked_at = looked_at.filter(|at| *at >= now - settings.ttl);
        (
            read_at,
            in_doubt,
            claim_wait,
            checked_at,
            looked_at,
            cooling_until,
        )
            .hash(hasher);
        promised
            .filter(|promised| promised.until > now)
            .hash(hasher);
        takeover_request.is_some().hash(hasher);
        if let Some(takeover_request) = takeover_request {
            takeover_request.hash_state(now, hasher);
        }
    }
}

impl Leadership {
    fn hash_state(&self, now: Moment, settings: &RoleSettings, hasher: &mut impl Hasher) {
        let Self {
            keeper,
            fencing_token,
            started,
            suspended_since,
            proofs,
            handoff_asked,
            line,
            verify_at,
            fence_in_doubt,
            check_at,
            checking,
            failed_checks,
        } = self;
        // A term of this length does not count among failures in a row.
        let lasted = now.since(*started).min(settings.max_cooldown);
        // Without a grace period the start of the outage does not matter.
        let suspended_since = suspended_since.map(|since| settings.grace.map(|_| since));
        (keeper, fencing_token, lasted, suspended_since, proofs).hash(hasher);
        handoff_asked.hash(hasher);
        line.hash_state(now, settings, hasher);
        (verify_at, fence_in_doubt, check_at).hash(hasher);
        (checking, failed_checks).hash(hasher);
    }
}

impl Line {
    fn hash_state(&self, now: Moment, settings: &RoleSettings, hasher: &mut impl Hasher) {
        let Self {
            heirs,
            poll,
            asked,
            polls_of_heirs,
        } = self;
        // A request's number only tells it from others.
        let ready = poll.as_ref().map(|poll| (&poll.ready, poll.of_heirs));
        // It does not matter how long the next one has been due.
        let asked = asked.map(|at| at.max(now - poll_interval(settings)));
        (heirs, ready, asked, polls_of_heirs).hash(hasher);
    }
}

impl TakeoverRequest {
    fn hash_state(&self, now: Moment, hasher: &mut impl Hasher) {
        let Self {
            rival,
            ask_at,
            asking,
            agreed,
        } = self;
        // A request's number only tells it from others.
        let ask_at = asking.is_none().then(|| (*ask_at).max(now));
        (rival, ask_at, asking.is_some(), agreed).hash(hasher);
    }
}
