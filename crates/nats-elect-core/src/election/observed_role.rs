//! The keys of a role as this instance has observed them, and when the role is free.
//!
//! Terms are a chain: each fence record is written over the one before. So one question decides
//! whether the role is free: has the term of the known fence record ended? It has ended by a
//! release that only its leader can have written, or because its lease was watched to its end. Any
//! other message under the role's key can make this instance wait, but not for longer than a lease.
//! If another term began unseen, our own fence record is refused.

mod free;
mod hashing;
mod leases;
mod sequences;
#[cfg(test)]
mod tests;
mod trust;

use std::time::Duration;

use uuid::Uuid;

use self::trust::Trust;
use super::observed_record::{LastRecord, ObservedRecord};
use crate::heirs::Heirs;
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::record::{Content, Entry, FenceEntry, Nonce, Snapshot};
use crate::release::ReleaseSecret;

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It showed what was known already.
    Same,
    /// It showed something newer.
    Newer,
    /// It showed that a confirmed write is gone.
    Regressed { was: u64, is: u64 },
}

/// One instance's knowledge of one role's keys in one bucket.
///
/// This is the rule for "free". The release of the term of the known fence record frees the role at
/// once. Everything else frees it only after a full lease was watched unchanged, counted from the
/// moment at which the message itself was received.
#[derive(Clone, Debug, Default, Hash)]
pub struct ObservedRole {
    own_incarnation: Uuid,
    own_ttl: Duration,
    /// The age at which the bucket drops keys, fence records among them. It is the lease of records
    /// that do not tell theirs.
    pub max_age: Option<Duration>,
    /// How long a role that was handed over is left to its heir.
    handoff_hold: Duration,
    latest: Option<ObservedRecord>,
    fence: Option<FenceEntry>,
    /// When the fence record above was learnt.
    fence_since: Moment,
    /// The lease of the last fence record of another instance that was seen, and its revision.
    fenced_lease: Option<(u64, Duration)>,
    /// The nonce of the last fence record whose term is known to have ended.
    ended: Option<Nonce>,
    /// The incarnation that was last seen to lead, by a record and a fence record, and its lease.
    /// Its lease lasts even if another client writes the fence key.
    led: Option<(Uuid, Duration)>,
    /// The highest sequence of the role's key, from confirmed writes, refusals and stream-leader
    /// reads.
    role_highest: u64,
    /// The highest sequence of both keys. Fencing tokens lie above it.
    highest: u64,
    /// Whether the keys of this bucket were read.
    pub was_read: bool,
    /// The fence record of ours that was found to lie above all others.
    own_fence: Option<(u64, Option<Nonce>)>,
    /// A sequence that is known to be of this bucket, by a read or in line with earlier ones, and
    /// since when.
    known_sequence: Option<(u64, Moment)>,
    /// Until this moment nothing is free, because writes were seen to be lost and an instance may
    /// lead by a record that is gone.
    pub quarantined_until: Moment,
    /// The line of succession that was last seen. A new leader's first records have none.
    pub last_line: Heirs,
}

impl ObservedRole {
    pub fn new(own_incarnation: Uuid, own_ttl: Duration, handoff_hold: Duration) -> Self {
        Self {
            own_incarnation,
            own_ttl,
            handoff_hold,
            ..Self::default()
        }
    }

    /// The bucket was replaced. Nothing that was seen holds any more, but leases of the old bucket
    /// may last.
    pub fn bucket_replaced(&mut self, now: Moment) {
        self.wait_longest(now);
        let held_until = self.latest.as_ref().map(|latest| self.held_after(latest));
        *self = Self {
            max_age: self.max_age,
            quarantined_until: self.quarantined_until.max(held_until.unwrap_or_default()),
            ..Self::new(self.own_incarnation, self.own_ttl, self.handoff_hold)
        };
    }

    /// Takes an entry that the watch showed. `own` tells whether it is a record of our own that
    /// this instance remembers. Returns whether it was news.
    pub fn watched(&mut self, entry: Entry, own: bool, now: Moment) -> bool {
        let old = self
            .seen()
            .is_some_and(|seen| entry.revision < seen.revision || entry.is(seen));
        if !old {
            self.note_sequence(entry.revision, now);
            self.observe(Some(entry), own, now);
        }
        !old
    }

    /// Takes a fence record that the watch showed.
    pub fn watched_fence(&mut self, fence: FenceEntry, now: Moment) {
        if self
            .fence
            .is_none_or(|known| known.revision < fence.revision)
        {
            self.learn_fence(Some(fence), now);
            // While the key is missing, other leaders may have come and gone. The wait starts
            // again.
            if self
                .latest
                .as_ref()
                .is_some_and(|latest| latest.entry.is_none())
            {
                self.observe(None, false, now);
            }
        }
    }

