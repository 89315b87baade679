//! What is known of each epoch of the group.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::assignment::{Epoch, LONGEST_LEASE, MemberRecord, Unit, Value};
use crate::moment::Moment;
use crate::mutation::mutated;

/// So many heartbeats are delivered to all members together in a second, as long as a lease has room.
const MOST_DELIVERIES: u32 = 2_500;

/// The time until a write beside the lease is tried again.
pub(super) const AGAIN: Duration = Duration::from_secs(1);

/// The time between two reads of a foreign value, or of the map.
pub(super) const REREAD: Duration = Duration::from_secs(15);

/// A value under the key of an epoch that is not over.
#[derive(Clone, Debug, Hash)]
struct Peer {
    sequence: u64,
    /// Since when it has been watched.
    since: Moment,
    /// `None` if it is no record of that epoch.
    record: Option<Arc<MemberRecord>>,
    /// When to read it again from the stream's leader, if it is no record.
    read_at: Moment,
    /// Whether another value is known to be there, or nothing.
    is_refuted: bool,
}

impl Peer {
    /// Whether a value is old. Where writes were lost their sequences are given again: a value that
    /// `is_back` under a key that was empty is another one.
    fn makes_old(&self, sequence: u64, value: &Value, is_back: bool) -> bool {
        let is_same = match (&self.record, value) {
            (Some(record), Value::Member(other)) => record.nonce() == other.nonce(),
            (None, Value::Foreign | Value::LaterMember) => true,
            _ => false,
        };
        let is_known = self.sequence == sequence && is_same && !is_back;
        is_known || (self.sequence > sequence && !self.is_refuted)
    }

    /// The lease that the value has to be watched for.
    fn lease(&self) -> Duration {
        let foreign = if mutated!(ForeignWatchedShort) {
            AGAIN
        } else {
            LONGEST_LEASE
        };
        let lease = self.record.as_ref().map_or(foreign, |it| it.ttl);
        if mutated!(MarkedEarly) {
            lease / 4
        } else {
            lease
        }
    }
}

/// What a value changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Nothing but time.
    Nothing,
    /// Loads alone.
    Loads,
    /// What the epoch tells, or what is known of it.
    Told,
    /// The epoch is over.
    Over,
}

/// Something that any member may write under another's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chore {
    /// *Ended*, over exactly this value.
    End(Epoch, u64),
    /// A foreign value, over nothing.
    Blank(Epoch),
    /// A read of a foreign value: somebody may have emptied the key, which no watch shows.
    Read(Epoch),
}

/// All epochs that were shown.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Peers {
    known: BTreeMap<Epoch, Peer>,
    /// Epochs that are over, each with the sequence that showed it.
    over: BTreeMap<Epoch, u64>,
    /// Epochs that are over, and whose keys show *ended* without a time to live, with its sequence.
    pub ended: BTreeMap<Epoch, u64>,
    /// Epochs under whose keys nothing is known to be, and since when.
    absent: BTreeMap<Epoch, Moment>,
    /// When a chore may be tried again.
    again: BTreeMap<Epoch, Moment>,
}

impl Peers {
    /// Takes what the watch or a read shows.
    pub fn show(&mut self, now: Moment, epoch: Epoch, sequence: u64, value: Value) -> News {
        // Where writes were lost, a heartbeat may follow the end, which has the sequence of a lost one.
        let is_record = matches!(value, Value::Member(_) | Value::LaterMember);
        let is_record = is_record && !mutated!(OverForGood);
        let goes_on = |end: &u64| (is_record && sequence > *end) || mutated!(OverComesBack);
        if self.over.get(&epoch).is_some_and(|end| !goes_on(end)) {
            self.show_end(epoch, sequence, &value);
            return News::Nothing;
        }
        self.over.remove(&epoch);
        self.ended.remove(&epoch);
        let (before, is_back) = (self.known.get(&epoch), self.absent.contains_key(&epoch));
        if before.is_some_and(|it| it.makes_old(sequence, &value, is_back)) {
            return News::Nothing;
        }
        self.absent.remove(&epoch);
        self.again.remove(&epoch);
        let record = match value {
            Value::Ended | Value::Expiring => {
                self.known.remove(&epoch);
                self.show_end(epoch, sequence, &value);
                return News::Over;
            }
            Value::Member(record) => Some(Arc::new(*record)),
            _ => None,
        };
        let told = before.and_then(|it| it.record.as_ref());
        let loads = |it: &MemberRecord| (it.profile.load, it.profile.heavy.clone());
        let news = match told.zip(record.as_ref()).filter(|(a, b)| says_same(a, b)) {
            Some((a, b)) if loads(a) == loads(b) => News::Nothing,
            Some(_) => News::Loads,
            None => News::Told,
        };
        let first = before.filter(|_| mutated!(WatchedOnce)).map(|it| it.since);
        let peer = Peer {
            sequence,
            since: first.unwrap_or(now),
            record,
            read_at: now + REREAD,
            is_refuted: false,
        };
        self.known.insert(epoch, peer);
        news
    }

