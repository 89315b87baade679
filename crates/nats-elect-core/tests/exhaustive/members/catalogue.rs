//! The configurations, by name.

use super::configuration::Configuration;
use super::fault::Fault::{
    self, Behind, Crash, Deaf, Lag, Late, Leave, Move, Pause, PurgeMap, PurgeMember, PutBack,
    Resize, Returned, Rewatch, SpoilMap, SpoilMember, Start, Unanswered,
};
use super::properties::Witness::{
    self, Begun, Collected, Ended, GhostLanded, Grown, LeaseLost, Left, Moved, Overrun, Refused,
};

/// Its name, its faults, and what must be found possible.
type Line = (&'static str, &'static [(Fault, u8)], &'static [Witness]);

/// Two members and one unit. A debug build exhausts each within seconds.
const SMALL: &[Line] = &[
    ("members-rest", &[], &[]),
    // Act and acknowledge.
    ("members-move", &[(Move, 1)], &[Moved]),
    (
        "members-move-deaf",
        &[(Move, 1), (Deaf, 1)],
        &[Moved, Overrun],
    ),
    ("members-returned", &[(Returned, 1)], &[Begun]),
    // Over.
    ("members-pause", &[(Pause, 1)], &[LeaseLost, Ended, Begun]),
    ("members-crash", &[(Crash, 1), (Start, 1)], &[Begun]),
    ("members-spoil-member", &[(SpoilMember, 1)], &[LeaseLost]),
    ("members-purge-member", &[(PurgeMember, 1)], &[LeaseLost]),
    ("members-put-back", &[(PutBack, 1)], &[LeaseLost]),
    // Collect.
    ("members-spoil-map", &[(SpoilMap, 1)], &[Collected]),
    ("members-purge-map", &[(PurgeMap, 1)], &[]),
    // Leave.
    ("members-leave", &[(Leave, 2)], &[Left]),
    // Generations.
    ("members-resize", &[(Resize, 1)], &[Grown]),
    // Messages.
    ("members-late", &[(Late, 1)], &[]),
    ("members-unanswered", &[(Unanswered, 1)], &[]),
    ("members-lag", &[(Lag, 1)], &[]),
    ("members-rewatch", &[(Rewatch, 1)], &[]),
    ("members-behind", &[(Behind, 1)], &[]),
];

/// Two faults, or one of them more than once. They want a release build.
const PAIRS: &[Line] = &[
    ("members-move-twice", &[(Move, 2)], &[Moved]),
    ("members-move-lag", &[(Move, 1), (Lag, 1)], &[Moved]),
    (
        "members-move-late",
        &[(Move, 1), (Late, 1)],
        &[Moved, GhostLanded],
    ),
    (
        "members-move-unanswered",
        &[(Move, 1), (Unanswered, 1)],
        &[Moved],
    ),
    (
        "members-move-pause",
        &[(Move, 1), (Pause, 1)],
        &[Moved, Ended],
    ),
    (
        "members-move-crash",
        &[(Move, 1), (Crash, 1), (Start, 1)],
        &[Moved],
    ),
    (
        "members-move-spoil",
        &[(Move, 1), (SpoilMap, 1)],
        &[Moved, Collected],
    ),
    ("members-move-purge", &[(Move, 1), (PurgeMap, 1)], &[Moved]),
    (
        "members-move-spoil-member",
        &[(Move, 1), (SpoilMember, 1)],
        &[Moved, LeaseLost],
    ),
    (
        "members-move-put-back",
        &[(Move, 1), (PutBack, 1)],
        &[Moved, LeaseLost],
    ),
    (
        "members-move-resize",
        &[(Move, 1), (Resize, 1)],
        &[Moved, Grown],
    ),
    (
        "members-pause-late",
        &[(Pause, 1), (Late, 1)],
        &[LeaseLost, GhostLanded],
    ),
    (
        "members-pause-spoil",
        &[(Pause, 1), (SpoilMap, 1)],
        &[LeaseLost, Collected],
    ),
    (
        "members-pause-spoil-member",
        &[(Pause, 1), (SpoilMember, 1)],
        &[LeaseLost],
    ),
    (
        "members-spoil-crash",
        &[(SpoilMap, 1), (Crash, 1), (Start, 1)],
        &[Collected],
    ),
    (
        "members-spoil-late",
        &[(SpoilMap, 1), (Late, 1)],
        &[Collected],
    ),
    (
        "members-spoil-lag",
        &[(SpoilMap, 1), (Lag, 1)],
        &[Collected],
    ),
    (
        "members-spoil-twice",
        &[(SpoilMap, 2)],
        &[Collected, Refused],
    ),
    (
        "members-purge-spoil",
        &[(PurgeMap, 1), (SpoilMap, 1)],
        &[Collected],
    ),
    (
        "members-spoil-both",
        &[(SpoilMap, 1), (SpoilMember, 1)],
        &[Collected],
    ),
    (
        "members-spoil-deaf",
        &[(SpoilMember, 1), (Deaf, 1)],
        &[Overrun],
    ),
    ("members-leave-crash", &[(Leave, 1), (Crash, 1)], &[Left]),
    ("members-leave-late", &[(Leave, 1), (Late, 1)], &[Left]),
    (
        "members-leave-spoil",
        &[(Leave, 1), (SpoilMap, 1)],
        &[Left, Collected],
    ),
    (
        "members-resize-deaf",
        &[(Resize, 1), (Deaf, 1)],
        &[Grown, Overrun],
    ),
    (
        "members-resize-crash",
        &[(Resize, 1), (Crash, 1), (Start, 1)],
        &[Grown],
    ),
    (
        "members-resize-spoil",
        &[(Resize, 1), (SpoilMap, 1)],
        &[Grown, Collected],
    ),
    ("members-resize-lag", &[(Resize, 1), (Lag, 1)], &[Grown]),
    (
        "members-behind-crash",
        &[(Behind, 1), (Crash, 1), (Start, 1)],
        &[],
    ),
];

/// Three members and one unit.
const THREE: &[Line] = &[
    ("three-members-move", &[(Move, 1)], &[Moved]),
    ("three-members-crash", &[(Crash, 1)], &[Begun]),
    ("three-members-spoil-map", &[(SpoilMap, 1)], &[Collected]),
    ("three-members-leave", &[(Leave, 1)], &[Left]),
    ("three-members-resize", &[(Resize, 1)], &[Grown]),
];

const fn settled(line: &Line, members: usize) -> Configuration {
    let (name, faults, witnesses) = *line;
    Configuration::new(name, members, 1)
        .faults(faults)
        .witnesses(witnesses)
}

/// Those that a debug build exhausts within seconds.
pub fn small() -> Vec<Configuration> {
    let start = Configuration::new("members-start", 2, 1).fresh();
    let start = start.witnesses(&[Begun, Collected]);
    let lines = SMALL.iter().map(|line| settled(line, 2));
    lines.chain([start]).collect()
}

/// Those that want a release build, and some of them minutes.
pub fn large() -> Vec<Configuration> {
    let join = Configuration::new("members-join", 2, 2).started(1);
    let join = join.faults(&[(Start, 1)]).witnesses(&[Moved]);
    let flying = settled(&("members-move-in-flight", &[(Move, 1)], &[Moved]), 2).in_flight();
    let crash = settled(
        &("members-crash-in-flight", &[(Crash, 1), (Start, 1)], &[]),
        2,
    )
    .in_flight();
    let pairs = PAIRS.iter().map(|line| settled(line, 2));
    let three = THREE.iter().map(|line| settled(line, 3));
    pairs.chain(three).chain([join, flying, crash]).collect()
}

/// The configuration of this name.
pub fn find(name: &str) -> Option<Configuration> {
    let mut all = small().into_iter().chain(large());
    all.find(|configuration| configuration.name == name)
}
