//! The time that a role was without a sign of a leader, as this instance saw it.
//!
//! It is only for dashboards and published events, and decides nothing.

use std::time::Duration;

use uuid::Uuid;

use nats_elect_core::Moment;
use nats_elect_core::record::{Content, Entry};

/// The leader that was seen last.
#[derive(Debug, Default)]
pub(super) struct Leaderless {
    /// The bucket's creation time. Another bucket numbers its revisions anew.
    epoch: u64,
    revision: u64,
    last: Option<Sign>,
}

#[derive(Debug)]
struct Sign {
    /// The start of the leader's instance, and its name where a record of another library has no
    /// more.
    who: (Option<Uuid>, String),
    at: Moment,
    /// Whether it was seen as it came. A message that a new watch shows first, and one that was
    /// read, may be old.
    live: bool,
    /// Whether another message than a leader's was stored since. The next record then begins
    /// another term, whichever instance wrote it.
    over: bool,
}

impl Leaderless {
    pub fn bucket_is(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.revision = 0;
        }
    }

    /// Takes an entry under the role's key. Returns the time since the last sign of the term
    /// before, if the entry is the first sign of another term.
    pub fn saw(&mut self, entry: &Entry, live: bool, at: Moment) -> Option<Duration> {
        if entry.revision <= self.revision {
            return None;
        }
        self.revision = entry.revision;
        let who = match &entry.content {
            Content::Record(record) => (record.incarnation, record.id.clone()),
            Content::Opaque => (None, String::new()),
            Content::Release(_) => {
                if let Some(sign) = &mut self.last {
                    // The leader itself wrote this release.
                    sign.at = at;
                    sign.live = live;
                    sign.over = true;
                }
                return None;
            }
            Content::ForeignMarker => {
                if let Some(sign) = &mut self.last {
                    sign.over = true;
                }
                return None;
            }
        };
        let before = self.last.replace(Sign {
            who,
            at,
            live,
            over: false,
        })?;
        let same = self.last.as_ref().is_some_and(|now| now.who == before.who);
        (before.over || !same).then(|| at.since(before.at))
    }

    /// Returns when the last sign of the last leader came: its release, or its last heartbeat.
    /// Returns nothing if that is not certain. Call it when the role is claimed over the entry that
    /// was seen last.
    ///
    /// A claim of our own that was given up may have been seen, so a record of our own is no sign.
    pub fn last_sign(&self, own: Uuid) -> Option<Moment> {
        let sign = self.last.as_ref().filter(|sign| sign.live)?;
        let is_term = sign.over || sign.who.0 != Some(own);
        is_term.then_some(sign.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nats_elect_core::record::Release;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    fn entry(revision: u64, content: Content) -> Entry {
        Entry { revision, content }
    }

    fn beat(revision: u64, leader: u128) -> Entry {
        let incarnation = Uuid::from_u128(leader);
        let record = format!(r#"{{"id":"n","token":"t","incarnation":"{incarnation}","beat":1}}"#);
        entry(revision, Content::parse(record.as_bytes()))
    }

    fn release(revision: u64) -> Entry {
        entry(revision, Content::Release(Release::default()))
    }

    #[test]
    fn a_crash_costs_the_time_from_the_last_heartbeat_to_the_next_claim() {
        let mut leaderless = Leaderless::default();
        assert_eq!(
            leaderless.saw(&beat(1, 1), true, at(0)),
            None,
            "nobody led before"
        );
        assert_eq!(
            leaderless.saw(&beat(2, 1), true, at(200)),
            None,
            "a heartbeat"
        );
        let gap = leaderless.saw(&beat(3, 2), true, at(1200));
        assert_eq!(gap, Some(Duration::from_secs(1)));
    }

    #[test]
    fn any_claim_after_a_release_begins_another_term() {
        let mut leaderless = Leaderless::default();
        leaderless.saw(&beat(1, 1), true, at(0));
        leaderless.saw(&release(2), true, at(500));
        let gap = leaderless.saw(&beat(3, 1), true, at(503));
        assert_eq!(gap, Some(Duration::from_millis(3)));
    }

    #[test]
    fn a_strangers_marker_is_no_sign_of_the_leader() {
        let mut leaderless = Leaderless::default();
        leaderless.saw(&beat(1, 1), true, at(0));
        leaderless.saw(&entry(2, Content::ForeignMarker), true, at(500));
        let gap = leaderless.saw(&beat(3, 1), true, at(1500));
        assert_eq!(gap, Some(Duration::from_millis(1500)));
    }

    #[test]
    fn a_repeated_entry_is_no_sign_of_life() {
        let mut leaderless = Leaderless::default();
        leaderless.bucket_is(7);
        leaderless.saw(&beat(5, 1), true, at(0));
        leaderless.saw(&beat(5, 1), true, at(900));
        let gap = leaderless.saw(&beat(6, 2), true, at(1000));
        assert_eq!(gap, Some(Duration::from_secs(1)));
        leaderless.bucket_is(8);
        assert!(
            leaderless.saw(&beat(1, 1), true, at(1100)).is_some(),
            "a new bucket"
        );
    }

    #[test]
    fn the_last_sign_is_known_only_if_it_was_seen_as_it_came() {
        let own = Uuid::from_u128(2);
        let mut leaderless = Leaderless::default();
        assert_eq!(leaderless.last_sign(own), None, "nobody led");
        // A new watch shows a record that may be of last year.
        leaderless.saw(&beat(1, 1), false, at(0));
        assert_eq!(leaderless.last_sign(own), None);
        leaderless.saw(&beat(2, 1), true, at(200));
        assert_eq!(leaderless.last_sign(own), Some(at(200)));
        // The watch was interrupted, and shows what it missed.
        leaderless.saw(&beat(9, 1), false, at(5000));
        assert_eq!(leaderless.last_sign(own), None);
        leaderless.saw(&beat(10, 1), true, at(5200));
        leaderless.saw(&entry(11, Content::ForeignMarker), true, at(5300));
        assert_eq!(leaderless.last_sign(own), Some(at(5200)));
        leaderless.saw(&release(12), true, at(5400));
        assert_eq!(leaderless.last_sign(own), Some(at(5400)));
        leaderless.saw(&beat(13, 2), true, at(5500));
        assert_eq!(leaderless.last_sign(own), None, "our own claim");
        leaderless.saw(&release(14), false, at(5600));
        assert_eq!(leaderless.last_sign(own), None, "a release that was read");
    }
}
