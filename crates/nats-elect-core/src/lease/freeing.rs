//! A lease that is revoked: a release over its record frees the key.

use std::time::Duration;

use super::attempts::Attempt;
use super::held::{Held, Stored};
use super::input::WriteOutcome;
use super::wire::Wire;
use crate::event::BucketRequest;
use crate::moment::Moment;
use crate::mutation::mutated;

/// A key that is to be freed. Nothing rests on the lease any more.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Freeing {
    pub held: Held,
    pub step: Step,
    /// When to free it no more.
    pub give_up: Moment,
}

/// The next step of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Write the release.
    Write(Replaced),
    /// Read the key first, because a heartbeat or a release was not simply confirmed.
    Look(Replaced),
    /// The release is known to stand at this revision, since this moment.
    Released { marker: u64, at: Moment },
    /// The key is not freed. The others wait for the lease.
    Forgone,
}

/// The message that a release replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replaced {
    /// Our own record.
    OwnRecord,
    /// Another client's delete marker, at this revision.
    Marker(u64),
}

impl Freeing {
    /// Frees the key by a release over this message, or lets the lease run out.
    pub fn new(held: Held, replaced: Option<Replaced>, give_up: Moment) -> Self {
        let step = match replaced {
            Some(Replaced::OwnRecord) if held.is_in_doubt() => Step::Look(Replaced::OwnRecord),
            Some(replaced) => Step::Write(replaced),
            None => Step::Forgone,
        };
        Self {
            held: held.at_rest(),
            step,
            give_up,
        }
    }

    /// The message that is still to be replaced by a release.
    pub const fn replaced(&self) -> Option<Replaced> {
        match self.step {
            Step::Write(replaced) | Step::Look(replaced) => Some(replaced),
            Step::Released { .. } | Step::Forgone => None,
        }
    }

    /// The sequence that the release expects, if one is to be written.
    pub fn over(&self) -> Option<u64> {
        self.replaced().map(|replaced| match replaced {
            Replaced::OwnRecord => self.held.revision,
            Replaced::Marker(revision) => revision,
        })
    }

    /// The revision of the release that freed the key.
    pub const fn marker(&self) -> Option<u64> {
        match self.step {
            Step::Released { marker, .. } => Some(marker),
            _ => None,
        }
    }

    /// Frees the key no more, unless the release stands already.
    pub fn forgo(&mut self) {
        if self.replaced().is_some() {
            self.step = Step::Forgone;
        }
    }

    /// Takes the answer to a release.
    pub fn answered(&mut self, outcome: &WriteOutcome, now: Moment) {
        match (outcome, self.replaced()) {
            (WriteOutcome::Acked { revision }, _) => self.released(*revision, now),
            // A late heartbeat of ours may stand there. Otherwise another instance has the key
            // already.
            (WriteOutcome::Conflict { .. } | WriteOutcome::Failed(_), Some(replaced)) => {
                self.step = Step::Look(replaced);
            }
            _ => {}
        }
    }

    const fn released(&mut self, marker: u64, at: Moment) {
        self.step = Step::Released { marker, at };
    }

    /// The watch showed a release of ours. The key is free, even if the answer is a failure.
    pub fn shown(&mut self, attempt: Attempt, marker: u64, wire: &mut Wire, now: Moment) {
        if self.held.term == attempt.term && self.marker().is_none() {
            self.released(marker, now);
            wire.attempts.settle(attempt.beat, marker);
        }
    }

    /// Takes the message that a read showed. After one that shows too little, the next one waits
    /// for `pause`.
    pub fn has_read(
        &mut self,
        stored: Option<Stored>,
        wire: &mut Wire,
        now: Moment,
        pause: Duration,
    ) {
        let Some(replaced) = self.replaced() else {
            return;
        };
        // A copy of an earlier term's write was written by another client.
        let term = self.held.term;
        let found = stored.map(|stored| {
            let attempt = wire.attempts.find(stored.nonce);
            let of_term = |attempt: &Attempt| {
                let stands = attempt.settled.is_none_or(|at| at == stored.revision);
                attempt.term == term && stands || mutated!(BelieveOldRelease)
            };
            (stored.revision, attempt.filter(of_term))
        });
        match found {
            Some((revision, _))
                if revision < self.held.revision && !mutated!(BelieveOldRelease) =>
            {
                // It is older than a confirmed write, perhaps a release of an earlier term. The
                // read is stale, or NATS lost writes.
                wire.retry.wait_until(BucketRequest::Read, now + pause);
                self.step = Step::Look(replaced);
            }
            Some((marker, Some(attempt))) if attempt.request == BucketRequest::Release => {
                wire.attempts.settle(attempt.beat, marker);
                self.released(marker, now);
            }
            Some((revision, Some(_))) => {
                self.held.stored(revision);
                self.step = Step::Write(replaced);
            }
            Some((revision, None)) if replaced == Replaced::Marker(revision) => {
                self.step = Step::Write(replaced);
            }
            _ => self.step = Step::Forgone,
        }
    }
}
