//! The keys of a role as this instance has observed them, and when the role is free.
//!
//! Terms are a chain: each fence record is written over the one before. So one question decides
//! whether the role is free: has the term of the known fence record ended? It has ended by a
//! release that only its leader can have written, or because its lease was watched to its end. Any
//! other message under the role's key can make this instance wait, but not for longer than a lease.
//! If another term began unseen, our own fence record is refused.

use std::time::Duration;

use uuid::Uuid;

use super::input::Snapshot;
use super::mutation::mutated;
use super::observed_record::{LastRecord, ObservedRecord};
use crate::event::WaitReason;
use crate::heirs::Heirs;
use crate::moment::Moment;
use crate::record::{Content, Entry, FenceEntry, Nonce, SeenFence, SeenRecord};
use crate::release::{ReleaseHash, ReleaseSecret};

/// A bucket takes at most this many messages at once.
const BURST: u64 = 100;
/// After that it takes at most one message per so many microseconds.
const MICROS_A_MESSAGE: u64 = 10;
/// After a longer silence a sequence is not judged by that rate.
const LONGEST_SILENCE: Duration = Duration::from_secs(1);
/// Where there is no fence record at all, a record's unproved lease counts up to this many times
/// our own ttl.
const MOST_UNVOUCHED: u32 = 4;

/// How a release is known to be its leader's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// By the fence record of the term that it ends, and by the record that stood there, if one was
    /// seen.
    Fence,
    /// By that record alone. There is no fence record, or its term is known to have ended.
    Record,
    /// By less than that. All leases that were seen before the release may last.
    ObservedRecord,
}

impl Trust {
    /// Until when other leases may last than the one of the released term.
    const fn others_until(self, latest: &ObservedRecord) -> Moment {
        match self {
            Self::Fence | Self::Record => latest.others_until,
            Self::ObservedRecord => latest.held_until,
        }
    }
}

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

/// Why a role is not free, and who holds it.
#[derive(Debug)]
pub struct Wait {
    pub holder: Option<String>,
    pub why: WaitReason,
}

/// One instance's knowledge of one role's keys in one bucket.
///
/// This is the rule for "free". The release of the term of the known fence record frees the role at
/// once. Everything else frees it only after a full lease was watched unchanged, counted from the
/// moment at which the message itself was received.
#[derive(Clone, Debug)]
pub struct ObservedRole {
    own_incarnation: Uuid,
    own_ttl: Duration,
    /// The age at which the bucket drops keys, fence records among them.
    max_age: Option<Duration>,
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
    was_read: bool,
    /// The fence record of ours that was found to lie above all others.
    own_fence: Option<(u64, Option<Nonce>)>,
    /// A sequence that is known to be of this bucket, by a read or in line with earlier ones, and
    /// since when.
    known_sequence: Option<(u64, Moment)>,
    /// Until this moment nothing is free, because writes were seen to be lost and an instance may
    /// lead by a record that is gone.
    not_before: Moment,
}

impl ObservedRole {
    pub const fn new(own_incarnation: Uuid, own_ttl: Duration, handoff_hold: Duration) -> Self {
        Self {
            own_incarnation,
            own_ttl,
            max_age: None,
            handoff_hold,
            latest: None,
            fence: None,
            fence_since: Moment::from_nanos(0),
            fenced_lease: None,
            ended: None,
            led: None,
            role_highest: 0,
            highest: 0,
            was_read: false,
            own_fence: None,
            known_sequence: None,
            not_before: Moment::from_nanos(0),
        }
    }

    /// The bucket was replaced. Nothing that was seen holds any more, but leases of the old bucket
    /// may last.
    pub fn bucket_replaced(&mut self, now: Moment) {
        self.wait_longest(now);
        if let Some(held_until) = self.latest.as_ref().map(|latest| self.held_after(latest)) {
            self.not_before = self.not_before.max(held_until);
        }
        self.latest = None;
        self.fence = None;
        self.fenced_lease = None;
        self.ended = None;
        self.led = None;
        self.role_highest = 0;
        self.highest = 0;
        self.was_read = false;
        self.own_fence = None;
        self.known_sequence = None;
    }

