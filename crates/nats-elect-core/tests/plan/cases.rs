//! Fleets that users will have: what a plan does with each, in all its moves.

use nats_elect_core::plan::{Reason, explain, plan};

use crate::fleets::{carry_out, fleet, moves, unplaced};

/// What it shows | members | units | moves | units without a place.
const CASES: &str = "
nothing to plan |  |  |  |
no member |  | - |  | 0 nobody
three roles on three instances | 3x- | 3x- | 0>2 unowned, 1>1 unowned, 2>0 unowned |
the dead one's unit goes to one of the others | 2x- | 0 1 - | 2>1 unowned |
one that returns gets a unit back | 3x- | 0 0 1 | 0>2 balance |
the unit that moved last moves, and of these the one that moved least | 2x- | 0 0,since=2,moved=2 0,since=2,moved=1 | 2>1 balance |
a label is required | - gpu | 0,need=gpu -,need=gpu | 0>1 labels, 1>1 unowned |
a label that nobody has | eu gpu | 0,need=tpu -,need=gpu,need=eu | 0>- labels | 1 labels, 0 labels
a missing handler is a missing label | h-a - | -,need=h-a 0,need=h-b | 0>0 unowned, 1>- labels | 1 labels
no room is made by one in change | gpu,max=1 - | 0,change -,need=gpu |  | 1 full
room that is made for one that has no other | gpu,max=1 max=1 | 0 -,need=gpu | 0>1 room, 1>0 unowned |
too few places | max=1 max=2 | 5x- | 0>1 unowned, 1>0 unowned, 2>1 unowned | 3 full, 4 full
a lower cap moves what is beyond it | max=1 - | 3x0 | 0>1 full, 1>1 full |
beyond a cap stays what has no other place | gpu,max=1 max=5 | 0,need=gpu 0,need=gpu 0 | 2>1 room | 1 full
a unit of a full member that takes none | max=0 waits | - |  | 0 full
a member that takes none for now keeps its own | waits - | 3x0 - | 3>1 unowned |
all of the members wait | 2xwaits | 0 - |  | 1 waits
a member that leaves is emptied | leaves 2x- | 3x0 1 2 | 0>2 leaves, 1>1 leaves, 2>2 leaves |
a member that leaves is emptied also if it is the only one | leaves | 0 0 | 0>- leaves, 1>- leaves | 0 leaves, 1 leaves
a member that leaves gets nothing | leaves | - |  | 0 leaves
a cordoned one is emptied, and keeps what nobody else may have | cordoned,gpu - | 0,need=gpu 0 | 1>1 cordoned | 0 cordoned
a unit that keeps failing moves alone | fails=1 - - | 2x0 1 2 | 1>2 failing
a unit that fails everywhere stays | 2xfails=0 -,fails=0 | 0 1
a unit that fails on the only other one | leaves fails=0 | 0 | 0>1 leaves |
a unit in change is not moved, and counts | leaves 2x- | 0,change 1,change 2x- -,change | 2>2 unowned, 3>2 unowned
units are apart, also at the cost of balance | 2x- | 1,w=3000 0,apart=0 0,apart=0 | 1>1 apart |
units are together where it can't be helped | - | -,apart=0 -,apart=0 | 0>0 unowned, 1>0 unowned |
apart units of two sets | 3x- | 0,apart=0 0,apart=0,apart=1 1,apart=1 | 0>2 apart |
units across zones, whatever their members | zone=a 4xzone=b | 6x-,zones=0 | 0>4 unowned, 1>0 unowned, 2>3 unowned, 3>0 unowned, 4>2 unowned, 5>0 unowned |
a zone that comes back gets its part | zone=a zone=a zone=b | 0,zones=0 1,zones=0 | 0>2 zones |
zones are stronger than apart | 2xzone=a zone=b | 0,zones=0,apart=0 0,zones=0,apart=0 1 | 0>2 zones |
a preference | 2x- big | 0 0,like=big 1 | 1>2 preference |
a preference ends at the fair share | big - | 2x0,like=big 2x1,like=big |  |
a preference for a member that is full | big,max=1 - | 2x1,like=big 0 |  |
a preference yields beyond the fair share | big 3x- | 4x0,like=big | 0>3 balance, 1>2 balance, 2>1 balance |
few heavy units move before many light ones | 2x- | 4x0,w=1000 8x0,w=10 | 0>1 balance, 1>1 balance |
a heavy unit is alone | 2x- | -,w=3000 3x- | 0>1 unowned, 1>0 unowned, 2>0 unowned, 3>0 unowned |
a weight that is too heavy to move | 2x- | 0,w=5000 0,w=1 1 | 1>1 balance
weights may be anything | 2x- | 0,w=0 0,w=0 0,w=4000000000 0,w=4000000000 | 2>1 balance
the newest version first | 2xv=1 v=2 | 0 0 1 1 - | 4>2 unowned |
the newest version up to the fair share | v=1 v=2 | 3x- | 0>1 unowned, 1>1 unowned, 2>0 unowned |
the newest version is that whose first living member joined last | leaves,v=2 v=1 v=2 v=1 | 0 | 0>2 leaves |
";

fn cases() -> impl Iterator<Item = [&'static str; 5]> {
    let cases = CASES.lines().filter(|it| !it.is_empty());
    cases.map(|it| {
        let mut parts = it.split('|').map(str::trim);
        [(); 5].map(|()| parts.next().unwrap_or(""))
    })
}

#[test]
fn each_case_has_exactly_these_moves() {
    let wrong = cases().filter_map(|[what, members, units, expected, left]| {
        let plan = plan(&fleet(members, units));
        let found = (moves(&plan), unplaced(&plan));
        (found != (expected.into(), left.into())).then_some((what, found))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), []);
}

#[test]
fn a_plan_that_was_carried_out_leaves_nothing_to_do() {
    for [what, members, units, ..] in cases() {
        let mut fleet = fleet(members, units);
        let first = plan(&fleet);
        carry_out(&mut fleet, &first);
        assert_eq!(moves(&plan(&fleet)), "", "{what}");
    }
}

#[test]
fn an_explanation_says_why_each_member_is_worse() {
    let members =
        "ssd - ssd ssd,max=0 ssd,cordoned ssd,leaves ssd,waits ssd,fails=0 ssd,zone=a ssd,like";
    let units = "0,need=ssd,apart=0,zones=0,like=like 2,apart=0 8,zones=0 3x9";
    let why = "- labels apart full cordoned leaves waits failing zones balance";
    let cases = [
        (members, units, why),
        (
            "v=1 like,v=1 v=2",
            "-,like=like 1,w=2000",
            "version balance -",
        ),
        ("2x-", "0", "- near"),
        ("leaves -,max=0", "0", "leaves full"),
    ];
    for (members, units, expected) in cases {
        let told = explain(&fleet(members, units), 0).expect("a unit");
        let why = told.why_not.iter().map(|it| it.map_or("-", Reason::as_str));
        assert_eq!(why.collect::<Vec<_>>().join(" "), expected);
    }
    assert_eq!(explain(&fleet("2x-", "0"), 1), None);
}
