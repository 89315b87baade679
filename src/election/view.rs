//! What this instance has seen of a role's keys, and from when on the role is free.

use std::time::Duration;

use uuid::Uuid;

use super::input::Snapshot;
use crate::clock::Moment;
use crate::model::record::{Content, Entry, FenceEntry};

/// What was last seen under the role's key, and since when.
#[derive(Clone, Debug)]
struct Sight {
    entry: Option<Entry>,
    free_at: Moment,
}

/// What a read showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// What was known already.
    Same,
    /// Something newer.
    Newer,
    /// A confirmed write is gone.
    Regressed { was: u64, is: u64 },
}

/// One instance's knowledge of one role's keys in one bucket.
///
/// The rule for "free" is this: our release marker frees a role at once; anything else only after a full lease has been
/// watched unchanged, counted from the moment at which the thing itself was received.
#[derive(Debug)]
pub struct View {
    own_incarnation: Uuid,
    /// The lease of a record that does not tell its own.
    default_lease: Duration,
    longest_lease: Duration,
    sight: Option<Sight>,
    fence: Option<FenceEntry>,
    /// The highest sequence of the role's key, from confirmed writes, refusals and stream-leader reads.
    role_highest: u64,
    /// The same over both keys: fencing tokens lie above it.
    highest: u64,
    /// Another bucket was known before this one: somebody may still lead by it.
    succeeds_another: bool,
}

impl View {
    pub const fn new(own_incarnation: Uuid, own_ttl: Duration) -> Self {
        Self {
            own_incarnation,
            default_lease: own_ttl,
            longest_lease: own_ttl,
            sight: None,
            fence: None,
            role_highest: 0,
            highest: 0,
            succeeds_another: false,
        }
    }

    /// The bucket is another one than before: nothing that was seen holds, but leases of the old one may last.
    pub fn bucket_replaced(&mut self) {
        self.sight = None;
        self.fence = None;
        self.role_highest = 0;
        self.highest = 0;
        self.succeeds_another = true;
    }

    /// The bucket's own expiry bounds the lease of records that do not tell theirs.
    pub fn bucket_max_age(&mut self, max_age: Option<Duration>, own_ttl: Duration) {
        self.default_lease = max_age.unwrap_or(own_ttl);
    }

    /// The watch showed an entry. Returns whether it was news.
    pub fn watched(&mut self, entry: Entry, now: Moment) -> bool {
        if self.revision().is_some_and(|seen| entry.revision <= seen) {
            return false;
        }
        self.look(Some(entry), now);
        true
    }

    /// The stream leader showed both keys.
    pub fn read(&mut self, snapshot: &Snapshot, now: Moment) -> Reading {
        // A fence record of our own counts when it is adopted, not before: it must lie above the others.
        if let Some(fence) = snapshot.fence.filter(|f| {
            f.nonce
                .is_none_or(|n| n.incarnation != self.own_incarnation)
        }) {
            self.highest = self.highest.max(fence.revision);
        }
        self.fence = snapshot.fence;
        let is = snapshot.role.as_ref().map(|entry| entry.revision);
        if let Some(is) = is.filter(|is| *is < self.role_highest) {
            let was = self.role_highest;
            self.role_highest = is;
            self.look(snapshot.role.clone(), now);
            self.wait_longest(now);
            return Reading::Regressed { was, is };
        }
        self.rose(is.unwrap_or(0));
        if self
            .sight
            .as_ref()
            .is_some_and(|sight| sight.entry == snapshot.role)
        {
            return Reading::Same;
        }
        // The watch may be ahead of this read.
        if is.is_some_and(|is| self.revision().is_some_and(|seen| is < seen)) {
            return Reading::Same;
        }
        self.look(snapshot.role.clone(), now);
        Reading::Newer
    }

    /// A write of ours stands at this revision of the role's key.
    pub fn wrote(&mut self, revision: u64, content: Content, now: Moment) {
        self.rose(revision);
        if self.revision().is_none_or(|seen| seen < revision) {
            self.look(Some(Entry { revision, content }), now);
        }
    }

    /// A refusal named the role key's sequence. Only the sequence is learnt: no lease is counted from an error's text.
    /// Returns the regression, if it is one.
    pub fn refused_at(&mut self, current: u64, now: Moment) -> Option<(u64, u64)> {
        if current != 0 && current < self.role_highest {
            let was = self.role_highest;
            self.role_highest = current;
            self.wait_longest(now);
            return Some((was, current));
        }
        self.rose(current);
        None
    }

    /// A fence record of ours stands at this revision. Returns whether it lies above all that was seen before.
    pub fn fenced(&mut self, entry: FenceEntry) -> bool {
        let above = entry.revision > self.highest;
        self.highest = self.highest.max(entry.revision);
        self.fence = Some(entry);
        above
    }

    /// The fence key as last read.
    pub const fn fence(&self) -> Option<FenceEntry> {
        self.fence
    }

    /// The revision last seen under the role's key.
    pub fn revision(&self) -> Option<u64> {
        self.sight
            .as_ref()?
            .entry
            .as_ref()
            .map(|entry| entry.revision)
    }

    /// From then on the role may be claimed over [`claim_over`](Self::claim_over); nothing if it was never seen.
    pub fn free_at(&self) -> Option<Moment> {
        self.sight.as_ref().map(|sight| sight.free_at)
    }

    /// The sequence that a claim expects.
    pub fn claim_over(&self) -> u64 {
        self.revision().unwrap_or(0)
    }

    /// The record of another incarnation, whether its lease lasts or not.
    pub fn foreign_content(&self) -> Option<&Content> {
        let content = &self.sight.as_ref()?.entry.as_ref()?.content;
        match content {
            Content::Record(record) if record.incarnation == Some(self.own_incarnation) => None,
            Content::Record(_) | Content::Opaque => Some(content),
            Content::Release(_) | Content::ForeignMarker => None,
        }
    }

    fn rose(&mut self, revision: u64) {
        self.role_highest = self.role_highest.max(revision);
        self.highest = self.highest.max(revision);
    }

    fn wait_longest(&mut self, now: Moment) {
        if let Some(sight) = &mut self.sight {
            sight.free_at = now + self.longest_lease;
        }
    }

    fn look(&mut self, entry: Option<Entry>, now: Moment) {
        let wait = match entry.as_ref().map(|entry| &entry.content) {
            Some(Content::Release(_)) => Duration::ZERO,
            Some(Content::Record(record)) if record.incarnation == Some(self.own_incarnation) => {
                Duration::ZERO
            }
            Some(Content::Record(record)) => self.lease_of(record.ttl),
            Some(Content::Opaque) => self.lease_of(None),
            Some(Content::ForeignMarker) => self.longest_lease,
            None if self.fence.is_none() && self.sight.is_none() && !self.succeeds_another => {
                Duration::ZERO
            }
            None => self.longest_lease,
        };
        self.sight = Some(Sight {
            entry,
            free_at: now + wait,
        });
    }

    fn lease_of(&mut self, told: Option<Duration>) -> Duration {
        let lease = told.unwrap_or(self.default_lease);
        self.longest_lease = self.longest_lease.max(lease);
        lease
    }
}
