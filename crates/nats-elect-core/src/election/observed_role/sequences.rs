//! The sequences of the observed keys: which of them are of this bucket, and which tell of a loss.

use std::time::Duration;

use super::ObservedRole;
use crate::moment::Moment;
use crate::mutation::mutated;

/// A bucket takes at most this many messages at once.
pub(super) const BURST: u64 = 100;
/// After that it takes at most one message per so many microseconds.
const MICROS_A_MESSAGE: u64 = 10;
/// After a longer silence a sequence is not judged by that rate. A bucket may have been replaced that
/// was hardly older than a tenth of this.
const LONGEST_SILENCE: Duration = Duration::from_millis(200);
impl ObservedRole {
    /// Whether this sequence can only be of the bucket that was read.
    ///
    /// A recreated bucket begins with the time of its creation in microseconds. So its sequences
    /// lie above the old ones by the old bucket's age in microseconds, less its number of messages.
    /// The messages of a fifth of a second raise the sequence by about 20,000 at most, a tenth of its
    /// microseconds.
    pub fn is_known_sequence(&self, revision: u64, now: Moment) -> bool {
        mutated!(TrustAnyJump => return true);
        self.known_sequence.is_some_and(|(shown, at)| {
            let silence = now.since(at).min(LONGEST_SILENCE);
            let micros = u64::try_from(silence.as_micros()).unwrap_or(u64::MAX);
            revision
                <= shown
                    .saturating_add(BURST)
                    .saturating_add(micros / MICROS_A_MESSAGE)
        })
    }

    /// Takes a later sequence as the new reference, if it is in line with the earlier ones.
    pub(super) fn note_sequence(&mut self, revision: u64, now: Moment) {
        if self.is_known_sequence(revision, now) {
            self.known_sequence = Some((revision, now));
        }
    }

    /// Takes the role key's sequence from a refusal. No lease is counted from an error's text.
    /// Returns the regression as (was, is), if it is one.
    pub fn refused_at(&mut self, current: u64, now: Moment) -> Option<(u64, u64)> {
        if current != 0 && current < self.role_highest {
            let was = self.role_highest;
            self.role_highest = current;
            self.wait_longest(now);
            return Some((was, current));
        }
        mutated!(CountFromErrorText => if let Some(entry) = self.latest.as_mut().and_then(|latest| latest.entry.as_mut()) {
            entry.revision = current;
        });
        self.raise_highest(current);
        None
    }

    pub(super) fn raise_highest(&mut self, revision: u64) {
        self.role_highest = self.role_highest.max(revision);
        self.highest = self.highest.max(revision);
    }
}
