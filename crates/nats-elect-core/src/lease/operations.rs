//! The reads and writes under way. Each may be answered late.

use std::collections::VecDeque;
use std::time::Duration;

use super::attempts::Attempt;
use super::input::{Failure, OpId};
use super::retry::AdaptiveTimeout;
use crate::event::{BucketRequest, FailureKind};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::unhashed::Unhashed;

/// A read asks for the keys, and then for the bucket.
const READ_ROUND_TRIPS: u32 = 2;
/// The most operations that are remembered after their timeout. Each may still be answered.
pub const MOST_LATE: usize = 8;

/// The operation under way, and those whose answer may come late.
#[derive(Clone, Debug, Hash)]
pub struct Operations {
    /// There is never more than one.
    pending: Option<Pending>,
    /// Operations without an answer in time.
    late: VecDeque<Pending>,
    timeout: AdaptiveTimeout,
    last_op: Unhashed<u64>,
}

/// An operation that was sent, with its number.
#[derive(Clone, Copy, Debug, Hash)]
struct Pending {
    op: Unhashed<OpId>,
    what: Operation,
    /// Whether a write was sent since. A read tells nothing of it.
    is_overtaken: bool,
}

#[derive(Clone, Copy, Debug, Hash)]
pub enum Operation {
    Read {
        sent: Moment,
    },
    Write(Attempt),
    /// The operation went to a bucket that was replaced. Its answer tells nothing.
    Void,
}

impl Operation {
    const fn round_trips(self) -> u32 {
        match self {
            Self::Read { .. } => READ_ROUND_TRIPS,
            Self::Write(_) | Self::Void => 1,
        }
    }

    const fn is_read(self) -> bool {
        matches!(self, Self::Read { .. })
    }
}

impl Operations {
    pub const fn new(timeout: AdaptiveTimeout) -> Self {
        Self {
            pending: None,
            late: VecDeque::new(),
            timeout,
            last_op: Unhashed(0),
        }
    }

    /// Whether an operation is under way.
    pub const fn is_busy(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether a read is under way.
    pub fn is_reading(&self) -> bool {
        self.pending.is_some_and(|pending| pending.what.is_read())
    }

    /// Whether the attempt with this beat is under way and not timed out.
    pub fn awaits(&self, attempt: u64) -> bool {
        let what = self.pending.map(|pending| pending.what);
        matches!(what, Some(Operation::Write(write)) if write.beat == attempt)
    }

    /// The timeout of a read.
    pub fn read_takes(&self) -> Duration {
        self.timeout.within(READ_ROUND_TRIPS)
    }

    /// Remembers an operation that is sent now. Returns its number and its timeout.
    pub fn begin(&mut self, what: Operation) -> (OpId, Duration) {
        *self.last_op += 1;
        let op = OpId(*self.last_op);
        if matches!(what, Operation::Write(_)) {
            self.late.iter_mut().for_each(|it| it.is_overtaken = true);
        }
        self.pending = Some(Pending {
            op: Unhashed(op),
            what,
            is_overtaken: false,
        });
        (op, self.timeout.within(what.round_trips()))
    }

    /// Takes the operation that this is the answer to, or the lack of one. One that timed out is
    /// remembered, because its answer may come late. Then it counts only if it `proves` something.
    pub fn finish(
        &mut self,
        op: OpId,
        failure: Option<&Failure>,
        proves: bool,
        now: Moment,
    ) -> Option<Operation> {
        let Some(pending) = self.pending.take_if(|pending| *pending.op == op) else {
            return if proves {
                self.finish_late(op, now)
            } else {
                None
            };
        };
        if failure.is_none_or(|failure| failure.kind != FailureKind::Timeout) {
            self.learn_pace(pending.what, false, now);
        } else if !matches!(pending.what, Operation::Void) && !mutated!(DropLateAnswers) {
            if self.late.len() == MOST_LATE {
                self.late.pop_front();
            }
            self.late.push_back(pending);
        }
        Some(pending.what)
    }

    /// A read that was sent before the last write counts for nothing.
    fn finish_late(&mut self, op: OpId, now: Moment) -> Option<Operation> {
        let index = self.late.iter().position(|late| *late.op == op)?;
        let Pending {
            what, is_overtaken, ..
        } = self.late.remove(index)?;
        self.learn_pace(what, true, now);
        if what.is_read() && is_overtaken {
            return None;
        }
        // The same answer serves a read that was sent meanwhile, or shows more than that.
        self.forget_reads();
        Some(what)
    }

    /// Forgets the reads under way, because a write turned out to be stored. They may show less
    /// than that, and there is no need to wait for them.
    pub fn forget_reads(&mut self) {
        self.pending.take_if(|pending| pending.what.is_read());
        self.late.retain(|late| !late.what.is_read());
    }

    /// Forgets a heartbeat over a sequence below this one, at which an earlier heartbeat turned out
    /// to be stored. It can't be stored any more, so there is no need to wait for it.
    pub fn forget_heartbeats(&mut self, sequence: u64) {
        mutated!(AwaitWhatIsRefused => return);
        self.pending.take_if(|pending| match pending.what {
            Operation::Write(write) => {
                write.request == BucketRequest::Heartbeat && write.over < sequence
            }
            Operation::Read { .. } | Operation::Void => false,
        });
    }

    /// Forgets what is under way, because the bucket was replaced.
    pub fn bucket_replaced(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.what = Operation::Void;
        }
        self.late.clear();
    }

    /// When the read under way was sent.
    pub fn read_sent(&self) -> Option<Moment> {
        match self.pending?.what {
            Operation::Read { sent } => Some(sent),
            Operation::Write(_) | Operation::Void => None,
        }
    }

    fn learn_pace(&mut self, what: Operation, late: bool, now: Moment) {
        let sent = match what {
            Operation::Read { sent } => sent,
            Operation::Write(write) => write.sent,
            Operation::Void => return,
        };
        self.timeout
            .answered(now.since(sent), what.round_trips(), late);
    }
}
