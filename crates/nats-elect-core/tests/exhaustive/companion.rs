//! Companions of processes that died. What one writes arrives at any later time, or never.

use std::time::Duration;

use nats_elect_core::{Bequest, LastWill, Moment, OpId, TermId, WillStep, Write, WriteKind};

use crate::turn::Turn;

/// The lease of a will is never over here: its companion may be as late as it likes.
const DEATH: Moment = Moment::from_nanos(0);

impl Turn<'_> {
    /// The process has died: its companion releases over the record that it was told of. Later it
    /// may read what stands there.
    pub fn mourn(&mut self, bequest: Bequest) {
        let (_, step) = carried_out(bequest);
        self.send_as_companion(&step);
        self.state.wills.push(bequest);
    }

    pub fn companion_reads(&mut self, will: usize) {
        let bequest = self.state.wills.remove(will);
        let (mut will, _) = carried_out(bequest);
        let snapshot = self.state.bucket.snapshot();
        let step = will.read(DEATH, &Ok(snapshot));
        self.send_as_companion(&step);
    }

    fn send_as_companion(&mut self, step: &WillStep) {
        let WillStep::Release { over, release } = *step else {
            return;
        };
        let Some(nonce) = release.nonce else {
            unreachable!("a companion proves what it writes");
        };
        self.haunt(Write {
            op: OpId(0),
            term: TermId(0),
            nonce,
            within: Duration::ZERO,
            kind: WriteKind::Release { over, release },
        });
    }
}

/// The will as it is once its first release is under way.
fn carried_out(bequest: Bequest) -> (LastWill, WillStep) {
    let mut will = LastWill::new(bequest);
    let step = will.died(DEATH, Some(bequest.fencing_token.epoch));
    (will, step)
}

/// Whether no election has written that.
pub const fn is_of_companion(write: &Write) -> bool {
    write.nonce.beat >> 63 > 0
}
