//! What an election may know, by the inputs that it was told.

use nats_elect_core::event::FailureKind;
use nats_elect_core::record::Snapshot;
use nats_elect_core::{Failure, Input, Intent, Link, OpId, WriteOutcome};

use super::{Late, Life, MOST_LATE, Request};

impl Life {
    /// What an input shows.
    pub(super) fn learn(&mut self, input: &Input) {
        match input {
            Input::Link(Link::Up(bucket)) => {
                // A bucket whose keys are dropped too soon is as good as none.
                if bucket
                    .max_age
                    .is_some_and(|max_age| max_age < self.settings.ttl)
                {
                    self.link = None;
                    return;
                }
                if let Some(old) = self.bucket.filter(|old| old.epoch != bucket.epoch) {
                    self.void = true;
                    self.late.clear();
                    self.shown.clear();
                    self.shown_fence.clear();
                    if bucket.epoch < old.epoch {
                        // Only the order within growing creation times is promised.
                        self.last_token = None;
                    }
                }
                self.link = Some(*bucket);
                self.bucket = Some(*bucket);
            }
            Input::Link(_) => self.link = None,
            Input::Intend(_, Intent::Pause | Intent::Cordon) => self.paused = true,
            Input::Intend(_, Intent::Resume) => self.paused = false,
            Input::Observed(entry) => {
                self.shown.insert(entry.revision);
            }
            Input::ObservedFence(fence) => {
                self.shown_fence.insert(fence.revision);
            }
            Input::WriteEnded { op, outcome } if self.is_pending(*op) => {
                let told = matches!(self.pending, Some(Request::Write(_))) && !self.void;
                if let (true, WriteOutcome::Acked { revision }) = (told, outcome) {
                    self.shown.insert(*revision);
                    self.shown_fence.insert(*revision);
                }
                self.ended(matches!(outcome, WriteOutcome::Failed(failure) if times_out(failure)));
            }
            Input::WriteEnded { op, outcome } => {
                self.take_late(*op);
                if let WriteOutcome::Acked { revision } = outcome {
                    self.shown.insert(*revision);
                    self.shown_fence.insert(*revision);
                }
            }
            Input::ReadEnded { op, outcome } if self.is_pending(*op) => {
                let told = matches!(self.pending, Some(Request::Read(_))) && !self.void;
                if let (true, Ok(snapshot)) = (told, outcome) {
                    let link = self.link;
                    self.read(snapshot);
                    if self.overtaken {
                        // If that read was not forgotten.
                        self.elsewhere = link.is_some() && self.link.is_none();
                        self.link = link;
                    }
                }
                self.ended(matches!(outcome, Err(failure) if times_out(failure)));
            }
            Input::ReadEnded { op, outcome } => {
                // Which late answers are still waited for is the machine's own affair: it was shown
                // this in any case.
                if let Ok(snapshot) = outcome {
                    self.saw(snapshot);
                }
                if let Ok(snapshot) = outcome
                    && self.take_late(*op).is_some_and(|late| !late.is_write())
                {
                    let link = self.link;
                    self.read(snapshot);
                    // If that read was not forgotten.
                    self.elsewhere = link.is_some() && self.link.is_none();
                    self.link = link;
                }
            }
            Input::HandlerEnded { term, .. } => {
                if let Some(office) = self.terms.get_mut(term) {
                    office.running = false;
                }
            }
            _ => {}
        }
    }

    fn read(&mut self, snapshot: &Snapshot) {
        let elsewhere =
            snapshot.epoch.is_some() && snapshot.epoch != self.bucket.map(|bucket| bucket.epoch);
        if elsewhere {
            self.link = None;
            return;
        }
        self.saw(snapshot);
    }

    fn saw(&mut self, snapshot: &Snapshot) {
        let role = snapshot.role.as_ref().map_or(0, |entry| entry.revision);
        let fence = snapshot.fence.map_or(0, |fence| fence.revision);
        self.shown.insert(role);
        self.shown_fence.insert(fence);
    }

    /// The pending request is over; without an answer in time, one may come late.
    fn ended(&mut self, timed_out: bool) {
        let Some(request) = self.pending.take() else {
            return;
        };
        if !timed_out || self.void {
            return;
        }
        if self.late.len() == MOST_LATE {
            self.late.pop_front();
        }
        self.late.push_back(Late {
            request,
            outcome: self.untold.take(),
        });
    }

    fn take_late(&mut self, op: OpId) -> Option<Late> {
        let index = self.late.iter().position(|late| late.request.op() == op)?;
        self.late.remove(index)
    }
}

fn times_out(failure: &Failure) -> bool {
    failure.kind == FailureKind::Timeout
}
