//! The configurations, by name.

use crate::configuration::Configuration;
use crate::fault::Fault::{
    Blocked, Cordon, Crash, Cut, Deaf, Delete, HandOver, Late, Pause, Purge, Returned, Slip, Stale,
    StandAside, StepDown, Stop, Stranger, Unanswered, Unseen,
};
use crate::properties::Witness::{
    ClaimAdopted, ClaimRefused, FenceAdopted, GhostCommitted, GivenBack, GraceOver, HandedOver,
    Overrun, Promoted, PromotedAgain, Released, ReleasedOverMarker, RenewalAdopted, RenewalRefused,
    ValidButNotLeading, WillCarriedOut, Yielded,
};

fn two(name: &'static str) -> Configuration {
    Configuration::new(name, 2)
}

fn three(name: &'static str) -> Configuration {
    Configuration::new(name, 3)
}

/// Those that a debug build exhausts within seconds.
pub fn small() -> Vec<Configuration> {
    vec![
        two("two-start-no-watch")
            .without_watch()
            .witnesses(&[Promoted, ClaimRefused]),
        two("two-crash-no-watch-short")
            .led()
            .without_watch()
            .faults(&[(Crash, 1)])
            .until(13)
            .witnesses(&[PromotedAgain, ClaimRefused]),
        two("two-crash-companion-no-watch-short")
            .led()
            .without_watch()
            .with_companions()
            .faults(&[(Crash, 1)])
            .until(5)
            .witnesses(&[PromotedAgain, WillCarriedOut]),
        two("two-stop")
            .led()
            .faults(&[(Stop, 1)])
            .witnesses(&[PromotedAgain, Released]),
        two("two-purge")
            .led()
            .faults(&[(Purge, 1)])
            .witnesses(&[PromotedAgain, RenewalRefused]),
        two("two-hand-over-no-watch-short")
            .led()
            .without_watch()
            .until(6)
            .faults(&[(HandOver, 1)])
            .witnesses(&[Released]),
        two("two-ranked-no-watch-short")
            .led()
            .ranked()
            .without_watch()
            .until(7)
            .witnesses(&[Yielded]),
        two("two-cordon-aside-no-watch-short")
            .led()
            .without_watch()
            .until(5)
            .faults(&[(Cordon, 1), (StandAside, 1)])
            .witnesses(&[PromotedAgain, Released, GivenBack]),
        two("two-cut-grace-no-watch-short")
            .led()
            .with_grace()
            .without_watch()
            .faults(&[(Cut, 1)])
            .until(6)
            .witnesses(&[ValidButNotLeading, GraceOver]),
        three("three-stop-no-watch-short")
            .led()
            .without_watch()
            .until(7)
            .faults(&[(Stop, 1)])
            .witnesses(&[Released]),
    ]
}

/// Those that want a release build and minutes.
pub fn large() -> Vec<Configuration> {
    [
        two_from_the_start(),
        two_under_faults(),
        two_that_hand_over(),
        with_companions(),
        three_instances(),
    ]
    .concat()
}

fn two_from_the_start() -> Vec<Configuration> {
    vec![
        two("two-start")
            .with_echo()
            .witnesses(&[Promoted, ClaimRefused]),
        two("two-join-no-watch")
            .without_watch()
            .started(1)
            .faults(&[(Stop, 1)])
            .witnesses(&[PromotedAgain, Released, ClaimRefused]),
        two("two-start-late")
            .without_watch()
            .faults(&[(Late, 1)])
            .witnesses(&[ClaimAdopted, FenceAdopted, GhostCommitted]),
        two("two-start-unanswered")
            .without_watch()
            .faults(&[(Unanswered, 1)])
            .witnesses(&[ClaimAdopted, FenceAdopted]),
        two("two-start-purge-no-watch")
            .without_watch()
            .faults(&[(Purge, 1)])
            .witnesses(&[PromotedAgain, ClaimRefused]),
    ]
}

fn two_under_faults() -> Vec<Configuration> {
    vec![
        two("two-unseen-stop")
            .led()
            .faults(&[(Unseen, 1), (Stop, 1)])
            .witnesses(&[PromotedAgain, Released]),
        two("two-stale-crash")
            .led()
            .faults(&[(Stale, 1), (Crash, 1)])
            .live_within(STALE)
            .witnesses(&[PromotedAgain]),
        two("two-late")
            .led()
            .faults(&[(Late, 1)])
            .witnesses(&[PromotedAgain, GhostCommitted]),
        two("two-late-longer-lease")
            .led()
            .with_longer_lease()
            .faults(&[(Late, 1)])
            .witnesses(&[RenewalAdopted, GhostCommitted]),
        two("two-unanswered-longer-lease")
            .led()
            .with_longer_lease()
            .faults(&[(Unanswered, 1)])
            .witnesses(&[RenewalAdopted]),
        two("two-crash")
            .led()
            .faults(&[(Crash, 1)])
            .witnesses(&[PromotedAgain, ClaimRefused]),
        two("two-crash-twice-no-watch")
            .led()
            .without_watch()
            .with_heir_gone()
            .faults(&[(Crash, 2)])
            .witnesses(&[PromotedAgain, ClaimRefused]),
        two("two-pause-slow-clock-no-watch")
            .led()
            .without_watch()
            .faults(&[(Pause, 1), (Slip, 1)])
            .witnesses(&[PromotedAgain, Overrun, RenewalRefused]),
        two("two-pause").led().faults(&[(Pause, 1)]).witnesses(&[
            PromotedAgain,
            Overrun,
            RenewalRefused,
        ]),
        two("two-purge-pause-no-watch")
            .led()
            .without_watch()
            .faults(&[(Purge, 1), (Pause, 1)])
            .witnesses(&[PromotedAgain, RenewalRefused]),
        two("two-pause-readers-no-watch")
            .led()
            .without_watch()
            .with_readers()
            .faults(&[(Pause, 1)])
            .witnesses(&[PromotedAgain, RenewalRefused]),
        two("two-cut").led().faults(&[(Cut, 1)]).witnesses(&[
            PromotedAgain,
            ValidButNotLeading,
            GhostCommitted,
        ]),
        two("two-cut-grace")
            .led()
            .with_grace()
            .faults(&[(Cut, 1)])
            .witnesses(&[PromotedAgain, ValidButNotLeading, GraceOver]),
        two("two-delete")
            .led()
            .faults(&[(Delete, 1)])
            .witnesses(&[PromotedAgain, ReleasedOverMarker]),
        two("two-stranger")
            .led()
            .faults(&[(Stranger, 1)])
            .witnesses(&[PromotedAgain, RenewalRefused]),
        two("two-stubborn-handler")
            .led()
            .faults(&[(StepDown, 1), (Deaf, 1), (Blocked, 1)])
            .witnesses(&[PromotedAgain, Released, Overrun, ValidButNotLeading]),
        two("two-returned-late-no-watch")
            .led()
            .without_watch()
            .faults(&[(Returned, 1), (Late, 1)])
            .witnesses(&[PromotedAgain, Released, GhostCommitted]),
    ]
}

