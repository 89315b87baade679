//! What is known of the age of units' records.

use super::*;
use nats_elect_core::group::{MemberContent, Message};

const MINUTE: Option<Duration> = Some(LONGEST_LEASE);

fn epoch(letter: char) -> Epoch {
    let text = format!("{}A", letter.to_string().repeat(21));
    Epoch::parse(&text).expect("an epoch")
}

fn shown(sequence: u64, over: Option<u64>, content: GroupContent) -> Vec<GroupDelivery> {
    let message = Message {
        sequence,
        over,
        content,
    };
    vec![GroupDelivery::Shown(Shown {
        message,
        signed: None,
    })]
}

/// The unit 0 of a group with one shard, as it is watched.
struct Watched(TrackedGroups, Moment);

impl Watched {
    fn new() -> Self {
        let group = GroupRecord {
            kind: GroupKind::Sharded {
                shards: 1,
                before: 0,
            },
            generation: 1,
            making: false,
        };
        let mut groups = TrackedGroups::new(1);
        let name = GroupName::new("g").expect("a name");
        let told = shown(1, Some(0), GroupContent::Group(name, Some(group)));
        groups.take_all(told, Moment::default());
        let tombstone = MemberContent::Tombstone {
            secret: None,
            identity: None,
        };
        let told = shown(2, None, GroupContent::Member(epoch('E'), tombstone));
        groups.take_all(told, Moment::default());
        Self(groups, Moment::default())
    }

    fn catches_up(mut self) -> Self {
        let told = vec![GroupDelivery::CaughtUp(2)];
        self.0.take_all(told, self.1);
        self
    }

    /// How long the record of the unit ages for, right after it was shown.
    fn shows(
        &mut self,
        sequence: u64,
        over: Option<u64>,
        record: Option<UnitRecord>,
        is_signed: bool,
    ) -> Option<Duration> {
        let key = UnitKey {
            group: GroupName::new("g").expect("a name"),
            generation: 1,
            unit: UnitName::shard(0),
        };
        let now = self.1;
        self.0
            .take_unit(key, sequence, over, record, is_signed, now);
        self.ages_for()
    }

    fn ages_for(&self) -> Option<Duration> {
        self.0.observed(self.1).groups["g"].units[0].ages_for
    }
}

#[test]
fn what_no_member_writes_ages_for_a_minute_and_what_a_member_gave_away_does_not() {
    let (a, ended) = (UnitRecord::Owned(epoch('B')), UnitRecord::Owned(epoch('E')));
    // Found: what stood there before is not known.
    for (over, record, is_signed, ages_for) in [
        (Some(5), Some(a), false, None),
        (Some(5), Some(UnitRecord::Nobody), true, None),
        (Some(5), Some(UnitRecord::Nobody), false, MINUTE),
        (Some(0), Some(UnitRecord::Nobody), false, MINUTE),
        (None, Some(ended), false, MINUTE),
        (None, Some(a), true, MINUTE),
        (Some(5), None, false, MINUTE),
        (Some(5), Some(UnitRecord::Closed), false, MINUTE),
    ] {
        let told = Watched::new().shows(9, over, record, is_signed);
        assert_eq!(told, ages_for, "{record:?} over {over:?}, {is_signed}");
    }
    // Watched.
    for (before, record, is_signed, ages_for) in [
        (a, a, true, None),
        (a, UnitRecord::Nobody, true, None),
        (a, ended, false, MINUTE),
        (ended, a, false, None),
        (UnitRecord::Closed, a, false, MINUTE),
    ] {
        let mut watched = Watched::new();
        watched.shows(9, Some(5), Some(before), true);
        let mut watched = watched.catches_up();
        let told = watched.shows(10, Some(9), Some(record), is_signed);
        assert_eq!(told, ages_for, "{record:?} over {before:?}, {is_signed}");
        let told = watched.shows(11, Some(9), Some(record), is_signed);
        assert_eq!(told, MINUTE, "it is over another one");
    }
}

#[test]
fn a_record_that_follows_one_that_ages_is_of_age_with_it_and_another_watch_forgets_nothing() {
    let mut watched = Watched::new().catches_up();
    let created = watched.shows(9, Some(0), Some(UnitRecord::Nobody), false);
    assert_eq!(created, MINUTE);
    watched.1 = watched.1 + Duration::from_secs(20);
    let owner = Some(UnitRecord::Owned(epoch('B')));
    let left = Some(Duration::from_secs(40));
    assert_eq!(watched.shows(10, Some(9), owner, false), left);
    let mut next = Watched::new();
    next.1 = watched.1;
    assert_eq!(next.shows(10, Some(9), owner, false), None);
    next.0.follows(&watched.0);
    assert_eq!(next.ages_for(), left);
    next.1 = next.1 + LONGEST_LEASE;
    assert_eq!(next.ages_for(), None);
}