    /// Sets the bucket's max age. It is the lease of records that do not tell theirs.
    pub fn bucket_max_age(&mut self, max_age: Option<Duration>) {
        self.max_age = max_age;
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

    /// Takes the role key's sequence from a refusal. No lease is counted from an error's text.
    /// Returns the regression as (was, is), if it is one.
    pub fn refused_at(&mut self, current: u64, now: Moment) -> Option<(u64, u64)> {
        if current != 0 && current < self.role_highest {
            let was = self.role_highest;
            self.role_highest = current;
            self.wait_longest(now);
            return Some((was, current));
        }
        mutated!(CountFromErrorText => if let Some(ObservedRecord { entry: Some(entry), .. }) = &mut self.latest {
            entry.revision = current;
        });
        self.raise_highest(current);
        None
    }

    /// Whether this sequence can only be of the bucket that was read.
    ///
    /// A recreated bucket begins with the time of its creation in microseconds. So its sequences
    /// lie above the old ones by the old bucket's age in microseconds, less its number of messages.
    /// The messages of one second raise the sequence by about 100,000 at most, a tenth of that
    /// second's microseconds.
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
    fn note_sequence(&mut self, revision: u64, now: Moment) {
        if self.is_known_sequence(revision, now) {
            self.known_sequence = Some((revision, now));
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

    /// Whether the keys of this bucket were ever read.
    pub const fn was_read(&self) -> bool {
        self.was_read
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

    /// When the role may be claimed over [`claim_over`](Self::claim_over). `None` if it was never
    /// seen.
    pub fn free_at(&self) -> Option<Moment> {
        let latest = self.latest.as_ref()?;
        mutated!(HeirsDoNotWait => if self.line().has(self.own_incarnation) {
            return Some(latest.received);
        });
        #[cfg(nats_elect_mutations)]
        if let Some(free_at) = super::mutation::free_at(
            latest.entry.as_ref(),
            latest.received,
            self.wait_for(latest),
        ) {
            return Some(free_at.max(self.not_before));
        }
        let free_at = match self.trust(latest) {
            Some(trust) => trust
                .others_until(latest)
                .max(latest.received + self.left_to_heir(latest)),
            None if latest.ended => latest.received,
            None => latest
                .held_until
                .max(latest.received + self.wait_for(latest)),
        };
        Some(free_at.max(self.not_before))
    }

    /// When the role would be free by the message in its key, without the fence record. That one
    /// may say that another instance led, but perhaps it is not the last fence record.
    pub fn free_by_record(&self) -> Option<Moment> {
        let latest = self.latest.as_ref()?;
        let disbelieved = latest.release().is_some() && self.trust(latest).is_none();
        let free_at = if disbelieved {
            latest.received
        } else {
            self.shown_until(latest)
        };
        Some(free_at.max(self.not_before))
    }

    /// Whether the message in the role's key can be claimed over without another read of both keys,
    /// because the known fence record is of the same term.
    pub fn is_vouched(&self) -> bool {
        self.latest.as_ref().is_some_and(|latest| {
            let fenced = latest
                .record()
                .is_some_and(|record| self.vouches_for(record) && self.is_fenced(record));
            fenced || latest.own || self.trust(latest) == Some(Trust::Fence)
        })
    }

    /// Whether the message last seen is a record that this instance wrote.
    pub fn shows_own_record(&self) -> bool {
        self.latest.as_ref().is_some_and(|latest| latest.own)
    }

    /// Since when the message under the role's key is known to be there.
    pub fn received(&self) -> Option<Moment> {
        self.latest.as_ref().map(|latest| latest.received)
    }

    /// Until when nothing is free because writes were seen to be lost.
    pub const fn quarantined_until(&self) -> Moment {
        self.not_before
    }

    /// Until when an instance other than the observed leader may lead. It led before the observed
    /// leader was first seen, which was before `since`, or it leads by a record that was lost.
    pub fn others_until(&self, since: Moment) -> Moment {
        mutated!(ForceOverTheUnseen => return self.not_before);
        let Some(latest) = &self.latest else {
            return self.not_before;
        };
        let holder = latest.record().and_then(|record| record.incarnation);
        let has_led = self.led.is_some_and(|(who, _)| Some(who) == holder);
        let expired = self
            .max_age
            .filter(|_| !self.knows_fence_record() && !has_led);
        let unseen = self.lease_before(holder).max(expired.unwrap_or_default());
        let fenced = since.max(self.fence_since) + unseen;
        self.not_before.max(latest.others_until).max(fenced)
    }

    /// When the role would be free if the release with this hash came now.
    ///
    /// `None` if the last record that was seen is not of its term, because then the release would
    /// not be believed. A fence record that is not known yet is read when the release comes.
    pub fn free_if_released(&self, release: ReleaseHash) -> Option<Moment> {
        let latest = self
            .latest
            .as_ref()
            .filter(|latest| latest.is_of(release))?;
        Some(latest.others_until)
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

    /// Why the role is not free, and who holds it.
    pub fn wait(&self) -> Wait {
        let holder = match self.seen().map(|entry| &entry.content) {
            Some(Content::Record(record)) => Some(record.id.clone()),
            _ => None,
        };
        let latest = self.latest.as_ref();
        let shown = latest.map(|latest| self.shown_until(latest));
        let why = if self.free_at() == Some(self.not_before) {
            WaitReason::Lost
        } else if shown < self.free_at() {
            WaitReason::FenceRecord
        } else {
            match latest.and_then(ObservedRecord::content) {
                Some(Content::Record(record)) if self.vouches_for(record) => WaitReason::Leader,
                Some(Content::Record(_)) => WaitReason::UnfencedRecord,
                Some(Content::Opaque) => WaitReason::UnreadableRecord,
                Some(Content::Release(_)) => WaitReason::UnprovenRelease,
                Some(Content::ForeignMarker) | None => WaitReason::Deleted,
            }
        };
        Wait { holder, why }
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
        self.not_before = self.not_before.min(now);
    }

    fn raise_highest(&mut self, revision: u64) {
        self.role_highest = self.role_highest.max(revision);
        self.highest = self.highest.max(revision);
    }

    /// Notes that another instance led since the keys were last read. Its lease may last.
    pub fn overtaken(&mut self, now: Moment) {
        self.wait_longest(now);
    }

    fn wait_longest(&mut self, now: Moment) {
        mutated!(NoQuarantine => return);
        self.not_before = self.not_before.max(now + self.longest());
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
        self.note_led();
    }

    /// Until when a lease that was seen lasts, whatever is written over it now. Another write does
    /// not end it, because its holder may not know of that write yet. Only its release does.
    fn held_after(&self, latest: &ObservedRecord) -> Moment {
        match self.trust(latest) {
            Some(trust) => trust.others_until(latest).max(latest.received),
            None if latest.ended => latest.received,
            None => self.shown_until(latest),
        }
    }

    /// How far the observed release, if there is one, is known to be its leader's.
    fn trust(&self, latest: &ObservedRecord) -> Option<Trust> {
        latest.release()?;
        mutated!(BelieveAnyRelease => return Some(Trust::Fence));
        let by_less = if latest.fits_record() {
            Trust::Record
        } else {
            Trust::ObservedRecord
        };
        let fence = self.fence.and_then(|fence| fence.record);
        match fence {
            // The writer of a forged release could have written the fence record, too. So the
            // record that was seen must fit as well.
            Some(fence) if releases(fence, latest.told) => match &latest.before {
                LastRecord::Of(hash) if latest.told != Some(*hash) => None,
                _ => Some(Trust::Fence),
            },
            // A claim was given back. It never had a fence record, and the term before it is over.
            Some(_) => self.has_ended().then_some(by_less),
            None => {
                let old_form =
                    matches!(latest.before, LastRecord::Plain { .. }) && latest.told.is_none();
                (latest.fits_record() || old_form).then_some(by_less)
            }
        }
    }

    /// How long a released role is left to its heir. The wait is a courtesy and protects nothing.
    fn left_to_heir(&self, latest: &ObservedRecord) -> Duration {
        match latest.release().and_then(|release| release.heir) {
            Some(heir) if heir != self.own_incarnation => self.handoff_hold,
            _ => Duration::ZERO,
        }
    }

    /// Whether the fence key holds a fence record, and not nothing or a marker.
    fn knows_fence_record(&self) -> bool {
        self.fence.is_some_and(|fence| fence.record.is_some())
    }

    fn fence_nonce(&self) -> Option<Nonce> {
        self.fence?.nonce()
    }

    /// Whether the term of the known fence record is known to have ended.
    fn has_ended(&self) -> bool {
        self.ended.is_some() && self.ended == self.fence_nonce()
    }

    fn vouches_for(&self, record: &SeenRecord) -> bool {
        let fence = self.fence_nonce();
        fence.is_some_and(|nonce| record.incarnation == Some(nonce.incarnation))
    }

    /// Whether the known fence record may be of the record's very term. The same process may have
    /// led before.
    fn is_fenced(&self, record: &SeenRecord) -> bool {
        mutated!(VouchByProcess => return true);
        let fenced = self.fence.and_then(|fence| fence.record?.release);
        fenced.is_none() || record.release.is_none() || fenced == record.release
    }

    /// The lease of a record that does not tell its own.
    fn default_lease(&self) -> Duration {
        self.max_age.unwrap_or(self.own_ttl)
    }

    /// The lease of a record. The lease of a leader is the one in its fence record. A lease that
    /// only the record itself claims is limited to the longest that may be true.
    fn lease_of(&self, record: &SeenRecord) -> Duration {
        let lease = record.ttl.unwrap_or_else(|| self.default_lease());
        if self.vouches_for(record) {
            let fence = self.fence.and_then(|fence| fence.record);
            return fence.and_then(|fence| fence.ttl).unwrap_or(lease);
        }
        let led = self.led.filter(|(who, _)| record.incarnation == Some(*who));
        if let Some((_, lease)) = led {
            return lease;
        }
        if record.ttl.is_none() || mutated!(BelieveAnyLease) {
            return lease;
        }
        let known = self.knows_fence_record();
        let most = match self.max_age {
            // The known fence record is of another instance, and this record's writer was never
            // seen to lead.
            _ if known => self.own_ttl,
            // Fence records may expire while their leaders lead.
            Some(max_age) => self.own_ttl.max(max_age),
            None => self.own_ttl.saturating_mul(MOST_UNVOUCHED),
        };
        lease.min(most)
    }

    fn note_led(&mut self) {
        let record = self.latest.as_ref().and_then(ObservedRecord::record);
        if let Some(record) = record.filter(|record| self.vouches_for(record)) {
            self.led = record.incarnation.map(|who| (who, self.lease_of(record)));
        }
    }

    /// The longest lease that an unseen leader may hold. Where keys expire, a fence record may
    /// expire while its leader leads.
    fn longest(&self) -> Duration {
        mutated!(ForgetExpiredFences => return self.longest_told());
        let expired = self.max_age.filter(|_| !self.knows_fence_record());
        self.longest_told().max(expired.unwrap_or_default())
    }

    /// The same, if every leader's fence record is still there.
    fn longest_told(&self) -> Duration {
        mutated!(IgnoreFenceLease => return self.own_ttl);
        let fenced = self.fenced_lease.filter(|_| !self.has_ended());
        fenced.map_or(self.own_ttl, |(_, lease)| lease.max(self.own_ttl))
    }

    /// The lease of the last term, if neither `holder` nor this instance had it and it is not known
    /// to have ended.
    fn lease_before(&self, holder: Option<Uuid>) -> Duration {
        let own = self.own_incarnation;
        mutated!(IgnoreFenceLease => return Duration::ZERO);
        self.fence
            .and_then(|fence| fence.record)
            .filter(|record| {
                let incarnation = record.nonce.incarnation;
                incarnation != own
                    && Some(incarnation) != holder
                    && self.ended != Some(record.nonce)
            })
            .and_then(|record| record.ttl)
            .unwrap_or_default()
    }

    /// Until when the observed leases last, without the lease of another term in the fence record.
    fn shown_until(&self, latest: &ObservedRecord) -> Moment {
        latest
            .held_until
            .max(latest.received + self.own_wait(latest))
    }

    /// How long this message must be watched unchanged before the role is free.
    fn wait_for(&self, latest: &ObservedRecord) -> Duration {
        let own_wait = self.own_wait(latest);
        match latest.record() {
            Some(_) if latest.own => self.lease_before(None),
            Some(record) => own_wait.max(self.lease_before(record.incarnation)),
            None => own_wait,
        }
    }

    /// The same, without the lease of another term in the fence record.
    fn own_wait(&self, latest: &ObservedRecord) -> Duration {
        if latest.own || latest.untouched && self.fence.is_none() {
            return Duration::ZERO;
        }
        match latest.content() {
            // A copy of a record of ours was written by another client.
            Some(Content::Record(record)) if record.incarnation == Some(self.own_incarnation) => {
                self.longest()
            }
            Some(Content::Record(record)) if record.incarnation.is_some() => self.lease_of(record),
            // The writer may not have checked whether another instance still leads.
            Some(Content::Record(record)) => self.lease_of(record).max(self.longest()),
            Some(Content::Opaque) => self.default_lease().max(self.longest()),
            // Where keys expire, a key is not missing before the lease of its last writer is over.
            Some(Content::Release(_)) | None => self.longest_told(),
            Some(Content::ForeignMarker) => self.longest(),
        }
    }
}

/// Whether a release with this secret's hash ends the term of this fence record. Versions that
/// write no hash release without a secret.
fn releases(fence: SeenFence, told: Option<ReleaseHash>) -> bool {
    fence.release.is_none_or(|hash| told == Some(hash))
}

mod hashing;
#[cfg(test)]
mod tests;