fn two_that_hand_over() -> Vec<Configuration> {
    vec![
        two("two-hand-over")
            .led()
            .faults(&[(HandOver, 1)])
            .witnesses(&[PromotedAgain, Released, HandedOver]),
        two("two-hand-over-crash")
            .led()
            .faults(&[(HandOver, 1), (Crash, 1)])
            .witnesses(&[PromotedAgain, Released, HandedOver]),
        two("two-hand-over-late-no-watch")
            .led()
            .without_watch()
            .faults(&[(HandOver, 1), (Late, 1)])
            .witnesses(&[PromotedAgain, Released, GhostCommitted]),
        two("two-aside")
            .faults(&[(StandAside, 1)])
            .witnesses(&[Promoted, GivenBack]),
        two("two-aside-crash-no-watch")
            .led()
            .without_watch()
            .with_heir_gone()
            .faults(&[(StandAside, 1), (Crash, 1)])
            .witnesses(&[PromotedAgain, ClaimRefused]),
        two("two-cordon")
            .led()
            .faults(&[(Cordon, 1)])
            .witnesses(&[PromotedAgain, Released]),
        two("two-cordon-late-no-watch")
            .led()
            .without_watch()
            .faults(&[(Cordon, 1), (Late, 1)])
            .witnesses(&[PromotedAgain, Released, GhostCommitted]),
        two("two-ranked")
            .led()
            .ranked()
            .until(24)
            .witnesses(&[Yielded, Released, PromotedAgain]),
        two("two-ranked-pause")
            .led()
            .ranked()
            .until(16)
            .faults(&[(Pause, 1)])
            .witnesses(&[Yielded, Released, PromotedAgain]),
    ]
}

fn with_companions() -> Vec<Configuration> {
    vec![
        two("two-crash-companion")
            .led()
            .with_companions()
            .faults(&[(Crash, 1)])
            .witnesses(&[PromotedAgain, WillCarriedOut]),
        two("two-crash-twice-companion-no-watch")
            .led()
            .without_watch()
            .with_heir_gone()
            .with_companions()
            .faults(&[(Crash, 2)])
            .witnesses(&[PromotedAgain, WillCarriedOut]),
        two("two-late-crash-companion-no-watch")
            .led()
            .without_watch()
            .with_companions()
            .faults(&[(Late, 1), (Crash, 1)])
            .witnesses(&[PromotedAgain, WillCarriedOut, GhostCommitted]),
        two("two-purge-crash-companion-no-watch")
            .led()
            .without_watch()
            .with_companions()
            .faults(&[(Purge, 1), (Crash, 1)])
            .witnesses(&[PromotedAgain, WillCarriedOut]),
        three("three-crash-companion-no-watch")
            .led()
            .without_watch()
            .with_companions()
            .faults(&[(Crash, 1)])
            .witnesses(&[PromotedAgain, WillCarriedOut]),
    ]
}

fn three_instances() -> Vec<Configuration> {
    vec![
        three("three-start-no-watch")
            .without_watch()
            .witnesses(&[Promoted, ClaimRefused]),
        three("three-stop-no-watch")
            .led()
            .without_watch()
            .faults(&[(Stop, 1)])
            .witnesses(&[PromotedAgain, Released]),
        three("three-late-no-watch")
            .led()
            .without_watch()
            .faults(&[(Late, 1)])
            .witnesses(&[PromotedAgain, GhostCommitted]),
        three("three-delete-no-watch")
            .led()
            .without_watch()
            .faults(&[(Delete, 1)])
            .witnesses(&[PromotedAgain, ReleasedOverMarker]),
        three("three-start").witnesses(&[Promoted, ClaimRefused]),
    ]
}

/// Faults that are beyond what is promised: what they must lead to, or the checks see nothing.
pub fn beyond() -> Configuration {
    two("a-clock-slower-than-the-margin")
        .led()
        .without_watch()
        .faults(&[(Pause, 1), (Slip, 2)])
}

/// The configuration of this name.
pub fn find(name: &str) -> Option<Configuration> {
    let mut all = small().into_iter().chain(large());
    all.find(|configuration| configuration.name == name)
}

/// A stale read may look like a loss, which is waited for as long as a record.
const STALE: u8 = 24;