    /// Takes a value under the key of an epoch that is over.
    fn show_end(&mut self, epoch: Epoch, sequence: u64, value: &Value) {
        if matches!(value, Value::Ended | Value::Expiring) {
            self.over.insert(epoch, sequence);
        }
        if *value == Value::Ended {
            self.ended.insert(epoch, sequence);
        } else {
            self.ended.remove(&epoch);
        }
    }

    /// Nothing is under the epoch's key, as a read found, or as the watch has shown nothing.
    pub fn miss(&mut self, now: Moment, epoch: Epoch) {
        if self.is_over(epoch) {
            self.ended.remove(&epoch);
        } else {
            mutated!(MissingIsOver => { self.over.insert(epoch, 0); });
            self.absent.entry(epoch).or_insert(now);
        }
    }

    /// The epoch's value is not there any more: a write over it was refused, or its member wrote over
    /// it. Whatever other value is shown next is watched anew, also if its sequence is lower, as writes
    /// may be lost.
    pub fn refute(&mut self, epoch: Epoch) {
        if let Some(peer) = self.known.get_mut(&epoch) {
            peer.is_refuted = !mutated!(OldSequenceForGood);
        }
    }

    pub fn is_known(&self, epoch: Epoch) -> bool {
        self.known.contains_key(&epoch) || self.is_over(epoch)
    }

    pub fn is_over(&self, epoch: Epoch) -> bool {
        self.over.contains_key(&epoch)
    }

    /// The record of an epoch that is not over.
    pub fn record(&self, epoch: Epoch) -> Option<&Arc<MemberRecord>> {
        self.known.get(&epoch)?.record.as_ref()
    }

    /// All epochs that were shown and are not over.
    pub fn living(&self) -> impl Iterator<Item = Epoch> {
        self.known.keys().copied()
    }

    /// The time between heartbeats of a lease of this length. Each heartbeat goes to all members. So the
    /// more members there are, the rarer it is, down to three in a lease.
    pub fn pace(&self, heartbeat: Duration, ttl: Duration) -> Duration {
        let members = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        let all = members.saturating_mul(members);
        let rarer = Duration::from_secs(all.into()) / MOST_DELIVERIES;
        rarer.min(ttl / 3).max(heartbeat)
    }

    /// Rule 2: whether the epoch is clear of a unit for the map of this sequence.
    pub fn is_clear(&self, epoch: Epoch, generation: u32, unit: &Unit, number: u64) -> bool {
        let record = self.record(epoch);
        if mutated!(OtherGenerationsIgnored) {
            let excepts = |it: &MemberRecord| it.excepts.contains(generation, unit);
            let is_clear = |it: &Arc<MemberRecord>| it.follows >= number && !excepts(it);
            return self.is_over(epoch) || record.is_some_and(is_clear);
        }
        self.is_over(epoch) || record.is_some_and(|it| it.is_clear(generation, unit, number))
    }

    /// Whether the epoch is clear of all units of all generations for the map of this sequence.
    pub fn is_clear_of_all(&self, epoch: Epoch, number: u64) -> bool {
        let record = self.record(epoch);
        self.is_over(epoch) || record.is_some_and(|it| it.is_clear_of_all(number))
    }

    /// Whether the epoch told since the map of this sequence that it does not follow it.
    pub fn is_behind(&self, epoch: Epoch, number: u64) -> bool {
        let peer = self.known.get(&epoch);
        let follows = |it: &Peer| it.record.as_ref().map_or(0, |it| it.follows);
        peer.is_some_and(|it| it.sequence > number && follows(it) < number)
    }

