//! Why a unit of a group is where it is, as people and programs read it.

use serde::{Deserialize, Serialize};

use crate::role::GroupView;
use nats_elect_core::assignment::Epoch;
use nats_elect_core::member::{Candidate, UnitId};
use nats_elect_core::name::GroupName;
use nats_elect_core::plan::{Explanation, Move, Plan, Reason};

/// Why a unit of a group is where it is, as one member sees it: what the group's plan does with it,
/// and each member as its owner.
///
/// It decides nothing. Instances are named by their ids. Of members with the same id only the one that
/// joined last is, and others as `ID (epoch EPOCH)`. A member whose id is not known is named by its epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UnitExplanation {
    /// The group.
    pub group: String,
    /// The unit.
    pub unit: String,
    /// The member that plans for the group. `None` if nobody can.
    #[serde(default)]
    pub coordinator: Option<String>,
    /// Whether the coordinator itself says so. Another member may have other settings, or know less.
    #[serde(default)]
    pub is_coordinators: bool,
    /// The unit's living owner.
    #[serde(default)]
    pub owner: Option<String>,
    /// What happens to the unit: `stays`, `under_way` (its owner begins when others have ended),
    /// `moves` (with the next map) or `unplaced` (nobody may take it).
    pub verdict: String,
    /// The next owner, if the unit is under way or moves. `None` if it is to have none.
    #[serde(default)]
    pub to: Option<String>,
    /// The reason of a move, in a word.
    #[serde(default)]
    pub cause: Option<String>,
    /// In words: whom a unit under way waits for, or why nobody may take the unit.
    #[serde(default)]
    pub why: Option<String>,
    /// The members as owners of the unit, in the order of their ids.
    #[serde(default)]
    pub choices: Vec<UnitChoice>,
    /// How many members are left out, because the answer came in a message.
    #[serde(default)]
    pub omitted: usize,
}

/// A member as the owner of a unit, once the plan is carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UnitChoice {
    /// The instance id.
    pub instance_id: String,
    /// In words: why the unit is not there, or should not be. `None` if it is there, and may be.
    #[serde(default)]
    pub why_not: Option<String>,
}

impl UnitExplanation {
    /// What a plan does with the unit of this index. `None` if it stays.
    pub(crate) fn planned(
        group: &GroupName,
        view: &GroupView,
        plan: &Plan,
        place: usize,
    ) -> Option<Self> {
        let moves = plan.moves.iter().find(|it| it.unit == place).copied();
        let unplaced = plan.unplaced.iter().find(|it| it.unit == place);
        Self::of(group, view, place, moves, unplaced.map(|it| it.why))
    }

    /// What the plan does with a unit, and each member as its owner.
    pub(crate) fn explained(
        group: &GroupName,
        view: &GroupView,
        explained: Explanation,
        place: usize,
    ) -> Option<Self> {
        let candidates = view.request.candidates.iter();
        let choices = candidates.zip(explained.why_not);
        let choices = choices.map(|(it, why_not)| UnitChoice {
            instance_id: view.instance(it.epoch),
            why_not: why_not.map(|why| match why {
                Reason::Waits if waits(it) => WAITS.into(),
                why => of_member(why).into(),
            }),
        });
        let mut choices: Vec<_> = choices.collect();
        choices.sort_by(|a, b| a.instance_id.cmp(&b.instance_id));
        let told = Self::of(group, view, place, explained.moves, explained.unplaced)?;
        Some(Self { choices, ..told })
    }

