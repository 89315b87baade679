//! What must hold after every event, whatever happens.

use std::fmt::Debug;
use std::time::Duration;

use super::driver::expects;
use super::network::Kind;
use super::world::World;
use nats_elect::internals::Moment;
use nats_elect::internals::{Input, Link, TermStart, Write, WriteOutcome};

/// More steps of one instance than this in a hundredth of a virtual second are a busy loop: a round trip takes most of a
/// millisecond.
const MOST_STEPS: usize = 150;

impl World {
    /// A line for whoever looks into a failure: run the test with `ELECTION_TRACE=1`.
    pub(super) fn note(&self, node: usize, what: &str, detail: &impl Debug) {
        if self.trace {
            eprintln!("{:>12?} node-{node} {what} {detail:?}", self.now);
        }
    }

    pub(super) fn check(&mut self) {
        self.at_most_one_leads();
        // Timers of this very instant may still come.
        if self.is_instant_over() {
            self.handlers_run_in_their_leases();
        }
    }

    fn at_most_one_leads(&self) {
        if self.allowed.two_leaders {
            return;
        }
        let valid: Vec<_> = self
            .nodes
            .iter()
            .enumerate()
            .filter_map(|(i, node)| Some((i, node.valid_term(self.now)?.0)))
            .collect();
        assert!(
            valid.len() < 2,
            "two leaders at {:?}: {valid:?} (seed {})",
            self.now,
            self.seed
        );
    }

    fn handlers_run_in_their_leases(&self) {
        for (i, node) in self.nodes.iter().enumerate() {
            if node.paused {
                continue;
            }
            let now = node.clock.at(self.now);
            let allowance = node.settings.abort_allowance() * 2 + Duration::from_millis(1);
            for (id, term) in node.terms.iter().filter(|(_, term)| term.running) {
                let revoked = term.revoked.is_some_and(|at| self.now <= at + allowance);
                let blocks = term.handler.aborts_in.is_none() && term.aborted && term.overrun;
                // A process that was paused through its deadline aborts the moment it wakes.
                let just_aborted = term.aborted
                    && node.events.last().is_some_and(|(at, _)| {
                        self.now <= *at + term.handler.aborts_in.unwrap_or_default()
                    });
                assert!(
                    term.is_valid(now) || revoked || blocks || just_aborted,
                    "node-{i}'s handler of {id:?} runs outside its lease at {:?}: {term:?} (seed {})",
                    self.now,
                    self.seed
                );
            }
        }
    }

    pub(super) fn promoted(&mut self, node: usize, start: &TermStart) {
        let token = start.fencing_token;
        assert!(
            self.allowed.token_order || self.last_token.is_none_or(|last| last < token),
            "node-{node}'s token {token} is not above {:?} (seed {})",
            self.last_token,
            self.seed
        );
        self.last_token = self.last_token.max(Some(token));
        let node = &self.nodes[node];
        assert!(!node.runs_handler(), "one handler at a time");
        assert!(
            !node.terms.contains_key(&start.term),
            "a term starts only once"
        );
        let now = node.clock.at(self.now);
        assert!(
            now < start.lease - node.settings.stop_budget,
            "promoted too late to wind down in time"
        );
    }

    /// What a write must fulfil before it is sent.
    pub(super) fn may_write(&mut self, node: usize, write: &Write) {
        let over = expects(&write.kind);
        let sender = &mut self.nodes[node];
        assert!(sender.nonces.insert(write.nonce), "no nonce is used twice");
        assert!(
            over.is_none_or(|over| sender.seen.contains(&over)),
            "node-{node} writes over a revision that it was never shown: {write:?} (seed {})",
            self.seed
        );
        let kind = Kind::of(&write.kind);
        if matches!(kind, Kind::Release | Kind::Claim | Kind::Fence) {
            assert!(!sender.runs_handler(), "{kind:?} while a handler runs");
            let now = sender.clock.at(self.now);
            assert!(
                !sender.terms.values().any(|term| term.is_valid(now)),
                "{kind:?} before the lease was revoked"
            );
        }
    }

    /// What an input shows of the role's key.
    pub(super) fn learns(&mut self, node: usize, input: &Input) {
        let seen = &mut self.nodes[node].seen;
        match input {
            Input::Link(link) => self.nodes[node].told_linked = matches!(link, Link::Up(_)),
            Input::Observed(entry) => {
                seen.insert(entry.revision);
            }
            Input::ReadEnded {
                outcome: Ok(snapshot),
                ..
            } => {
                seen.insert(snapshot.role.as_ref().map_or(0, |entry| entry.revision));
            }
            Input::WriteEnded {
                outcome: WriteOutcome::Acked { revision },
                ..
            } => {
                seen.insert(*revision);
            }
            _ => {}
        }
    }

    /// After each step: time goes on.
    pub(super) fn stepped(&mut self, node: usize, now: Moment, due: Option<Moment>) {
        assert!(
            due.is_none_or(|due| due > now),
            "node-{node} wants to be woken in the past: {due:?} at {now:?} (seed {})",
            self.seed
        );
        let at = self.now;
        let recent = &mut self.nodes[node].recent;
        recent.push_back(at);
        while recent
            .front()
            .is_some_and(|first| at - *first > Duration::from_millis(10))
        {
            recent.pop_front();
        }
        assert!(
            recent.len() < MOST_STEPS,
            "node-{node} is in a busy loop at {at:?} (seed {})",
            self.seed
        );
    }
}
