//! What this instance has seen of a role's keys, and from when on the role is free.

use std::time::Duration;

use uuid::Uuid;

use super::input::Snapshot;
use crate::clock::Moment;
#[cfg(feature = "testing")]
use crate::model::config::RoleSettings;
use crate::model::record::{Content, Entry, FenceEntry};

/// A bucket takes no more messages at once than this,
const BURST: u64 = 100;
/// and in the long run no more than one in so many microseconds.
const MICROS_A_MESSAGE: u64 = 10;

/// What was last seen under the role's key, and since when.
#[derive(Clone, Debug)]
struct Sight {
    entry: Option<Entry>,
    received: Moment,
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
#[derive(Clone, Debug)]
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
    /// The fence record of ours that was found to lie above all others.
    own_fence: Option<u64>,
    /// A sequence that a read showed in this bucket, and when.
    charted: Option<(u64, Moment)>,
    /// Something was seen to be lost: somebody may lead by what is no longer there. Nothing is free before then.
    not_before: Moment,
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
            own_fence: None,
            charted: None,
            not_before: Moment::from_nanos(0),
        }
    }

    /// The bucket is another one than before: nothing that was seen holds, but leases of the old one may last.
    pub fn bucket_replaced(&mut self, now: Moment) {
        self.sight = None;
        self.fence = None;
        self.role_highest = 0;
        self.highest = 0;
        self.own_fence = None;
        self.charted = None;
        self.wait_longest(now);
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

    /// The stream leader showed both keys, asked at `sent`.
    pub fn read(&mut self, snapshot: &Snapshot, sent: Moment, now: Moment) -> Reading {
        // A fence record of our own counts when it is adopted, not before: it must lie above the others.
        if let Some(fence) = snapshot.fence.filter(|f| {
            f.nonce
                .is_none_or(|n| n.incarnation != self.own_incarnation)
        }) {
            self.highest = self.highest.max(fence.revision);
        }
        let fence_moved = self.fence != snapshot.fence;
        self.fence = snapshot.fence;
        let is = snapshot.role.as_ref().map(|entry| entry.revision);
        let shown = is.max(snapshot.fence.map(|fence| fence.revision));
        self.charted = shown.map(|shown| (shown, now)).or(self.charted);
        if let Some(is) = is.filter(|is| *is < self.role_highest) {
            let was = self.role_highest;
            self.role_highest = is;
            self.look(snapshot.role.clone(), now);
            self.wait_longest(now);
            return Reading::Regressed { was, is };
        }
        self.rose(is.unwrap_or(0));
        if let Some(sight) = &self.sight {
            // Behind a missing key others may have come and gone: the fence tells.
            if sight.entry == snapshot.role && (is.is_some() || !fence_moved) {
                return Reading::Same;
            }
            if is < self.revision() {
                // The watch may be ahead of this read. If it was so before the read was sent, a write was lost.
                if sight.received >= sent {
                    return Reading::Same;
                }
                if is.is_some() {
                    self.wait_longest(now);
                }
            }
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

    /// Whether this sequence can only be of the bucket that was read, where a recreated bucket begins with the time of
    /// its creation in microseconds: so far no messages can have been written since.
    pub fn is_charted(&self, revision: u64, now: Moment) -> bool {
        self.charted.is_some_and(|(shown, at)| {
            let micros = u64::try_from(now.since(at).as_micros()).unwrap_or(u64::MAX);
            revision
                <= shown
                    .saturating_add(BURST)
                    .saturating_add(micros / MICROS_A_MESSAGE)
        })
    }

    /// A fence record of ours stands at this revision. Returns whether it lies above all that was seen before.
    pub fn fenced(&mut self, entry: FenceEntry) -> bool {
        let above = entry.revision > self.highest || self.own_fence == Some(entry.revision);
        if above {
            self.own_fence = Some(entry.revision);
        }
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
        self.sight
            .as_ref()
            .map(|sight| sight.free_at.max(self.not_before))
    }

    /// Whether somebody may lead by a write that was lost.
    pub fn is_quarantined(&self, now: Moment) -> bool {
        now < self.not_before
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

    /// `read_sent` is when the read under way was sent, or else now. Sequences must not outrun
    /// [`is_charted`](Self::is_charted).
    #[cfg(feature = "testing")]
    pub fn hash_situation(
        &self,
        now: Moment,
        read_sent: Moment,
        settings: &RoleSettings,
        hasher: &mut impl std::hash::Hasher,
    ) {
        use std::hash::Hash;

        let Self {
            own_incarnation,
            default_lease,
            longest_lease,
            sight,
            fence,
            role_highest,
            highest,
            own_fence,
            charted,
            not_before,
        } = self;
        (own_incarnation, default_lease, longest_lease, fence).hash(hasher);
        (role_highest, highest, own_fence, charted.is_some()).hash(hasher);
        // What has been free for longer is free, and any check that still counts came after.
        let long_free = now - settings.heartbeat - settings.claim_delay;
        (*not_before).max(long_free).hash(hasher);
        let sight = sight.as_ref().map(|sight| {
            let Sight {
                entry,
                received,
                free_at,
            } = sight;
            (entry, *received >= read_sent, (*free_at).max(long_free))
        });
        sight.hash(hasher);
    }

    fn rose(&mut self, revision: u64) {
        self.role_highest = self.role_highest.max(revision);
        self.highest = self.highest.max(revision);
    }

    fn wait_longest(&mut self, now: Moment) {
        self.not_before = now + self.longest_lease;
    }

    fn look(&mut self, entry: Option<Entry>, now: Moment) {
        let wait = match entry.as_ref().map(|entry| &entry.content) {
            Some(Content::Release(_)) => Duration::ZERO,
            Some(Content::Record(record)) if record.incarnation == Some(self.own_incarnation) => {
                Duration::ZERO
            }
            Some(Content::Record(record)) => self.lease_of(record.ttl),
            Some(Content::Opaque) => self.lease_of(None),
            None if self.fence.is_none() && self.sight.is_none() => Duration::ZERO,
            Some(Content::ForeignMarker) | None => self.longest_lease,
        };
        // A stranger's write over a living record ends no lease: who held it may not know yet.
        let held_until = self
            .foreign_content()
            .and(self.sight.as_ref())
            .filter(|_| !wait.is_zero())
            .map_or(now, |sight| sight.free_at);
        self.sight = Some(Sight {
            entry,
            received: now,
            free_at: held_until.max(now + wait),
        });
    }

    fn lease_of(&mut self, told: Option<Duration>) -> Duration {
        let lease = told.unwrap_or(self.default_lease);
        self.longest_lease = self.longest_lease.max(lease);
        lease
    }
}
