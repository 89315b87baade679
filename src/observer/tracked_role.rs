//! The state of one role. It follows from the messages under the role's keys and the time since
//! then.
//!
//! It does not tell when an instance may claim the role. The election's `ObservedRole` does: it also
//! waits for leases that no record shows any more.

mod reports;

use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::observed::Standing;
use crate::actors::Signatures;
use nats_elect_core::Moment;
use nats_elect_core::event::Distrust;
use nats_elect_core::record::{Content, Entry, FenceEntry};
use nats_elect_core::release::ReleaseHash;
use nats_elect_core::status::LeaderInfo;

/// What stands under a key, and when it was stored.
type Stored<E> = (E, SystemTime);
/// What the stream leader has under the role's key and its fence key.
pub(super) type Found = (Option<Stored<Entry>>, Option<Stored<FenceEntry>>);

/// The pause between looks at a key that could not be read.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The state of a role that was last reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reported {
    pub standing: Standing,
    pub leader: Option<LeaderInfo>,
}

/// A moment on both clocks. The first one is used for counting, the second one is reported.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub clock: Moment,
    pub wall: SystemTime,
}

/// The doubt about the current record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    None,
    /// The lease has passed, and the stream leader still has nothing newer.
    Expired,
    /// The lease has passed, and the observer could not see the current data.
    Unseen,
}

/// What the present watch has shown of the value that is known of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    /// Not yet the value.
    Awaited,
    Shown,
    /// Everything else, but not the value.
    Missing,
}

/// What is known of a key.
struct Key<E> {
    entry: Option<E>,
    /// When the entry was stored. Times of the server's clock date what is reported, and decide
    /// nothing.
    written: SystemTime,
    sight: Sight,
}

impl<E> Key<E> {
    const UNKNOWN: Self = Self {
        entry: None,
        written: SystemTime::UNIX_EPOCH,
        sight: Sight::Awaited,
    };

    /// Records that the watch has shown everything. `expected` is whether there should be a value.
    fn caught_up(&mut self, expected: bool) {
        if expected && self.sight == Sight::Awaited {
            self.sight = Sight::Missing;
        }
    }
}

/// The state at the start of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Looking {
    revision: u64,
    /// The lease had passed when the look began. If the look then finds nothing newer, the lease
    /// has ended.
    overdue: bool,
}

pub(super) struct TrackedRole {
    signatures: Signatures,
    key: Key<Entry>,
    /// When the entry was received, or shown again by a new watch.
    received: Moment,
    /// A fence record is expected where a leader's record stands.
    fence: Key<FenceEntry>,
    /// The lease of the last record.
    lease: Option<Duration>,
    doubt: Doubt,
    /// The present watch has shown that nothing was missed, or the role is known at all.
    known: bool,
    confirmed: bool,
    /// When the first record of the leader that was seen was stored.
    led_since: SystemTime,
    /// Since when nobody leads, if nobody is reported.
    unled_since: Option<SystemTime>,
    /// When the last sign of a leader came, if it was seen as it came: a heartbeat, or a release.
    last_sign: Option<Moment>,
    /// The time from the last sign of the leader before to the claim of the present one.
    silence: Option<Duration>,
    /// The revision of the leader's claim, if the claim was watched. The leader's fence record lies
    /// above it.
    claimed_at: Option<u64>,
    heir: Option<Uuid>,
    distrust: Option<Distrust>,
    /// A look at the stream leader's data is under way. It began while this revision stood here.
    looking: Option<Looking>,
    look_at: Moment,
    told: Reported,
    last_leader: Option<LeaderInfo>,
}

impl TrackedRole {
    /// Returns a role of which nothing was seen. `known` is set if it would have been seen.
    pub const fn new(signatures: Signatures, known: bool, now: Moment) -> Self {
        Self {
            signatures,
            key: Key::UNKNOWN,
            received: now,
            fence: Key::UNKNOWN,
            lease: None,
            doubt: Doubt::None,
            known,
            confirmed: false,
            led_since: SystemTime::UNIX_EPOCH,
            unled_since: None,
            last_sign: None,
            silence: None,
            claimed_at: None,
            heir: None,
            distrust: None,
            looking: None,
            look_at: now,
            told: Reported {
                standing: Self::nothing(known),
                leader: None,
            },
            last_leader: None,
        }
    }

