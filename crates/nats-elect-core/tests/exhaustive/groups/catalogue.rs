//! The configurations, by name.

use super::configuration::Configuration;
use super::fault::Fault::{
    self, Blocked, Break, Bury, Crash, Deaf, Drain, Failed, Forge, Grow, Hint, Lag, Late, Pause,
    Prepare, Purge, PurgeGroup, PurgeMember, Returned, Spoil, Unanswered, Unhealthy,
};
use super::properties::Witness::{
    self, Closed, Created, Deposed, GhostLanded, Given, Grown, LeaseLost, Left, Owned, OwnedAgain,
    Refused, Revoked,
};

/// Its name, its faults, and what must be found possible.
type Line = (&'static str, &'static [(Fault, u8)], &'static [Witness]);

/// Two members, two units, and one fault. A debug build exhausts each within seconds.
const SINGLE: &[Line] = &[
    ("members-rest", &[], &[]),
    ("members-crash", &[(Crash, 1)], &[OwnedAgain, Deposed]),
    (
        "members-pause",
        &[(Pause, 1)],
        &[OwnedAgain, LeaseLost, Deposed],
    ),
    ("members-drain", &[(Drain, 1)], &[Given, Left]),
    ("members-hint", &[(Hint, 1)], &[Given]),
    ("members-late", &[(Late, 1)], &[]),
    ("members-unanswered", &[(Unanswered, 1)], &[]),
    ("members-lag", &[(Lag, 1)], &[]),
    ("members-break", &[(Break, 1)], &[]),
    ("members-returned", &[(Returned, 1)], &[OwnedAgain]),
    ("members-unhealthy", &[(Unhealthy, 1)], &[Given]),
    ("members-purge", &[(Purge, 1)], &[]),
    (
        "members-purge-member",
        &[(PurgeMember, 1)],
        &[OwnedAgain, LeaseLost],
    ),
    ("members-purge-group", &[(PurgeGroup, 1)], &[]),
    ("members-forge", &[(Forge, 1)], &[OwnedAgain]),
    ("members-spoil", &[(Spoil, 1)], &[OwnedAgain]),
    ("members-bury", &[(Bury, 1)], &[OwnedAgain, LeaseLost]),
    ("members-grow", &[(Grow, 1)], &[Closed, Created, Grown]),
];

/// Two faults, or one of them more than once. They want a release build.
const PAIRS: &[Line] = &[
    ("members-failed-thrice", &[(Failed, 3)], &[OwnedAgain]),
    ("members-crash-twice", &[(Crash, 2)], &[OwnedAgain, Deposed]),
    ("members-pause-twice", &[(Pause, 2)], &[OwnedAgain, Deposed]),
    ("members-late-twice", &[(Late, 2)], &[OwnedAgain]),
    ("members-forge-twice", &[(Forge, 2)], &[OwnedAgain, Refused]),
    ("members-purge-twice", &[(Purge, 2)], &[]),
    ("members-hint-twice", &[(Hint, 2)], &[Given]),
    ("members-pause-crash", &[(Pause, 1), (Crash, 1)], &[Deposed]),
    (
        "members-late-crash",
        &[(Late, 1), (Crash, 1)],
        &[Deposed, GhostLanded],
    ),
    ("members-late-pause", &[(Late, 1), (Pause, 1)], &[Deposed]),
    ("members-lag-crash", &[(Lag, 1), (Crash, 1)], &[Deposed]),
    ("members-lag-break", &[(Lag, 1), (Break, 1)], &[OwnedAgain]),
    (
        "members-hint-crash",
        &[(Hint, 1), (Crash, 1)],
        &[Given, Deposed],
    ),
    ("members-hint-late", &[(Hint, 1), (Late, 1)], &[Given]),
    ("members-hint-pause", &[(Hint, 1), (Pause, 1)], &[Given]),
    ("members-hint-break", &[(Hint, 1), (Break, 1)], &[Given]),
    (
        "members-hint-deaf",
        &[(Hint, 1), (Deaf, 1)],
        &[Given, Revoked],
    ),
    (
        "members-hint-blocked",
        &[(Hint, 1), (Deaf, 1), (Blocked, 1)],
        &[Given, Revoked],
    ),
    ("members-drain-crash", &[(Drain, 1), (Crash, 1)], &[Given]),
    (
        "members-drain-late",
        &[(Drain, 1), (Late, 1)],
        &[Given, Left],
    ),
    (
        "members-drain-break",
        &[(Drain, 1), (Break, 1)],
        &[Given, Left],
    ),
    (
        "members-purge-crash",
        &[(Purge, 1), (Crash, 1)],
        &[Created, Deposed],
    ),
    ("members-purge-pause", &[(Purge, 1), (Pause, 1)], &[Created]),
    ("members-purge-late", &[(Purge, 1), (Late, 1)], &[]),
    ("members-purge-break", &[(Purge, 1), (Break, 1)], &[Created]),
    ("members-purge-hint", &[(Purge, 1), (Hint, 1)], &[Given]),
    ("members-purge-drain", &[(Purge, 1), (Drain, 1)], &[Created]),
    (
        "members-purge-forge",
        &[(Purge, 1), (Forge, 1)],
        &[Created, Refused],
    ),
    ("members-purge-spoil", &[(Purge, 1), (Spoil, 1)], &[Created]),
    (
        "members-purge-member-crash",
        &[(PurgeMember, 1), (Crash, 1)],
        &[Deposed],
    ),
    (
        "members-purge-member-break",
        &[(PurgeMember, 1), (Break, 1)],
        &[OwnedAgain],
    ),
    (
        "members-purge-group-break",
        &[(PurgeGroup, 1), (Break, 1)],
        &[],
    ),
    ("members-forge-crash", &[(Forge, 1), (Crash, 1)], &[Deposed]),
    (
        "members-forge-pause",
        &[(Forge, 1), (Pause, 1)],
        &[OwnedAgain],
    ),
    (
        "members-forge-late",
        &[(Forge, 1), (Late, 1)],
        &[OwnedAgain],
    ),
    ("members-forge-lag", &[(Forge, 1), (Lag, 1)], &[OwnedAgain]),
    ("members-forge-hint", &[(Forge, 1), (Hint, 1)], &[Given]),
    (
        "members-forge-break",
        &[(Forge, 1), (Break, 1)],
        &[OwnedAgain],
    ),
    (
        "members-spoil-break",
        &[(Spoil, 1), (Break, 1)],
        &[OwnedAgain],
    ),
    (
        "members-bury-crash",
        &[(Bury, 1), (Crash, 1)],
        &[OwnedAgain],
    ),
    (
        "members-bury-break",
        &[(Bury, 1), (Break, 1)],
        &[OwnedAgain],
    ),
    (
        "members-grow-crash",
        &[(Grow, 1), (Crash, 1)],
        &[Closed, Grown],
    ),
    (
        "members-grow-late",
        &[(Grow, 1), (Late, 1)],
        &[Closed, Grown],
    ),
    (
        "members-grow-break",
        &[(Grow, 1), (Break, 1)],
        &[Closed, Grown],
    ),
    (
        "members-grow-prepared",
        &[(Prepare, 1), (Grow, 1)],
        &[Closed, Grown],
    ),
    (
        "members-unhealthy-crash",
        &[(Unhealthy, 1), (Crash, 1)],
        &[Given],
    ),
];

/// Three members, two units.
const THREE: &[Line] = &[
    ("three-members-crash", &[(Crash, 1)], &[OwnedAgain, Deposed]),
    ("three-members-pause", &[(Pause, 1)], &[OwnedAgain, Deposed]),
    ("three-members-drain", &[(Drain, 1)], &[Given, Left]),
    ("three-members-hint", &[(Hint, 1)], &[Given]),
    ("three-members-purge", &[(Purge, 1)], &[]),
    ("three-members-forge", &[(Forge, 1)], &[OwnedAgain]),
];

/// Two members, one unit, and more than two faults.
const ONE_UNIT: &[Line] = &[
    (
        "one-unit-purge-forge-twice",
        &[(Purge, 1), (Forge, 2)],
        &[Created, Refused],
    ),
    (
        "one-unit-grow-purge-spoil",
        &[(Grow, 1), (Purge, 1), (Spoil, 1)],
        &[Closed, Grown],
    ),
    (
        "one-unit-grow-purge-group",
        &[(Grow, 1), (PurgeGroup, 1)],
        &[Closed, Grown],
    ),
    (
        "one-unit-grow-purge-both",
        &[(Grow, 1), (Purge, 1), (PurgeGroup, 1)],
        &[Closed, Grown],
    ),
    (
        "one-unit-grow-purge-group-lag",
        &[(Grow, 1), (PurgeGroup, 1), (Lag, 1)],
        &[Closed, Grown],
    ),
    (
        "one-unit-grow-prepared-purge-group",
        &[(Prepare, 1), (Grow, 1), (PurgeGroup, 1)],
        &[Closed, Grown],
    ),
    (
        "one-unit-grow-hidden",
        &[(Grow, 1), (Spoil, 1), (Purge, 1), (PurgeGroup, 1)],
        &[Closed, Grown],
    ),
];

fn settled(line: &Line, members: usize, shards: u32) -> Configuration {
    let (name, faults, witnesses) = *line;
    let configuration = Configuration::new(name, members, shards).settled();
    configuration.faults(faults).witnesses(witnesses)
}

/// Those that a debug build exhausts within seconds.
pub fn small() -> Vec<Configuration> {
    let start = Configuration::new("members-start", 2, 1);
    let start = start.until(6).witnesses(&[Created, Owned]);
    let single = SINGLE.iter().map(|line| settled(line, 2, 2));
    let hidden: Line = (
        "one-unit-purge-forge",
        &[(Purge, 1), (Forge, 1)],
        &[Created, Refused],
    );
    single.chain([start, settled(&hidden, 2, 1)]).collect()
}

/// Those that want a release build, and some of them minutes.
pub fn large() -> Vec<Configuration> {
    let pairs = PAIRS.iter().map(|line| settled(line, 2, 2));
    let three = THREE.iter().map(|line| settled(line, 3, 2));
    let join = Configuration::new("members-join", 2, 2).started(1);
    let one = ONE_UNIT.iter().map(|line| settled(line, 2, 1));
    let unseen: Line = (
        "one-unit-forge-join",
        &[(Forge, 1), (Lag, 1)],
        &[Created, Refused],
    );
    let unseen = settled(&unseen, 2, 1).started(1);
    pairs
        .chain(three)
        .chain(one)
        .chain([join, unseen])
        .collect()
}

/// The one in which these rules, once broken, are noticed soonest: the fewer units, the sooner.
#[cfg(feature = "__mutations")]
pub fn with_one_unit(name: &'static str, faults: &'static [(Fault, u8)]) -> Configuration {
    settled(&(name, faults, &[]), 2, 1)
}

/// The configuration of this name.
pub fn find(name: &str) -> Option<Configuration> {
    let mut all = small().into_iter().chain(large());
    all.find(|configuration| configuration.name == name)
}
