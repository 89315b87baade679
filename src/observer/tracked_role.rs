//! The state of one role. It follows from the messages under the role's keys and the time since
//! then.

use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::observed::{ChangeCause, Observed, RoleChange, Standing};
use crate::actors::Signatures;
use nats_elect_core::Moment;
use nats_elect_core::event::Distrust;
use nats_elect_core::name::RoleName;
use nats_elect_core::record::{Content, Entry, FOREIGN_LEASE, FenceEntry};
use nats_elect_core::status::LeaderInfo;
use nats_elect_core::token::FencingToken;

/// What the stream leader has under the role's key and its fence key, and since when.
pub(super) type Found = (
    Option<(Entry, SystemTime)>,
    Option<(FenceEntry, SystemTime)>,
);

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

/// How an entry came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// It stood there when the watch began.
    Stood,
    /// It has just been written.
    Live,
}

/// The state at the start of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Looking {
    revision: u64,
    /// The lease had passed when the look began. If the look then finds nothing newer, the lease
    /// has ended.
    overdue: bool,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct TrackedRole {
    signatures: Signatures,
    entry: Option<Entry>,
    /// When the entry was received, or shown again by a new watch.
    received: Moment,
    /// When the entry was stored. Times of the server's clock date what is reported, and decide
    /// nothing.
    written: SystemTime,
    /// The lease of the last record.
    lease: Option<Duration>,
    doubt: Doubt,
    /// The present watch has shown the entry.
    shown: bool,
    /// The present watch did not show the entry, and has shown everything else.
    missing: bool,
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
    fence: Option<FenceEntry>,
    fence_written: SystemTime,
    fence_shown: bool,
    /// The present watch did not show the leader's fence record, and has shown everything else.
    fence_missing: bool,
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
            entry: None,
            received: now,
            written: SystemTime::UNIX_EPOCH,
            lease: None,
            doubt: Doubt::None,
            shown: false,
            missing: false,
            known,
            confirmed: false,
            led_since: SystemTime::UNIX_EPOCH,
            unled_since: None,
            last_sign: None,
            silence: None,
            claimed_at: None,
            heir: None,
            fence: None,
            fence_written: SystemTime::UNIX_EPOCH,
            fence_shown: false,
            fence_missing: false,
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
        self.shown = false;
        self.missing = false;
        self.confirmed = false;
        self.fence_shown = false;
        self.fence_missing = false;
        self.looking = None;
    }

    /// Forgets the old bucket, because the bucket is another one. Nothing that was seen is valid,
    /// and the data in the new bucket was not seen yet. Returns the resulting change of the
    /// reported state.
    pub fn forget(&mut self, role: &RoleName, server: SystemTime, now: Now) -> Option<RoleChange> {
        self.watch_begins();
        self.entry = None;
        self.fence = None;
        self.heir = None;
        self.distrust = None;
        self.doubt = Doubt::None;
        self.known = false;
        self.last_sign = None;
        let change = self.settle(role, server, now);
        self.last_leader = None;
        change.map(|change| RoleChange {
            cause: ChangeCause::BucketReplaced,
            ..change
        })
    }

    /// Returns whether a value stands under the role's keys, as far as was seen.
    pub const fn is_there(&self) -> bool {
        self.entry.is_some() || self.fence.is_some()
    }

    /// Records that the watch has shown the current data under the roles' keys.
    ///
    /// An entry that was seen before and was not shown now is looked up. It may just have been
    /// replaced, removed, or taken back with the bucket.
    pub fn caught_up(&mut self) {
        self.missing = !self.shown && self.entry.is_some();
        self.fence_missing = !self.fence_shown && self.holder().is_some();
        self.known = true;
    }

    /// Takes a message that the watch showed under the role's key. `default_lease` applies to
    /// records that do not contain a lease.
    ///
    /// A revision below one already seen comes from a server that lags. Only the stream leader's
    /// answer can take the state back.
    pub fn show(
        &mut self,
        entry: Entry,
        how: How,
        default_lease: Duration,
        written: SystemTime,
        now: Moment,
    ) {
        let seen = self.entry.as_ref().map(|seen| seen.revision);
        if seen.is_none_or(|seen| entry.revision >= seen) {
            self.take(entry, how, default_lease, written, now);
        }
    }

    fn take(
        &mut self,
        mut entry: Entry,
        how: How,
        default_lease: Duration,
        written: SystemTime,
        now: Moment,
    ) {
        let distrust = self.signatures.judge(&mut entry, now);
        let again = self.entry.as_ref().is_some_and(|seen| entry.is(seen));
        if again && self.shown {
            return;
        }
        self.shown = true;
        self.missing = false;
        self.known = true;
        self.distrust = distrust;
        if again && self.doubt == Doubt::Expired {
            // The entry has stood there since before its lease ended.
            return;
        }
        let was = self.entry.replace(entry);
        let was = was.filter(|_| self.doubt != Doubt::Expired);
        self.doubt = Doubt::None;
        self.received = now;
        self.written = written;
        self.look_at = now;
        self.confirmed = how == How::Live;
        let Some(entry) = &self.entry else { return };
        let live = (how == How::Live).then_some(now);
        match &entry.content {
            Content::Release(release) => {
                self.heir = release.heir;
                self.last_sign = live;
            }
            Content::ForeignMarker => self.heir = None,
            Content::Record(_) | Content::Opaque => {
                self.lease = Some(lease(&entry.content, default_lease));
                if !was.is_some_and(|was| are_of_one_term(&was.content, &entry.content)) {
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
    pub fn show_fence(&mut self, fence: FenceEntry, written: SystemTime) {
        let seen = self.fence.map(|seen| seen.revision);
        if seen.is_none_or(|seen| fence.revision >= seen) {
            self.fence = Some(fence);
            self.fence_written = written;
            self.fence_shown = true;
            self.fence_missing = false;
        }
    }

    /// Lets time pass. Returns whether to look at the stream leader's data. `current` is whether
    /// the watch would have shown a heartbeat.
    pub fn tick(&mut self, current: bool, now: Moment) -> bool {
        let is_open = self.is_overdue(now) && self.doubt != Doubt::Expired;
        if !current && is_open {
            self.doubt = Doubt::Unseen;
        }
        if !current || !(is_open || self.missing || self.fence_missing) {
            return false;
        }
        self.looking.is_none() && now >= self.look_at
    }

    /// Returns whether time alone may have changed the reported state.
    pub fn may_have_turned(&self) -> bool {
        self.told.leader.is_some() && (self.doubt != Doubt::None || self.signatures.is_required())
    }

    pub fn looks(&mut self, now: Moment) {
        self.looking = self.entry.as_ref().map(|entry| Looking {
            revision: entry.revision,
            overdue: self.is_overdue(now),
        });
    }

    /// Takes the result of a look at the stream leader's data, or `None` if the look failed. The
    /// look began after the lease had passed, or for data that the watch did not show.
    pub fn looked(&mut self, found: Option<Found>, default_lease: Duration, now: Moment) {
        let looking = self.looking.take();
        let asked = looking.map(|looking| looking.revision);
        let was_overdue = looking.is_some_and(|looking| looking.overdue);
        if let Some((_, fence)) = &found {
            let older = |fence: &FenceEntry| {
                self.fence_shown
                    && self
                        .fence
                        .is_some_and(|shown| fence.revision < shown.revision)
            };
            if let Some((fence, written)) = fence.filter(|(fence, _)| !older(fence)) {
                self.fence = Some(fence);
                self.fence_written = written;
            }
            // A leader of another library has no fence record.
            self.fence_missing = false;
        } else if self.fence_missing {
            self.look_at = now + LOOK_AGAIN;
        }
        let is_about = |entry: &Entry| Some(entry.revision) == asked;
        let is_open = self.missing || self.is_overdue(now);
        if !self.entry.as_ref().is_some_and(is_about) || !is_open {
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
        self.missing = false;
        let Some((mut entry, written)) = role else {
            self.entry = None;
            self.doubt = Doubt::None;
            self.distrust = None;
            return;
        };
        let about = is_about(&entry);
        if let (Content::Record(record), true) = (&mut entry.content, about) {
            // The entry that was judged has no proof any more.
            record.proof = None;
        }
        if self.entry.as_ref().is_some_and(|seen| entry.is(seen)) {
            self.shown = true;
            if was_overdue {
                self.doubt = Doubt::Expired;
            } else {
                // The lease may have passed meanwhile. The next look decides then.
                self.look_at = now;
            }
            return;
        }
        // The entry is newer. If writes were lost, it may be older.
        let how = if Some(entry.revision) > asked {
            How::Live
        } else {
            How::Stood
        };
        self.shown = false;
        self.take(entry, how, default_lease, written, now);
    }

    /// Returns whether a record stands whose lease has passed.
    fn is_overdue(&self, now: Moment) -> bool {
        self.holder().is_some() && now >= self.received + self.lease()
    }

    fn lease(&self) -> Duration {
        self.lease.unwrap_or(FOREIGN_LEASE.0)
    }

    fn holder(&self) -> Option<&Content> {
        let content = &self.entry.as_ref()?.content;
        matches!(content, Content::Record(_) | Content::Opaque).then_some(content)
    }

    fn stands(&self, now: Moment) -> Reported {
        let nobody = |standing| Reported {
            standing,
            leader: None,
        };
        let Some(entry) = &self.entry else {
            return nobody(Self::nothing(self.known));
        };
        match (&entry.content, self.doubt) {
            (Content::Release(release), _) if release.heir.is_some() => {
                nobody(Standing::HandedOver)
            }
            (Content::Release(_), _) => nobody(Standing::Released),
            (Content::ForeignMarker, _) => nobody(Standing::Deleted),
            (_, Doubt::Expired) => nobody(Standing::Expired),
            (_, Doubt::Unseen) => nobody(Standing::Unknown),
            (content, Doubt::None) => {
                let leader = LeaderInfo::shown_by(content);
                match self.signatures.told(leader, now) {
                    None => nobody(Standing::Untrusted),
                    leader => Reported {
                        standing: Standing::Led,
                        leader,
                    },
                }
            }
        }
    }

    /// Brings the reported state up to date. Returns the change, if there is one. `server` is the
    /// time by the server's clock.
    pub fn settle(&mut self, role: &RoleName, server: SystemTime, now: Now) -> Option<RoleChange> {
        let new = self.stands(now.clock);
        self.unled_since = if new.leader.is_some() {
            None
        } else {
            let ended = || self.leader_ended(new.standing, server);
            Some(self.unled_since.unwrap_or_else(ended))
        };
        let is_same = new.standing == self.told.standing
            && match (&new.leader, &self.told.leader) {
                (Some(new), Some(old)) => is_one_instance(new, old),
                (None, None) => true,
                _ => false,
            };
        let old = std::mem::replace(&mut self.told, new);
        if is_same {
            return None;
        }
        let cause = self.cause(&old);
        let is_new = matches!(cause, ChangeCause::Claimed | ChangeCause::HandedOver);
        if self.told.leader.is_some() {
            self.heir = None;
            self.last_leader = None;
        } else if old.leader.is_some() {
            self.last_leader.clone_from(&old.leader);
        }
        Some(RoleChange {
            role: role.as_str().to_owned(),
            from: old.leader,
            to: self.told.leader.clone(),
            standing: self.told.standing,
            cause,
            silence: self.silence.filter(|_| is_new),
            at: now.wall,
        })
    }

    /// Returns since when no leader is known, as the stream has it: since the end of the last lease,
    /// or since the marker that freed the role. `server` is the time by the server's clock.
    fn leader_ended(&self, standing: Standing, server: SystemTime) -> SystemTime {
        let ended = match &self.entry {
            // Nothing tells when the key was removed, or since when a record is not trusted.
            None => server,
            Some(_) if standing == Standing::Untrusted => self.written,
            Some(_) if self.holder().is_some() => self.written + self.lease(),
            Some(_) => self.written,
        };
        ended.min(server)
    }

    fn cause(&self, old: &Reported) -> ChangeCause {
        let leader = self.told.leader.as_ref();
        let incarnation = leader.and_then(|one| one.incarnation);
        let is_seen_again = old.standing == Standing::Unknown
            && leader
                .zip(self.last_leader.as_ref())
                .is_some_and(|(one, last)| is_one_instance(one, last));
        match self.told.standing {
            Standing::Led if !self.confirmed || is_seen_again => ChangeCause::Found,
            Standing::Led if incarnation.is_some() && incarnation == self.heir => {
                ChangeCause::HandedOver
            }
            Standing::Led => ChangeCause::Claimed,
            Standing::Untrusted => ChangeCause::Untrusted,
            Standing::Released | Standing::HandedOver => ChangeCause::Released,
            Standing::Expired => ChangeCause::Expired,
            Standing::Unknown => ChangeCause::LostSight,
            Standing::Unclaimed
                if old.standing == Standing::Unknown && self.last_leader.is_none() =>
            {
                ChangeCause::Found
            }
            Standing::Deleted | Standing::Unclaimed => ChangeCause::Deleted,
        }
    }

    pub const fn told(&self) -> &Reported {
        &self.told
    }

    /// Returns the leader, if it was seen alive.
    pub fn confirmed_leader(&self) -> Option<&LeaderInfo> {
        self.told.leader.as_ref().filter(|_| self.confirmed)
    }

    /// `server` is the time by the server's clock, as far as it is known.
    pub fn observed(
        &self,
        epoch: Option<u64>,
        server: Option<SystemTime>,
        now: Moment,
    ) -> Observed {
        let leads = self.told.leader.is_some();
        let held = self.holder().is_some();
        let age = now.since(self.received);
        let remaining = leads.then(|| self.lease().saturating_sub(age));
        let fencing_token = epoch.and_then(|epoch| self.fencing_token(epoch));
        let is_its = |token: &FencingToken| {
            let fence = self.fence.map(|fence| fence.revision);
            fence == Some(token.sequence)
        };
        let term_began = fencing_token.filter(is_its).map(|_| self.fence_written);
        let ago = |time: SystemTime| Some(server?.duration_since(time).unwrap_or_default());
        let alive = leads && self.confirmed && remaining != Some(Duration::ZERO);
        let unled_since = self.unled_since.or_else(|| {
            let ended = server.map(|server| self.leader_ended(self.told.standing, server));
            ended.filter(|_| self.entry.is_some())
        });
        Observed {
            standing: self.told.standing,
            leader: self.told.leader.clone(),
            confirmed: leads && self.confirmed,
            since: ago(term_began.unwrap_or(self.led_since)).filter(|_| leads),
            since_at: if leads { term_began } else { self.unled_since },
            unled: unled_since.filter(|_| !alive).and_then(ago),
            fencing_token,
            revision: self.entry.as_ref().map(|entry| entry.revision),
            ttl: self.lease.or_else(|| self.fence?.record?.ttl),
            age: held.then_some(age),
            remaining,
            opaque: matches!(self.holder(), Some(Content::Opaque)),
            distrust: self.distrust.filter(|_| held && !leads),
            last_leader: self.last_leader.clone().filter(|_| !leads),
        }
    }

    fn fencing_token(&self, epoch: u64) -> Option<FencingToken> {
        let leader = self.told.leader.as_ref()?;
        if self.signatures.is_required() {
            return self.signatures.fencing_token();
        }
        let fence = self.fence?;
        let is_its = fence.nonce()?.incarnation == leader.incarnation?;
        let is_new = self.claimed_at.is_none_or(|claim| fence.revision > claim);
        (is_its && is_new).then_some(FencingToken {
            epoch,
            sequence: fence.revision,
        })
    }
}

fn lease(content: &Content, default_lease: Duration) -> Duration {
    let told = match content {
        Content::Record(record) => record.ttl,
        _ => None,
    };
    told.unwrap_or(default_lease)
        .clamp(FOREIGN_LEASE.0, FOREIGN_LEASE.1)
}

/// Returns whether both values are of the same term, as far as can be determined. Each term has a
/// release secret of its own.
fn are_of_one_term(one: &Content, other: &Content) -> bool {
    let release = |content: &Content| match content {
        Content::Record(record) => record.release,
        _ => None,
    };
    let is_one_release = release(one) == release(other);
    let (one, other) = (LeaderInfo::shown_by(one), LeaderInfo::shown_by(other));
    let is_one_leader = one
        .zip(other)
        .is_some_and(|(one, other)| is_one_instance(&one, &other));
    is_one_leader && is_one_release
}

fn is_one_instance(one: &LeaderInfo, other: &LeaderInfo) -> bool {
    one.incarnation == other.incarnation && one.instance_id == other.instance_id
}