    const fn nothing(known: bool) -> Standing {
        if known {
            Standing::Unclaimed
        } else {
            Standing::Unknown
        }
    }

    pub const fn signatures(&mut self) -> &mut Signatures {
        &mut self.signatures
    }

    /// Starts a new watch, which will show everything once more.
    pub const fn watch_begins(&mut self) {
        self.key.sight = Sight::Awaited;
        self.fence.sight = Sight::Awaited;
        self.confirmed = false;
        self.looking = None;
    }

    /// Forgets the old bucket, because the bucket is another one. Nothing that was seen is valid,
    /// and the data in the new bucket was not seen yet.
    pub fn forget(&mut self) {
        self.watch_begins();
        self.key.entry = None;
        self.fence.entry = None;
        self.heir = None;
        self.distrust = None;
        self.doubt = Doubt::None;
        self.known = false;
        self.last_sign = None;
        self.last_leader = None;
    }

    /// Returns whether a value stands under the role's keys, as far as was seen.
    pub const fn is_there(&self) -> bool {
        self.key.entry.is_some() || self.fence.entry.is_some()
    }

    /// Records that the watch has shown the current data under the roles' keys.
    ///
    /// An entry that was seen before and was not shown now is looked up. It may just have been
    /// replaced, removed, or taken back with the bucket.
    pub fn caught_up(&mut self) {
        self.key.caught_up(self.key.entry.is_some());
        self.fence.caught_up(self.holder().is_some());
        self.known = true;
    }

    /// Takes a message that the watch showed under the role's key. `live` is whether it has just
    /// been written, `untold` the lease of records that do not tell theirs.
    ///
    /// A revision below one already seen comes from a server that lags. Only the stream leader's
    /// answer can take the state back.
    pub fn show(&mut self, shown: Stored<Entry>, live: bool, untold: Duration, now: Moment) {
        let seen = self.key.entry.as_ref().map(|seen| seen.revision);
        if seen.is_none_or(|seen| shown.0.revision >= seen) {
            self.take(shown, live, untold, now);
        }
    }

    fn take(&mut self, stored: Stored<Entry>, live: bool, untold: Duration, now: Moment) {
        let (mut entry, written) = stored;
        let distrust = self.signatures.judge(&mut entry, now);
        let seen = self.key.entry.as_ref();
        let again = seen.is_some_and(|seen| entry.is(seen));
        if again && self.key.sight == Sight::Shown {
            return;
        }
        self.key.sight = Sight::Shown;
        self.known = true;
        self.distrust = distrust;
        if again && self.doubt == Doubt::Expired {
            // The entry has stood there since before its lease ended.
            return;
        }
        let was = self.key.entry.replace(entry);
        let was = was.filter(|_| self.doubt != Doubt::Expired);
        self.doubt = Doubt::None;
        self.received = now;
        self.key.written = written;
        self.look_at = now;
        self.confirmed = live;
        let Some(entry) = &self.key.entry else { return };
        let live = live.then_some(now);
        match &entry.content {
            Content::Release(release) => {
                self.heir = release.heir;
                self.last_sign = live;
            }
            Content::ForeignMarker => self.heir = None,
            Content::Record(_) | Content::Opaque => {
                self.lease = entry.content.lease(untold);
                let before = was.as_ref().and_then(|was| term(&was.content));
                if before != term(&entry.content) {
                    self.led_since = written;
                    self.claimed_at = live.map(|_| entry.revision);
                    let last_sign = self.last_sign.filter(|_| live.is_some());
                    self.silence = last_sign.map(|at| now.since(at));
                }
                self.last_sign = live;
            }
        }
    }

    /// Takes a message that the watch showed under the role's fence key. A revision below one
    /// already seen comes from a server that lags.
    pub fn show_fence(&mut self, (fence, written): Stored<FenceEntry>) {
        let seen = self.fence.entry.map(|seen| seen.revision);
        if seen.is_none_or(|seen| fence.revision >= seen) {
            self.fence = Key {
                entry: Some(fence),
                written,
                sight: Sight::Shown,
            };
        }
    }