    /// Whether two heartbeats of the epoch are missing, or more.
    pub fn is_quiet(&self, epoch: Epoch, now: Moment) -> bool {
        let peer = self.known.get(&epoch);
        peer.is_none_or(|it| it.since + it.lease() / 2 <= now)
    }

    /// Whether the epoch wrote nothing within its lease.
    pub fn is_silent(&self, epoch: Epoch, now: Moment) -> bool {
        let peer = self.known.get(&epoch);
        peer.is_none_or(|it| it.since + it.lease() <= now)
    }

    /// Whether a living member waits for the leases of another bucket.
    pub fn any_waits(&self) -> bool {
        let mut records = self.known.values().filter_map(|it| it.record.as_ref());
        records.any(|it| it.waits)
    }

    /// What is due of rules 4 and 5. `own` is the own epoch, and `delay` leaves it to those before.
    pub fn chores(&mut self, now: Moment, own: Epoch, delay: Duration) -> Vec<Chore> {
        let due: Vec<_> = self
            .dues(own, delay)
            .filter_map(|(at, chore)| (at <= now).then_some(chore))
            .collect();
        for chore in &due {
            let (Chore::End(epoch, _) | Chore::Blank(epoch) | Chore::Read(epoch)) = chore;
            self.again.insert(*epoch, now + AGAIN);
            if let (Chore::Read(_), Some(peer)) = (chore, self.known.get_mut(epoch)) {
                peer.read_at = now + REREAD;
            }
        }
        due
    }

    /// When the next chore is due.
    pub fn due(&self, own: Epoch, delay: Duration) -> Option<Moment> {
        self.dues(own, delay).map(|(at, _)| at).min()
    }

    fn dues(&self, own: Epoch, delay: Duration) -> impl Iterator<Item = (Moment, Chore)> {
        let others = self.known.iter().filter(move |(epoch, _)| **epoch != own);
        let foreign = others.clone().filter(|(_, peer)| peer.record.is_none());
        let reads = foreign.map(|(epoch, peer)| (*epoch, peer.read_at, Chore::Read(*epoch)));
        let silent = others.map(|(epoch, peer)| {
            let chore = Chore::End(*epoch, peer.sequence);
            (*epoch, peer.since + peer.lease(), chore)
        });
        let absent = self.absent.iter();
        let absent = absent.map(|(epoch, since)| (*epoch, *since, Chore::Blank(*epoch)));
        silent
            .chain(absent)
            .chain(reads)
            .map(move |(epoch, at, chore)| {
                let again = self.again.get(&epoch).copied().unwrap_or_default();
                ((at + delay).max(again), chore)
            })
    }
}

/// Whether two records tell the same of maps, and of what plans ask for but loads.
fn says_same(a: &MemberRecord, b: &MemberRecord) -> bool {
    let (one, two) = (&a.profile, &b.profile);
    (a.follows, a.leaves, a.waits, a.aside) == (b.follows, b.leaves, b.waits, b.aside)
        && (&a.excepts, &a.unable) == (&b.excepts, &b.unable)
        && (one.cordoned, one.max_units) == (two.cordoned, two.max_units)
        && (&one.zone, &one.labels, &one.version) == (&two.zone, &two.labels, &two.version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_are_rarer_the_more_members_there_are() {
        let pace = |members: u8| {
            let mut peers = Peers::default();
            for it in 0..members {
                let epoch = Epoch::new([it; 16]);
                peers.show(Moment::default(), epoch, 1, Value::Foreign);
            }
            peers.pace(Duration::from_secs(1), Duration::from_secs(15))
        };
        let seconds = [1, 50, 100, 120, 255].map(|it| pace(it).as_secs());
        assert_eq!(seconds, [1, 1, 4, 5, 5]);
    }

    #[test]
    fn a_value_under_a_key_that_was_empty_is_watched_anew() {
        let at = |secs| Moment::from_nanos(1) + Duration::from_secs(secs);
        let (epoch, own) = (Epoch::new([1; 16]), Epoch::new([2; 16]));
        let mut peers = Peers::default();
        peers.show(at(0), epoch, 7, Value::Foreign);
        peers.miss(at(50), epoch);
        peers.show(at(50), epoch, 7, Value::Foreign);
        let mut ends = |now| {
            let mut chores = peers.chores(now, own, Duration::ZERO).into_iter();
            chores.any(|it| it == Chore::End(epoch, 7))
        };
        assert!(!ends(at(109)) && ends(at(110)));
    }
}
