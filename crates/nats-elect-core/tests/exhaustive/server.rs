//! What happens at the server: requests take effect, watchers are told.

use std::sync::Arc;
use std::time::Duration;

use nats_elect_core::record::Content;
use nats_elect_core::{Write, WriteKind, WriteOutcome};

use crate::companion::is_of_companion;
use crate::fault::Fault;
use crate::instance::{Answer, Asks, Instance, Progress};
use crate::properties::Witness;
use crate::turn::Turn;

/// Messages of the watch that wait for a process, at most. Of more, those between the first and the
/// last are lost.
const MOST_WAITING: usize = 3;

impl Turn<'_> {
    /// The request of this instance takes effect.
    pub fn arrive(&mut self, index: usize, stale: bool) {
        let request = self.state.instances[index].process.as_ref();
        let Some(request) = request.and_then(|process| process.request.clone()) else {
            return;
        };
        let answer = match request.asks {
            Asks::Read if stale => Answer::Read(self.state.bucket.stale_snapshot(1)),
            Asks::Read => Answer::Read(self.state.bucket.snapshot()),
            Asks::Write(write) => Answer::Write(self.commit(&write)),
        };
        if let Some(tale) = &mut self.tale {
            tale.push(format!("    server answers {answer:?}"));
        }
        if let Some(request) = &mut self.process(index).request {
            request.progress = Progress::Answered(answer);
        }
    }

    /// A write that was given up takes effect, if it still can.
    pub fn arrive_late(&mut self, ghost: usize) {
        self.state.leaderless = 0;
        let write = self.state.ghosts.remove(ghost);
        let outcome = self.commit(&write);
        if let Some(tale) = &mut self.tale {
            tale.push(format!("    server takes {write:?}: {outcome:?}"));
        }
        if matches!(outcome, WriteOutcome::Acked { .. }) {
            self.state.witnessed.add(Witness::GhostCommitted);
        }
    }

    /// A write was given up, and is still under way.
    pub fn haunt(&mut self, write: Write) {
        self.state.ghosts.push(write);
        self.lay_ghosts();
    }

    fn commit(&mut self, write: &Write) -> WriteOutcome {
        let was_marker = matches!(
            self.state.bucket.role().map(|entry| &entry.content),
            Some(Content::ForeignMarker)
        );
        let outcome = Arc::make_mut(&mut self.state.bucket).write(write, Duration::ZERO);
        if !matches!(outcome, WriteOutcome::Acked { .. }) {
            return outcome;
        }
        match write.kind {
            WriteKind::Fence { .. } => self.lay_ghosts(),
            WriteKind::Release { .. } => {
                if is_of_companion(write) {
                    self.witness(Witness::WillCarriedOut);
                }
                self.state.witnessed.add(if was_marker {
                    Witness::ReleasedOverMarker
                } else {
                    Witness::Released
                });
                self.announce();
            }
            WriteKind::Claim { .. } | WriteKind::Renew { .. } => self.announce(),
        }
        outcome
    }

    /// Tells all watchers of the role's key.
    pub fn announce(&mut self) {
        self.lay_ghosts();
        if !self.configuration.watch {
            return;
        }
        let echo = self.configuration.echo;
        let Some(entry) = self.state.bucket.role().cloned() else {
            return;
        };
        for index in 0..self.state.instances.len() {
            let process = self.state.instances[index].process.as_ref();
            if process.is_none_or(|process| !process.linked) {
                continue;
            }
            let own = Instance::incarnation(index, self.state.instances[index].life);
            let writer = entry.content.nonce().map(|nonce| nonce.incarnation);
            if writer == Some(own) && !echo {
                continue;
            }
            let watch = &mut self.process(index).watch;
            if watch.len() == MOST_WAITING {
                watch.remove(1);
            }
            watch.push_back((entry.clone(), 0));
        }
    }

    /// Forgets late writes that can't take effect any more: a key never comes back to a sequence
    /// that it has left, except to none at all by a purge.
    fn lay_ghosts(&mut self) {
        if self.state.ghosts.is_empty() {
            return;
        }
        let bucket = &self.state.bucket;
        let role = bucket.role().map_or(0, |entry| entry.revision);
        let fence = bucket.fence().map_or(0, |fence| fence.revision);
        let purge = self.state.faults.may(Fault::Purge);
        self.state.ghosts.retain(|ghost| {
            let (is, expected) = match ghost.kind {
                WriteKind::Claim { over, .. }
                | WriteKind::Renew { over, .. }
                | WriteKind::Release { over, .. } => (role, over),
                WriteKind::Fence { over, .. } => (fence, over),
            };
            is == expected || (expected == 0 && purge)
        });
    }
}