    /// Takes both keys as the stream leader showed them, in a read that was sent at `sent`.
    pub fn read(&mut self, snapshot: &Snapshot, own: bool, sent: Moment, now: Moment) -> Reading {
        self.was_read = true;
        let shows_less = snapshot.fence.map(|fence| fence.revision) < self.fence_revision();
        // The watch was ahead of this read. What it showed in the meantime stands.
        let fence = if shows_less && self.fence_since >= sent {
            self.fence
        } else {
            snapshot.fence
        };
        let fence_moved = self.fence != fence;
        self.learn_fence(fence, now);
        let is = snapshot.role.as_ref().map(|entry| entry.revision);
        let fence = snapshot.fence.map(|fence| fence.revision);
        let shown = is.max(fence).max(snapshot.last_sequence);
        self.known_sequence = shown.map(|shown| (shown, now)).or(self.known_sequence);
        if let Some(is) = is.filter(|is| *is < self.role_highest) {
            let was = self.role_highest;
            self.role_highest = is;
            self.observe(snapshot.role.clone(), own, now);
            self.wait_longest(now);
            return Reading::Regressed { was, is };
        }
        self.raise_highest(is.unwrap_or(0));
        if let Some(latest) = &self.latest {
            // While the key is missing, other leaders may have come and gone. The fence record
            // tells.
            if latest.entry == snapshot.role && (is.is_some() || !fence_moved) {
                return Reading::Same;
            }
            if is < self.revision() {
                // The watch may be ahead of this read. If it was so before the read was sent, a
                // write was lost.
                if latest.received >= sent {
                    return Reading::Same;
                }
                if is.is_some() {
                    self.wait_longest(now);
                }
            }
        }
        self.observe(snapshot.role.clone(), own, now);
        Reading::Newer
    }

    /// Notes that a write of ours stands at this revision of the role's key.
    pub fn wrote(&mut self, revision: u64, content: Content, now: Moment) {
        self.raise_highest(revision);
        self.note_sequence(revision, now);
        if self.revision().is_none_or(|seen| seen < revision) {
            let own = matches!(content, Content::Record(_));
            self.observe(Some(Entry { revision, content }), own, now);
        }
    }

    /// Notes that a fence record of ours stands at this revision. Returns whether it lies above
    /// everything that was seen before.
    pub fn fenced(&mut self, entry: FenceEntry) -> bool {
        let attempt = (entry.revision, entry.nonce());
        // The same attempt may be found twice. One of another term must lie higher.
        let above = entry.revision > self.highest || self.own_fence == Some(attempt);
        if above {
            self.own_fence = Some(attempt);
        }
        self.highest = self.highest.max(entry.revision);
        self.fence = Some(entry);
        above
    }

    fn learn_fence(&mut self, fence: Option<FenceEntry>, now: Moment) {
        if fence != self.fence {
            self.fence_since = now;
        }
        let released = self.latest.as_ref().and_then(|latest| self.trust(latest));
        if released == Some(Trust::Fence)
            && let Some(latest) = &mut self.latest
        {
            latest.released = true;
        }
        // A fence record of our own counts when it is adopted, not before, because it must lie
        // above the others.
        let own = self.own_incarnation;
        let another =
            fence.filter(|fence| fence.nonce().is_none_or(|nonce| nonce.incarnation != own));
        if let Some(fence) = another {
            self.highest = self.highest.max(fence.revision);
            if let Some(lease) = fence.record.and_then(|record| record.ttl) {
                // A known fence record above this one means that the read is stale, or that writes
                // were lost.
                let known = self.fenced_lease.filter(|(at, _)| *at > fence.revision);
                let longest = known.map_or(lease, |(_, known)| known.max(lease));
                self.fenced_lease = Some((fence.revision, longest));
            }
        }
        self.fence = fence;
        self.note_led();
    }

    /// The sequence of the fence key that our next fence record expects.
    pub fn fence_over(&self) -> u64 {
        self.fence_revision().unwrap_or(0)
    }

    fn fence_revision(&self) -> Option<u64> {
        self.fence.map(|fence| fence.revision)
    }

    /// The revision last seen under the role's key.
    pub fn revision(&self) -> Option<u64> {
        self.seen().map(|entry| entry.revision)
    }

    /// Whether the message last seen lies below a known sequence. Then the watch lags, or NATS lost
    /// confirmed writes. The sooner a loss is known, the sooner its wait is over.
    pub fn shows_less(&self) -> bool {
        mutated!(IgnoreShownLoss => return false);
        let shown = self.revision();
        shown.is_some_and(|shown| shown < self.role_highest)
    }

