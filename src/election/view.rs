//! What this instance has seen of a role's keys, and from when on the role is free.

use std::time::Duration;

use uuid::Uuid;

use super::input::Snapshot;
use super::mutation::mutated;
use crate::clock::Moment;
#[cfg(feature = "testing")]
use crate::model::config::RoleSettings;
use crate::model::record::{Content, Entry, FenceEntry, Nonce};

/// A bucket takes no more messages at once than this,
const BURST: u64 = 100;
/// and then no more than one in so many microseconds.
const MICROS_A_MESSAGE: u64 = 10;
/// What comes after a longer silence is not judged by that.
const LONGEST_SILENCE: Duration = Duration::from_secs(1);

/// What was last seen under the role's key, and since when.
#[derive(Clone, Debug)]
struct Sight {
    entry: Option<Entry>,
    received: Moment,
    free_at: Moment,
}

impl Sight {
    fn content(&self) -> Option<&Content> {
        self.entry.as_ref().map(|entry| &entry.content)
    }
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
    /// How long a role that was handed over is left to its heir.
    handoff_hold: Duration,
    sight: Option<Sight>,
    fence: Option<FenceEntry>,
    /// The highest sequence of the role's key, from confirmed writes, refusals and stream-leader reads.
    role_highest: u64,
    /// The same over both keys: fencing tokens lie above it.
    highest: u64,
    /// The keys of this bucket were read.
    was_read: bool,
    /// The fence record of ours that was found to lie above all others.
    own_fence: Option<(u64, Option<Nonce>)>,
    /// A sequence that is known to be of this bucket, by a read or in line with what came before, and since when.
    charted: Option<(u64, Moment)>,
    /// Something was seen to be lost: somebody may lead by what is no longer there. Nothing is free before then.
    not_before: Moment,
}