    fn of(
        group: &GroupName,
        view: &GroupView,
        place: usize,
        moves: Option<Move>,
        unplaced: Option<Reason>,
    ) -> Option<Self> {
        let map = &view.request.base;
        let candidates = &view.request.candidates;
        let at = u32::try_from(place).ok()?;
        let id = |epoch: Epoch| view.instance(epoch);
        let lives = |epoch: &Epoch| candidates.iter().any(|it| it.epoch == *epoch);
        let owner = map.owner(at).filter(lives).map(id);
        let awaited = view.awaited.get(&at);
        let (verdict, to, why) = match (awaited, moves, unplaced) {
            (Some(awaited), ..) => {
                let names: Vec<_> = awaited.iter().map(|it| id(*it)).collect();
                let why = format!("former owners have not ended yet: {}", names.join(", "));
                ("under_way", owner.clone(), Some(why))
            }
            (None, _, Some(Reason::Waits)) if candidates.iter().any(waits) => {
                ("unplaced", None, Some(ALL_WAIT.into()))
            }
            (None, Some(_), None) if view.owners_wait => ("unplaced", None, Some(ALL_WAIT.into())),
            (None, _, Some(why)) => ("unplaced", None, Some(of_all(why).into())),
            (None, Some(moves), None) => {
                let to = moves.to.and_then(|it| candidates.get(it));
                ("moves", to.map(|it| id(it.epoch)), None)
            }
            (None, None, None) => ("stays", None, None),
        };
        let cause = moves.filter(|_| verdict == "moves");
        Some(Self {
            group: group.to_string(),
            unit: UnitId::at(map, at)?.unit().name().to_string(),
            coordinator: view.coordinator.map(id),
            is_coordinators: view.coordinator == Some(view.own),
            owner,
            verdict: verdict.into(),
            to,
            cause: cause.map(|it| it.cause.to_string()),
            why,
            choices: Vec::new(),
            omitted: 0,
        })
    }

    /// Leaves out members beyond so many.
    #[must_use]
    pub(crate) fn cut(mut self, most: usize) -> Self {
        self.omitted += self.choices.len().saturating_sub(most);
        self.choices.truncate(most);
        self
    }
}

/// Why a member of a bucket that was replaced may not have the unit.
const WAITS: &str =
    "it waits until leases are over that the bucket lost: a minute from when it noticed";
/// Why nobody may have a unit while such members wait.
pub(crate) const ALL_WAIT: &str = "the bucket was made anew, or lost writes: members wait until leases of before are \
                        over, for a minute from when they noticed";

/// Whether the member waits for leases of another bucket.
fn waits(it: &Candidate) -> bool {
    it.record.as_ref().is_some_and(|it| it.waits)
}

/// Why nobody may have the unit, of the member that is nearest to it.
const fn of_all(why: Reason) -> &'static str {
    match why {
        Reason::Nobody => "the group has no member",
        Reason::Labels => "no member has the labels that it requires",
        Reason::Leaves => "every member that may take it leaves",
        Reason::Cordoned => "every member that may take it is cordoned",
        Reason::Waits => "every member that may take it has only just come, or sends no heartbeats",
        Reason::Full => "the members that may take it are full: see `max_units`",
        Reason::Budget => "the plan ran out of time: the next one goes on",
        _ => "the plan has no place for it",
    }
}

/// Why the unit is not with a member.
const fn of_member(why: Reason) -> &'static str {
    match why {
        Reason::Labels => "it lacks a label that the unit requires",
        Reason::Leaves => "it leaves",
        Reason::Cordoned => "it is cordoned",
        Reason::Waits => "it has only just come, or sends no heartbeats",
        Reason::Full => "it is full: see `max_units`",
        Reason::Budget => "the plan ran out of time",
        Reason::Failing => "the unit keeps failing there, or has no handler there",
        Reason::Zones => "more units of its set are in that zone",
        Reason::Apart => "more units are there that it should be apart from",
        Reason::Preference => "it lacks a label that the unit prefers",
        Reason::Version => "it has an older version of the application",
        Reason::Balance => "it would have more load",
        _ => "it is as good, or not better by enough for a move",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_members_are_cut_and_counted() {
        let json = r#"{"group":"g","unit":"7","verdict":"stays",
            "choices":[{"instance_id":"a"},{"instance_id":"b"},{"instance_id":"c"}]}"#;
        let all: UnitExplanation = serde_json::from_str(json).expect("an explanation");
        let some = all.clone().cut(1);
        assert_eq!((some.choices.len(), some.omitted), (1, 2));
        assert_eq!(all.clone().cut(3), all);
    }
}