    /// Lets time pass. Returns whether a look at the stream leader's data begins, for which there
    /// must be `room`. `current` is whether the watch would have shown a heartbeat.
    pub fn tick(&mut self, current: bool, room: bool, now: Moment) -> bool {
        let overdue = self.is_overdue(now);
        let is_open = overdue && self.doubt != Doubt::Expired;
        if !current && is_open {
            self.doubt = Doubt::Unseen;
        }
        let is_missing = [self.key.sight, self.fence.sight].contains(&Sight::Missing);
        let is_due = self.looking.is_none() && now >= self.look_at;
        let looks = current && room && is_due && (is_open || is_missing);
        if looks {
            let revision = self.key.entry.as_ref().map(|entry| entry.revision);
            self.looking = revision.map(|revision| Looking { revision, overdue });
        }
        looks
    }

    /// Returns whether time alone may have changed the reported state.
    pub fn may_have_turned(&self) -> bool {
        self.told.leader.is_some() && (self.doubt != Doubt::None || self.signatures.is_required())
    }

    /// Takes the result of a look at the stream leader's data, or `None` if the look failed. The
    /// look began after the lease had passed, or for data that the watch did not show.
    pub fn looked(&mut self, found: Option<Found>, untold: Duration, now: Moment) {
        let looking = self.looking.take();
        let asked = looking.map(|looking| looking.revision);
        let was_overdue = looking.is_some_and(|looking| looking.overdue);
        if let Some((_, fence)) = &found {
            let shown = self.fence.entry;
            let shown = shown.filter(|_| self.fence.sight == Sight::Shown);
            let shown = shown.map_or(0, |shown| shown.revision);
            if let Some((fence, written)) = fence.filter(|(fence, _)| fence.revision >= shown) {
                self.fence.entry = Some(fence);
                self.fence.written = written;
            }
            if self.fence.sight == Sight::Missing {
                // A leader of another library has no fence record.
                self.fence.sight = Sight::Awaited;
            }
        } else if self.fence.sight == Sight::Missing {
            self.look_at = now + LOOK_AGAIN;
        }
        let is_about = |entry: &Entry| Some(entry.revision) == asked;
        let is_open = self.key.sight == Sight::Missing || self.is_overdue(now);
        if !self.key.entry.as_ref().is_some_and(is_about) || !is_open {
            // The look belongs to a watch that is over, or the watch has shown something newer
            // meanwhile.
            return;
        }
        self.look_at = now + LOOK_AGAIN;
        let Some((role, _)) = found else {
            if self.doubt == Doubt::None && was_overdue {
                self.doubt = Doubt::Unseen;
            }
            return;
        };
        self.key.sight = Sight::Shown;
        let Some((mut entry, written)) = role else {
            self.key.entry = None;
            self.doubt = Doubt::None;
            self.distrust = None;
            return;
        };
        let about = is_about(&entry);
        if let (Content::Record(record), true) = (&mut entry.content, about) {
            // The entry that was judged has no proof any more.
            record.proof = None;
        }
        if self.key.entry.as_ref().is_some_and(|seen| entry.is(seen)) {
            if was_overdue {
                self.doubt = Doubt::Expired;
            } else {
                // The lease may have passed meanwhile. The next look decides then.
                self.look_at = now;
            }
            return;
        }
        // If writes were lost, the entry is older.
        let live = Some(entry.revision) > asked;
        self.take((entry, written), live, untold, now);
    }

    /// Returns whether a record stands whose lease has passed.
    fn is_overdue(&self, now: Moment) -> bool {
        self.holder().is_some() && now >= self.received + self.lease()
    }

    fn lease(&self) -> Duration {
        self.lease.unwrap_or_default()
    }

    fn holder(&self) -> Option<&Content> {
        let content = &self.key.entry.as_ref()?.content;
        term(content).map(|_| content)
    }
}

/// Returns what tells the leader's term from others, as far as its record shows that. Each term has
/// a release secret of its own. `None` if no leader's record stands there.
fn term(content: &Content) -> Option<(&str, Option<Uuid>, Option<ReleaseHash>)> {
    match content {
        Content::Record(record) => Some((&record.id, record.incarnation, record.release)),
        Content::Opaque => Some(("", None, None)),
        Content::Release(_) | Content::ForeignMarker => None,
    }
}
