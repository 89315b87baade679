//! Made-up drills of a group: what only a drill judges of it. The rest has tests in `sharded`.

use std::time::Duration;

use nats_elect::FencingToken;
use serde_json::{from_value, json};

use super::Shards;
use super::verdict::ShardsVerdict;
use crate::drill::checker::Notes;
use crate::drill::fault::{Fault, Kind, Outcome};
use ::drill::Moment;
use ::drill::Terms;
use ::drill::journal::{Event, Record, What};
use ::drill::ownership::{Finals, Ownership, shards};

const TTL: Duration = Duration::from_secs(3);
const HEALED: u64 = 100;
const END: u64 = 400;

fn at(second: u64) -> Moment {
    from_value(json!(second * 1_000_000_000)).expect("a moment")
}

/// A drill whose faults end after 100 s. Of its two shards, `b` owns 1 all the time.
struct Story {
    notes: Notes,
    ownership: Ownership,
}

impl Story {
    fn new() -> Self {
        let names = vec!["a".to_owned(), "b".to_owned()];
        let notes = Notes {
            seed: 1,
            instances: names.clone(),
            roles: Vec::new(),
            shards: Some(Shards {
                count: 2,
                ttls: vec![TTL; 2],
            }),
            role_finals: Finals::new(),
            shard_finals: Finals::new(),
            last_wills: false,
            begun: at(0),
            healed: at(HEALED),
            ended: at(END),
            faults: Vec::new(),
            outages: Vec::new(),
            bad_ends: Vec::new(),
        };
        let ownership = Ownership {
            units: shards(2),
            names,
            terms: Terms::default(),
            finals: Finals::new(),
            kills: Vec::new(),
            last_wills: false,
        };
        Self { notes, ownership }.owned(1, 1, (0, END + 1))
    }

    /// An instance owned a shard from that second to that one.
    fn owned(mut self, shard: u32, instance: usize, (from, until): (u64, u64)) -> Self {
        for (second, what) in [(from, What::Began), (until, What::Ended)] {
            let event = Event::Term {
                unit: shard,
                token: FencingToken {
                    epoch: 1,
                    sequence: from + 1,
                },
                until: Some(at(second) + TTL),
                what,
            };
            let line = Record {
                at: at(second),
                what: event,
            };
            self.ownership.terms.take(instance, 1, &line);
        }
        self
    }

    fn suffered(mut self, kind: Kind) -> Self {
        self.notes.faults.push(Fault {
            kind,
            target: "shard 0".to_owned(),
            from: at(50),
            until: at(50),
            outcome: Outcome::Done,
        });
        self
    }

    fn verdict(&self) -> ShardsVerdict {
        let shards = self.notes.shards.as_ref().expect("a group");
        ShardsVerdict::on(
            &self.notes,
            shards,
            &self.ownership,
            self.ownership.counts(),
        )
    }

    fn is_clean(&self) -> ShardsVerdict {
        let verdict = self.verdict();
        assert!(verdict.stuck.is_empty(), "{verdict:#?}");
        assert!(verdict.uneven.is_empty(), "{verdict:#?}");
        verdict
    }

    fn is_stuck(&self) {
        let verdict = self.verdict();
        assert_eq!(verdict.stuck.len(), 1, "{verdict:#?}");
    }
}

#[test]
fn a_shard_may_be_without_an_owner_as_long_as_there_are_faults() {
    let story = Story::new().owned(0, 0, (0, 10));
    let verdict = story.owned(0, 0, (HEALED, END + 1)).is_clean();
    assert_eq!(verdict.gaps, [Duration::from_secs(90)]);
    assert_eq!(verdict.recovery, Duration::ZERO);
    let part = verdict.owned_part(&Story::new().notes);
    assert!((part - (1.0 - 90.0 / 800.0)).abs() < 1e-9, "{part}");
}

#[test]
fn a_shard_that_has_no_owner_in_time_after_the_faults_is_seen() {
    let story = |second| {
        let story = Story::new().owned(0, 0, (0, 10));
        story.owned(0, 0, (second, END + 1))
    };
    // Three leases, a stop budget, twelve turns, and ten seconds for the connection.
    let allowed = Story::new().verdict().allowed;
    assert_eq!(allowed, Duration::from_millis(9_000 + 600 + 7_200 + 10_000));
    let verdict = story(HEALED + 26).is_clean();
    assert_eq!(verdict.recovery, Duration::from_secs(26));
    story(HEALED + 27).is_stuck();
}

#[test]
fn a_key_that_was_purged_or_overwritten_ages_for_two_longest_leases() {
    let story = |second| {
        let story = Story::new().owned(0, 0, (0, 10));
        story.owned(0, 0, (second, END + 1))
    };
    story(HEALED + 146).suffered(Kind::PurgeUnit).is_clean();
    story(HEALED + 147).suffered(Kind::PurgeUnit).is_stuck();
    // The key of a role is another one.
    story(HEALED + 146).suffered(Kind::PurgeKey).is_stuck();
}

#[test]
fn a_shard_without_an_owner_at_the_end_is_seen_whenever_it_lost_it() {
    let lost = |second| {
        let story = Story::new().owned(0, 0, (0, second));
        story.verdict().stuck.len()
    };
    assert_eq!([lost(10), lost(HEALED + 5), lost(END - 2)], [1, 1, 1]);
}

#[test]
fn a_shard_that_moves_for_balance_later_is_not_stuck() {
    let story = Story::new().owned(0, 1, (0, END - 51));
    story.owned(0, 0, (END - 50, END + 1)).is_clean();
    let story = Story::new().owned(0, 1, (0, END - 52));
    story.owned(0, 0, (END - 50, END + 1)).is_stuck();
}

#[test]
fn shards_that_one_instance_owns_alone_are_uneven() {
    let story = Story::new().owned(0, 1, (0, END + 1));
    assert_eq!(story.verdict().uneven, ["at the end [0, 2]"]);
}

#[test]
fn a_share_may_be_off_by_the_policys_band() {
    let shards = Shards::several(32, 5, TTL);
    assert!(shards.is_balanced(&[7, 7, 6, 6, 6]));
    assert!(!shards.is_balanced(&[8, 6, 6, 6, 6]));
    let many = Shards::several(500, 5, TTL);
    assert!(many.is_balanced(&[110, 90, 100, 100, 100]));
    assert!(!many.is_balanced(&[111, 89, 100, 100, 100]));
}
