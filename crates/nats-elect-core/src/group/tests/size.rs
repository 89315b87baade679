//! A member of a large group. `cargo test --release -p nats-elect-core --lib group::tests::size -- --nocapture`
//! shows how long its steps take.

use std::time::Duration;

use super::super::*;
use super::world::*;
use crate::moment::Moment;

const UNITS: u32 = 10_000;
const MEMBERS: u8 = 10;

struct Fed {
    group: Group,
    now: Moment,
    last: u64,
}

impl Fed {
    fn step(&mut self, input: GroupInput) -> Vec<GroupEffect> {
        self.now = self.now + Duration::from_micros(10);
        self.group.step(self.now, input)
    }

    fn show(&mut self, over: Option<u64>, content: GroupContent) -> Vec<GroupEffect> {
        self.last += 1;
        let sequence = self.last;
        let shown = Message {
            sequence,
            over,
            content,
        };
        self.step(GroupInput::Shown(shown))
    }

    fn beat(&mut self, number: u8) -> Vec<GroupEffect> {
        self.show(None, heartbeat(number, false))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "it is shown, and decides nothing"
)]
fn timed<T>(what: &str, inputs: Vec<T>, mut step: impl FnMut(T)) -> Duration {
    let mut took = Vec::new();
    for input in inputs {
        let began = std::time::Instant::now();
        step(input);
        took.push(began.elapsed());
    }
    took.sort_unstable();
    let (median, most) = (took[took.len() / 2], took[took.len() - 1]);
    println!("{what:50} median {median:9.1?}, at most {most:9.1?}");
    median
}

fn owned(number: u32, by: Option<u8>) -> GroupContent {
    GroupContent::Unit {
        key: unit(number),
        record: Some(by.map_or(UnitRecord::Nobody, |by| UnitRecord::Owned(epoch(by)))),
        signed: None,
    }
}

fn group_record(making: bool) -> GroupContent {
    let record = GroupRecord {
        kind: GroupKind::Sharded {
            shards: UNITS,
            before: 0,
        },
        generation: 1,
        making,
    };
    GroupContent::Group(group(), Some(record))
}

/// The planner of these members, in a group whose units have just been created. Also what it did when
/// the group was made.
fn made(members: u8) -> (Fed, Vec<GroupEffect>) {
    let planner = policy::first(&group(), "", (1..=members).map(epoch));
    let own = (1..=members)
        .find(|it| Some(epoch(*it)) == planner)
        .unwrap();
    let now = Moment::from_nanos(0) + Duration::from_secs(1000);
    let settings = GroupSettings {
        ttl: TTL,
        heartbeat: HEARTBEAT,
        stop_budget: STOP,
        groups: [(group(), Units::Shards(UNITS))].into(),
        placements: [].into(),
    };
    let mut fed = Fed {
        group: Group::new(settings, now),
        now,
        last: 0,
    };
    fed.step(GroupInput::WatchBegan);
    fed.step(GroupInput::CaughtUp {
        last: 0,
        members: Some(Vec::new()),
    });
    for number in 1..=members {
        if number == own {
            let granted = GroupInput::Granted {
                epoch: epoch(own),
                sequence: fed.last + 1,
                until: now + TTL,
            };
            fed.step(granted);
        }
        fed.beat(number);
    }
    assert_eq!(fed.group.own_epoch(), planner);
    fed.show(Some(0), group_record(true));
    let began = fed.last;
    for number in 0..UNITS {
        fed.show(Some(0), owned(number, None));
    }
    let effects = fed.show(Some(began), group_record(false));
    assert_eq!(fed.group.planner_of(&group()), planner);
    (fed, effects)
}

/// The planner of a group whose units are all owned, and nothing is to be moved.
fn large() -> Fed {
    let (mut fed, _) = made(MEMBERS);
    let first = fed.last - u64::from(UNITS);
    for number in 0..UNITS {
        let by = 1 + u8::try_from(number % u32::from(MEMBERS)).unwrap();
        let over = first + u64::from(number);
        fed.show(Some(over), owned(number, Some(by)));
    }
    fed.now = fed.now + 3 * HEARTBEAT;
    for number in 1..=MEMBERS {
        fed.beat(number);
    }
    let plan = fed.group.plan_of(&group()).unwrap();
    assert_eq!((plan.moves.len(), plan.unplaced.len()), (0, 0));
    fed
}

#[test]
fn a_step_of_a_large_group_does_not_depend_on_the_number_of_its_units() {
    let mut fed = large();
    let beats = vec![heartbeat(1, false); 1000];
    let beat = timed(
        "10,000 units, 10 members: a heartbeat is shown",
        beats,
        |it| {
            fed.show(None, it);
        },
    );
    let units = (0..1000).map(|number| {
        let stands = fed.group.view.unit(&unit(number)).unwrap().sequence;
        (stands, owned(number, Some(1)))
    });
    let units = units.collect();
    let moved = timed("a unit is shown", units, |(over, it)| {
        fed.show(Some(over), it);
    });
    let group = group();
    let plan = timed("a plan", vec![(); 10], |()| {
        fed.group.plan_of(&group).unwrap();
    });
    let mut leaving = large();
    leaving.show(None, heartbeat(2, true));
    timed("a plan that empties a member", vec![(); 10], |()| {
        leaving.group.plan_of(&group).unwrap();
    });
    timed("an explanation", vec![(); 10], |()| {
        fed.group.explain(&unit(17)).unwrap();
    });
    // A plan looks at all units. No step does so, but for one in a quarter of a heartbeat.
    assert!(beat < plan / 100, "{beat:?}, {plan:?}");
    assert!(moved < plan / 100, "{moved:?}, {plan:?}");
}

#[test]
fn no_message_has_more_than_a_thousand_hints() {
    let (_, effects) = made(2);
    let hints = effects.iter().filter_map(|it| match it {
        GroupEffect::Hint { hints, .. } => Some(hints.len()),
        _ => None,
    });
    assert_eq!(hints.collect::<Vec<_>>(), [1000; 5]);
}