    /// The message last seen under the role's key.
    pub fn seen(&self) -> Option<&Entry> {
        self.latest.as_ref()?.entry.as_ref()
    }

    /// Whether the message last seen is a record that this instance wrote.
    pub fn shows_own_record(&self) -> bool {
        self.latest.as_ref().is_some_and(|latest| latest.own)
    }

    /// Since when the message under the role's key is known to be there.
    pub fn received(&self) -> Option<Moment> {
        self.latest.as_ref().map(|latest| latest.received)
    }

    /// The sequence that a claim expects.
    pub fn claim_over(&self) -> u64 {
        self.revision().unwrap_or(0)
    }

    /// Whether the observed release names this instance as heir.
    pub fn names_us(&self) -> bool {
        let own = self.own_incarnation;
        let release = self.latest.as_ref().and_then(ObservedRecord::release);
        release.is_some_and(|release| release.heir == Some(own))
    }

    /// The candidates that should lead next, by the message last seen.
    pub fn line(&self) -> Heirs {
        match self.seen().map(|entry| &entry.content) {
            Some(Content::Record(record)) => record.heirs,
            Some(Content::Release(release)) => release.line,
            Some(Content::Opaque | Content::ForeignMarker) | None => Heirs::NONE,
        }
    }

    /// The record of another incarnation, whether its lease lasts or not.
    pub fn foreign_content(&self) -> Option<&Content> {
        let content = &self.latest.as_ref()?.entry.as_ref()?.content;
        match content {
            Content::Record(record) if record.incarnation == Some(self.own_incarnation) => None,
            Content::Record(_) | Content::Opaque => Some(content),
            Content::Release(_) | Content::ForeignMarker => None,
        }
    }

    /// Notes that the term of the known fence record has ended.
    ///
    /// Either it was released, or a claim over what was free took effect, so that nothing had been
    /// written since. (Silence for a lease alone proves nothing.)
    pub fn note_end(&mut self) {
        self.ended = self.fence_nonce();
    }

    /// Notes that an operator said that the writer of the observed message, and every leader
    /// before, no longer leads.
    pub fn end_lease(&mut self, now: Moment) {
        if let Some(latest) = &mut self.latest {
            latest.ended = true;
            latest.held_until = now;
            latest.others_until = now;
        }
        self.note_end();
        self.quarantined_until = self.quarantined_until.min(now);
    }

    /// Waits for the longest lease that another instance may hold: it led since the keys were last
    /// read, or writes were lost.
    pub fn wait_longest(&mut self, now: Moment) {
        mutated!(NoQuarantine => return);
        self.quarantined_until = self.quarantined_until.max(now + self.longest());
    }

    fn observe(&mut self, entry: Option<Entry>, own: bool, now: Moment) {
        let released = self.latest.as_ref().and_then(|latest| self.trust(latest));
        if released == Some(Trust::Fence) {
            self.note_end();
        }
        let untouched = entry.is_none() && self.fence.is_none() && self.latest.is_none();
        let before = self.latest.as_ref().map_or(LastRecord::Unseen, |latest| {
            let record = latest.record().map(LastRecord::of);
            record.unwrap_or_else(|| latest.before.clone())
        });
        let (told, record) = match entry.as_ref().map(|entry| &entry.content) {
            Some(Content::Release(release)) => (release.secret.map(ReleaseSecret::hash), None),
            Some(Content::Record(record)) => (None, Some(LastRecord::of(record))),
            _ => (None, None),
        };
        let held_until = match &self.latest {
            None => now,
            // The release came from the writer of the record that it replaces.
            Some(latest) if told.is_some_and(|told| latest.is_of(told)) => latest.held_until,
            Some(latest) => self.held_after(latest),
        };
        let others_until = self.latest.as_ref().map_or(now, |latest| {
            let displaced =
                before != LastRecord::Unseen && record.as_ref().is_some_and(|it| *it != before);
            if displaced && released != Some(Trust::Fence) && !latest.released {
                self.held_after(latest)
            } else {
                latest.others_until
            }
        });
        self.latest = Some(ObservedRecord {
            entry,
            received: now,
            held_until,
            others_until,
            own,
            untouched,
            told,
            before,
            ended: false,
            released: false,
        });
        if !self.line().is_empty() {
            self.last_line = self.line();
        }
        self.note_led();
    }

    /// Whether the fence key holds a fence record, and not nothing or a marker.
    fn knows_fence_record(&self) -> bool {
        self.fence.is_some_and(|fence| fence.record.is_some())
    }

    fn fence_nonce(&self) -> Option<Nonce> {
        self.fence?.nonce()
    }
}