impl View {
    pub const fn new(own_incarnation: Uuid, own_ttl: Duration, handoff_hold: Duration) -> Self {
        Self {
            own_incarnation,
            handoff_hold,
            default_lease: own_ttl,
            longest_lease: own_ttl,
            sight: None,
            fence: None,
            role_highest: 0,
            highest: 0,
            was_read: false,
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
        self.was_read = false;
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
        let old = self
            .seen()
            .is_some_and(|seen| entry.revision < seen.revision || entry.is(seen));
        if !old {
            self.chart(entry.revision, now);
            self.look(Some(entry), now);
        }
        !old
    }

    /// The stream leader showed both keys, asked at `sent`.
    pub fn read(&mut self, snapshot: &Snapshot, sent: Moment, now: Moment) -> Reading {
        // A fence record of our own counts when it is adopted, not before: it must lie above the others.
        let own = self.own_incarnation;
        if let Some(fence) = snapshot
            .fence
            .filter(|fence| fence.nonce().is_none_or(|nonce| nonce.incarnation != own))
        {
            self.highest = self.highest.max(fence.revision);
            let lease = fence.record.and_then(|record| record.ttl);
            let lease = lease.filter(|_| !mutated!(IgnoreFenceLease));
            self.longest_lease = self.longest_lease.max(lease.unwrap_or_default());
        }
        self.was_read = true;
        let fence_moved = self.fence != snapshot.fence;
        self.fence = snapshot.fence;
        self.fence_told();
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
        self.chart(revision, now);
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
        mutated!(CountFromErrorText => if let Some(Sight { entry: Some(entry), .. }) = &mut self.sight {
            entry.revision = current;
        });
        self.rose(current);
        None
    }

    /// Whether this sequence can only be of the bucket that was read, where a recreated bucket begins with the time of
    /// its creation in microseconds. Then it lies above those of the old bucket by as many as that was microseconds old, less its
    /// messages; what is written within a second lies above by a tenth of a second's microseconds at most.
    pub fn is_charted(&self, revision: u64, now: Moment) -> bool {
        mutated!(TrustAnyJump => return true);
        self.charted.is_some_and(|(shown, at)| {
            let silence = now.since(at).min(LONGEST_SILENCE);
            let micros = u64::try_from(silence.as_micros()).unwrap_or(u64::MAX);
            revision
                <= shown
                    .saturating_add(BURST)
                    .saturating_add(micros / MICROS_A_MESSAGE)
        })
    }

    /// A later sequence in line with those before it is a mark for the next.
    fn chart(&mut self, revision: u64, now: Moment) {
        if self.is_charted(revision, now) {
            self.charted = Some((revision, now));
        }
    }

    /// A fence record of ours stands at this revision. Returns whether it lies above all that was seen before.
    pub fn fenced(&mut self, entry: FenceEntry) -> bool {
        let attempt = (entry.revision, entry.nonce());
        // The same attempt may be found twice; that of another term must lie higher.
        let above = entry.revision > self.highest || self.own_fence == Some(attempt);
        if above {
            self.own_fence = Some(attempt);
        }
        self.highest = self.highest.max(entry.revision);
        self.fence = Some(entry);
        above
    }

    /// Whether the keys of this bucket were ever read: the watch shows no fence.
    pub const fn was_read(&self) -> bool {
        self.was_read
    }

    /// The fence key as last read.
    pub const fn fence(&self) -> Option<FenceEntry> {
        self.fence
    }

    /// The revision last seen under the role's key.
    pub fn revision(&self) -> Option<u64> {
        self.seen().map(|entry| entry.revision)
    }

    /// The last message under the role's key, as last seen.
    pub fn seen(&self) -> Option<&Entry> {
        self.sight.as_ref()?.entry.as_ref()
    }

    /// From then on the role may be claimed over [`claim_over`](Self::claim_over); nothing if it was never seen.
    pub fn free_at(&self) -> Option<Moment> {
        self.sight
            .as_ref()
            .map(|sight| sight.free_at.max(self.not_before))
    }

    /// Nothing is claimed before then, whatever is seen: somebody may lead by what was lost.
    pub const fn not_before(&self) -> Moment {
        self.not_before
    }

    /// The sequence that a claim expects.
    pub fn claim_over(&self) -> u64 {
        self.revision().unwrap_or(0)
    }

    /// Whether the role was handed over to us.
    pub fn names_us(&self) -> bool {
        let own = self.own_incarnation;
        self.seen().is_some_and(
            |entry| matches!(entry.content, Content::Handoff { heir, .. } if heir == own),
        )
    }

    /// The record of another incarnation, whether its lease lasts or not.
    pub fn foreign_content(&self) -> Option<&Content> {
        let content = &self.sight.as_ref()?.entry.as_ref()?.content;
        match content {
            Content::Record(record) if record.incarnation == Some(self.own_incarnation) => None,
            Content::Record(_) | Content::Opaque => Some(content),
            Content::Release(_) | Content::Handoff { .. } | Content::ForeignMarker => None,
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
            handoff_hold: _,
            sight,
            fence,
            role_highest,
            highest,
            was_read,
            own_fence,
            charted,
            not_before,
        } = self;
        (own_incarnation, default_lease, longest_lease, fence).hash(hasher);
        (role_highest, highest, was_read).hash(hasher);
        (own_fence, charted.is_some()).hash(hasher);
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

    /// Somebody led since the keys were last read: its lease may last.
    pub fn overtaken(&mut self, now: Moment) {
        self.wait_longest(now);
    }

    fn wait_longest(&mut self, now: Moment) {
        mutated!(NoQuarantine => return);
        self.not_before = now + self.longest_lease;
    }

    fn look(&mut self, entry: Option<Entry>, now: Moment) {
        let content = entry.as_ref().map(|entry| &entry.content);
        let wait = match content {
            None if self.fence.is_none() && self.sight.is_none() => Duration::ZERO,
            content => self.wait_for(content),
        };
        if let Some(Content::Record(_) | Content::Opaque) = content {
            self.longest_lease = self.longest_lease.max(wait);
        }
        // Whoever writes over a living lease does not end it, for its holder may not know yet: a stranger, or a ghost of ours
        // that met a sequence given again. Only a release does.
        let released = matches!(content, Some(Content::Release(_) | Content::Handoff { .. }));
        let held_until = self
            .sight
            .as_ref()
            .filter(|_| !released)
            .map_or(now, |sight| sight.free_at);
        let free_at = held_until.max(now + wait);
        #[cfg(nats_elect_mutations)]
        let free_at = super::mutation::free_at(entry.as_ref(), now, wait).unwrap_or(free_at);
        self.sight = Some(Sight {
            entry,
            received: now,
            free_at,
        });
    }

    /// The lease of the last term, if somebody else than `holder` and than us had it: who writes over its record, or deletes
    /// it, does not end it.
    fn fenced_lease(&self, holder: Option<Uuid>) -> Duration {
        let own = self.own_incarnation;
        mutated!(IgnoreFenceLease => return Duration::ZERO);
        self.fence
            .and_then(|fence| fence.record)
            .filter(|record| {
                let incarnation = record.nonce.incarnation;
                incarnation != own && Some(incarnation) != holder
            })
            .and_then(|record| record.ttl)
            .unwrap_or_default()
    }

    /// The fence record was read: behind what was seen, a longer lease than was known of may last.
    fn fence_told(&mut self) {
        let Some(sight) = &self.sight else { return };
        if sight.free_at > sight.received {
            let until = sight.received + self.wait_for(sight.content());
            if let Some(sight) = &mut self.sight {
                sight.free_at = sight.free_at.max(until);
            }
        }
    }

    /// How long this is to be watched unchanged before it is free.
    fn wait_for(&self, content: Option<&Content>) -> Duration {
        match content {
            Some(Content::Release(_)) => Duration::ZERO,
            Some(Content::Handoff { heir, .. }) if *heir == self.own_incarnation => Duration::ZERO,
            // Free as after any release; the wait is a courtesy to the heir, and protects nothing.
            Some(Content::Handoff { .. }) => self.handoff_hold,
            Some(Content::Record(record)) if record.incarnation == Some(self.own_incarnation) => {
                Duration::ZERO
            }
            Some(Content::Record(record)) if record.incarnation.is_some() => {
                let lease = record.ttl.unwrap_or(self.default_lease);
                lease.max(self.fenced_lease(record.incarnation))
            }
            // Somebody's who may not have asked whether another still leads.
            Some(Content::Record(record)) => {
                let lease = record.ttl.unwrap_or(self.default_lease);
                lease.max(self.longest_lease)
            }
            Some(Content::Opaque) => self.default_lease.max(self.longest_lease),
            Some(Content::ForeignMarker) | None => self.longest_lease,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_millis(200);
    use crate::model::record::SeenFence;

    const OWN: Uuid = Uuid::from_u128(1);
    const NOW: Moment = Moment::from_nanos(5_000_000_000_000);

    fn view() -> View {
        View::new(OWN, Duration::from_secs(1), HOLD)
    }

    fn opaque(revision: u64) -> Entry {
        Entry {
            revision,
            content: Content::Opaque,
        }
    }

    fn shows(role: Option<Entry>) -> Snapshot {
        Snapshot {
            role,
            fence: None,
            epoch: None,
        }
    }

    #[test]
    fn a_refusal_tells_from_where_to_where_the_key_went_back() {
        let mut view = view();
        view.read(&shows(Some(opaque(100))), NOW, NOW);
        assert_eq!(view.refused_at(0, NOW), None, "a missing key");
        assert_eq!(view.refused_at(100, NOW), None);
        assert_eq!(view.refused_at(120, NOW), None);
        assert_eq!(view.refused_at(98, NOW), Some((120, 98)));
        assert_eq!(view.refused_at(98, NOW), None, "told once");
    }

    #[test]
    fn what_the_watch_shows_is_news_unless_it_is_older_or_the_same() {
        let mut view = view();
        view.read(&shows(Some(opaque(100))), NOW, NOW);
        assert!(!view.watched(opaque(90), NOW));
        assert!(!view.watched(opaque(100), NOW));
        assert_eq!(view.claim_over(), 100);
        assert!(view.watched(opaque(110), NOW));
        assert_eq!(view.claim_over(), 110);
    }

    #[test]
    fn a_write_of_ours_is_what_stands_unless_something_newer_was_seen() {
        let mut view = view();
        view.read(&shows(Some(opaque(100))), NOW, NOW);
        view.wrote(101, Content::Release(None), NOW);
        assert_eq!(view.free_at(), Some(NOW), "a release");
        assert_eq!(view.revision(), Some(101));
        view.watched(opaque(105), NOW);
        view.wrote(103, Content::Release(None), NOW);
        assert_eq!(view.revision(), Some(105));
        assert!(view.free_at() > Some(NOW));
    }

    #[test]
    fn sequences_are_of_one_bucket_while_they_rise_no_faster_than_it_is_written() {
        let mut view = view();
        assert!(!view.is_charted(1, NOW), "nothing was read");
        view.read(&shows(Some(opaque(1000))), NOW, NOW);
        assert!(view.is_charted(1000 + BURST, NOW));
        assert!(!view.is_charted(1001 + BURST, NOW));
        let later = NOW + Duration::from_millis(5);
        assert!(view.is_charted(1000 + BURST + 500, later));
        assert!(!view.is_charted(1001 + BURST + 500, later));
        let much_later = NOW + Duration::from_secs(3600);
        assert!(!view.is_charted(1001 + BURST + 100_000, much_later));
        // A mark for the next is what is in line alone.
        view.watched(opaque(1000 + BURST), NOW);
        assert!(view.is_charted(1000 + 2 * BURST, NOW));
        view.watched(opaque(50_000), NOW);
        assert!(!view.is_charted(50_000, NOW));
    }

    #[test]
    fn a_fence_that_is_read_after_a_marker_was_seen_tells_of_a_longer_lease() {
        let mut view = view();
        let marker = Entry {
            revision: 100,
            content: Content::ForeignMarker,
        };
        view.watched(marker.clone(), NOW);
        assert_eq!(view.free_at(), Some(NOW + Duration::from_secs(1)));
        let nonce = Nonce {
            incarnation: Uuid::from_u128(2),
            beat: 1,
        };
        let shown = Snapshot {
            fence: Some(FenceEntry {
                revision: 99,
                record: Some(SeenFence {
                    nonce,
                    ttl: Some(Duration::from_secs(4)),
                }),
            }),
            ..shows(Some(marker))
        };
        let later = NOW + Duration::from_millis(10);
        view.read(&shown, NOW, later);
        assert_eq!(view.free_at(), Some(NOW + Duration::from_secs(4)));
    }

    #[test]
    fn a_fence_is_above_all_others_once_found_so_and_no_other_at_its_revision() {
        let own = Uuid::from_u128(1);
        let mut view = View::new(own, Duration::from_secs(1), HOLD);
        let fence = |beat| FenceEntry {
            revision: 5,
            record: Some(SeenFence {
                nonce: Nonce {
                    incarnation: own,
                    beat,
                },
                ttl: None,
            }),
        };
        assert!(view.fenced(fence(1)));
        assert!(view.fenced(fence(1)), "read back");
        assert!(!view.fenced(fence(2)), "a later term's");
    }
}
