//! The explorations, and which broken rule is noticed in which.

use crate::rules::{Bounds, Broken};
use crate::step::{Action, Fate};

/// A stranger named member 1 the owner. Both members know.
const FORGED: &[Action] = &[
    Action::Forge(0, Some(1)),
    Action::Show(1),
    Action::Tick,
    Action::Beat(0, Fate::Answered),
    Action::Beat(1, Fate::Answered),
    Action::Show(1),
    Action::Show(1),
    Action::Show(0),
];

/// Unit 0 went from member 0 to 1 and on to 2, and member 0 does not know that. Then a stranger
/// wrote again what member 0 had written.
const PASSED_ON: &[Action] = &[
    Action::End(0, 0),
    Action::Give(0, 0, Some(1), Fate::Unanswered),
    Action::Show(1),
    Action::Begin(1, 0),
    Action::End(1, 0),
    Action::Give(1, 0, Some(2), Fate::Answered),
    Action::Show(2),
    Action::Show(2),
    Action::Begin(2, 0),
    Action::Replay(0, 0),
    Action::Show(1),
    Action::Show(1),
];

/// Member 0's record was purged, an earlier claim of its epoch is on its way, and member 1 knows
/// that the record is missing.
const CLAIMED_TWICE: &[Action] = &[
    Action::OldClaim(0),
    Action::Purge(0),
    Action::Look(1),
    Action::Tick,
    Action::Beat(1, Fate::Answered),
    Action::Show(1),
    Action::Show(0),
];

/// The unit's key was purged and created again. Member 0 does not know that, and both members'
/// last heartbeats are on their way to the watches.
const PURGED: &[Action] = &[
    Action::Purge(crate::state::unit_key(0)),
    Action::Look(1),
    Action::Create(1, 0, Fate::Answered),
    Action::Tick,
    Action::Tick,
    Action::Beat(1, Fate::Answered),
    Action::Beat(0, Fate::Answered),
    Action::Show(1),
    Action::Show(1),
];

/// Member 1 was shown a heartbeat of member 0 that member 0 itself was not shown yet.
const SHOWN_LATE: &[Action] = &[
    Action::Tick,
    Action::Beat(0, Fate::Answered),
    Action::Beat(1, Fate::Answered),
    Action::Show(1),
    Action::Show(1),
    Action::Tick,
    Action::Beat(1, Fate::Answered),
    Action::Show(1),
];

/// Member 0 was shown its heartbeat, and member 1 was not.
const UNSEEN: &[Action] = &[
    Action::Tick,
    Action::Beat(1, Fate::Answered),
    Action::Show(1),
    Action::Beat(0, Fate::Answered),
    Action::Show(0),
    Action::Show(0),
];

/// A new group was made, and member 0 owns its unit. Member 1 knows only that it was new.
const MADE: &[Action] = &[
    Action::Create(0, 0, Fate::Answered),
    Action::Make(0, Fate::Answered),
    Action::Show(0),
    Action::Show(0),
    Action::Take(0, 0, Fate::Answered),
    Action::Begin(0, 0),
];

/// A stranger named member 1 the owner. Members 1 and 2 know, and member 0's last heartbeat is on
/// its way to its watch.
const FORGED_AMONG_THREE: &[Action] = &[
    Action::Forge(0, Some(1)),
    Action::Show(1),
    Action::Show(2),
    Action::Tick,
    Action::Beat(0, Fate::Answered),
    Action::Beat(2, Fate::Answered),
    Action::Show(2),
    Action::Show(2),
    Action::Tick,
];

#[allow(clippy::too_many_lines, reason = "one entry for each exploration")]
pub fn all() -> Vec<Bounds> {
    let two = |name| Bounds::calm(name, 2);
    let three = |name| Bounds::calm(name, 3);
    vec![
        two("two"),
        Bounds {
            after: SHOWN_LATE,
            ..two("shown-late")
        },
        Bounds {
            after: UNSEEN,
            ..two("unseen")
        },
        Bounds {
            gives: 2,
            unanswered: 1,
            ghosts: 1,
            ..two("giving")
        },
        Bounds {
            gives: 1,
            claims: 1,
            ghosts: 1,
            ..two("retiring")
        },
        Bounds {
            deaths: 1,
            claims: 1,
            ghosts: 1,
            ..two("dying")
        },
        Bounds {
            gives: 1,
            purges: 1,
            ..two("purging")
        },
        Bounds {
            ghosts: 1,
            purges: 1,
            ..two("purging-ghost")
        },
        Bounds {
            purges: 1,
            after: PURGED,
            ..two("purged")
        },
        Bounds {
            purges: 1,
            after: CLAIMED_TWICE,
            ..two("claimed-twice")
        },
        Bounds {
            forgeries: 1,
            ..two("forging")
        },
        Bounds {
            forgeries: 1,
            after: FORGED,
            ..two("forged")
        },
        Bounds {
            forgeries: 2,
            ..two("forging-twice")
        },
        Bounds {
            gives: 1,
            forgeries: 1,
            ..two("forging-giving")
        },
        Bounds {
            gives: 1,
            growing: true,
            ..two("growing")
        },
        Bounds {
            forgeries: 1,
            growing: true,
            ..two("growing-forging")
        },
        Bounds {
            making: true,
            ..two("making")
        },
        Bounds {
            making: true,
            purges: 1,
            ..two("making-purging")
        },
        Bounds {
            making: true,
            purges: 1,
            unanswered: 1,
            ghosts: 1,
            ..two("making-purging-ghost")
        },
        Bounds {
            making: true,
            deaths: 1,
            claims: 1,
            purges: 1,
            ..two("making-dying")
        },
        Bounds {
            making: true,
            purges: 2,
            after: MADE,
            ..two("made-purging")
        },
        Bounds {
            making: true,
            purges: 1,
            forgeries: 1,
            ..two("making-forging")
        },
        three("three"),
        Bounds {
            gives: 2,
            ..three("three-giving")
        },
        Bounds {
            forgeries: 1,
            ..three("three-forging")
        },
        Bounds {
            gives: 1,
            forgeries: 1,
            ..three("three-forging-giving")
        },
        Bounds {
            gives: 1,
            forgeries: 1,
            after: FORGED_AMONG_THREE,
            ..three("forged-among-three")
        },
        Bounds {
            gives: 3,
            unanswered: 1,
            forgeries: 1,
            after: PASSED_ON,
            ..three("passed-on")
        },
    ]
}

/// The exploration in which a broken rule is noticed soonest.
pub const fn noticed_in(broken: Broken) -> &'static str {
    match broken {
        Broken::StartAgain
        | Broken::TakeFromTheLiving
        | Broken::GiveBeforeEnd
        | Broken::BeginWithoutWrite
        | Broken::DeposeNamesake => "giving",
        Broken::BlindTake => "retiring",
        Broken::NameInstances => "dying",
        Broken::TakeBeforeMade => "making-purging",
        Broken::TrustEveryCreation => "made-purging",
        Broken::TakeWithoutTombstone => "unseen",
        Broken::CountFromReceipt => "shown-late",
        Broken::MissingUnitIsFree | Broken::MissingMemberIsDead => "purging",
        Broken::MissingMemberNeedsNoTombstone => "claimed-twice",
        Broken::ReviveLease | Broken::TakeUnquiet => "purged",
        Broken::ExtendUnseen | Broken::BelieveUnsigned | Broken::TombstoneFrees => "forging",
        Broken::StartNewGenerationEarly => "growing",
        Broken::IgnoreForeignRecord => "forged",
        Broken::GiveUnquiet => "forged-among-three",
        Broken::BelieveOver => "passed-on",
    }
}
