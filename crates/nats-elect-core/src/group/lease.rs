//! The lease of a member, for all that it owns.
//!
//! A write of the member's record extends it when the write is confirmed *and* the member's watch
//! has shown it. The watch shows the stream in order. So a member whose lease is valid was shown
//! all that others wrote over its units before its last heartbeat that counts. A new watch leaves
//! out what was written over, which is noticed when it has caught up: until then it extends nothing.

use super::epoch::Epoch;
use crate::moment::Moment;
use crate::mutation::mutated;

/// A confirmed write that the watch has not shown yet.
#[derive(Clone, Copy, Debug, Hash)]
struct Grant {
    sequence: u64,
    until: Moment,
    confirmed: Moment,
}

/// The lease of one epoch.
#[derive(Clone, Debug, Hash)]
pub(super) struct Lease {
    pub epoch: Epoch,
    granted: Vec<Grant>,
    /// The last own record that the watch showed.
    found: u64,
    /// The same, but for what a watch shows before it has caught up.
    shown: u64,
    /// The deadline. `None` before the claim was shown.
    until: Option<Moment>,
}

impl Lease {
    pub const fn new(epoch: Epoch) -> Self {
        Self {
            epoch,
            granted: Vec::new(),
            found: 0,
            shown: 0,
            until: None,
        }
    }

    /// The deadline, while the lease is valid.
    pub fn until(&self, now: Moment) -> Option<Moment> {
        self.until.filter(|until| now < *until)
    }

    /// A write of the member's record is confirmed. Returns the new deadline if that extends it.
    pub fn granted(&mut self, sequence: u64, until: Moment, now: Moment) -> Option<Moment> {
        self.granted.push(Grant {
            sequence,
            until,
            confirmed: now,
        });
        self.extend(now)
    }

    /// The watch showed the member's own record. Returns the new deadline if that extends it.
    pub fn shown(&mut self, sequence: u64, looks_back: bool, now: Moment) -> Option<Moment> {
        self.found = self.found.max(sequence);
        if looks_back {
            return None;
        }
        self.caught_up(now)
    }

    /// The watch has caught up. Returns the new deadline if that extends it.
    pub fn caught_up(&mut self, now: Moment) -> Option<Moment> {
        self.shown = self.found;
        self.extend(now)
    }

    /// A record that is shown after the deadline extends nothing: what the watch left out before it
    /// may have stood for less than a lease.
    fn extend(&mut self, now: Moment) -> Option<Moment> {
        let shown = if mutated!(ExtendUnshown) {
            u64::MAX
        } else {
            self.shown
        };
        let both = self.granted.iter().filter(|it| it.sequence <= shown);
        let until = both.map(|it| it.until).max();
        self.granted.retain(|it| it.sequence > shown);
        let begins = self.until.is_none();
        let until = until.filter(|until| Some(*until) > self.until && now < *until)?;
        if !begins && self.until(now).is_none() {
            return None;
        }
        self.until = Some(until);
        Some(until)
    }

    /// Whether the claim was confirmed and shown.
    pub const fn has_begun(&self) -> bool {
        self.until.is_some()
    }

    /// When the lease ends, if nothing more is confirmed and shown.
    pub fn ends_at(&self) -> Option<Moment> {
        let unshown = self.granted.iter().map(|it| it.until).max();
        self.until.or(unshown)
    }

    /// The first write that is confirmed and that the watch still has not shown, and since when.
    pub fn unshown(&self) -> Option<(u64, Moment)> {
        let unshown = self.granted.iter().map(|it| (it.sequence, it.confirmed));
        unshown.min()
    }
}
