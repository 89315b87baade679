//! A group's plan, as people and programs read it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::role::GroupView;
use nats_elect_core::group::policy::{Cause, Hold, Imbalance, Move, Plan, Round, Standing, Unfit};
use nats_elect_core::group::{Epoch, HANDLER};
use nats_elect_core::name::{GroupName, UnitName};
use nats_elect_core::text::printable;

/// Members that a reason names. Further ones are counted.
const MOST_NAMED: usize = 10;

/// The moves that a group's policy wants now, and why, as one member sees them.
///
/// It decides nothing. Instances are named by their ids. Of members with the same id only the one that
/// came last is, and others as `ID (epoch EPOCH)`. A member whose id is not known is named by its epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GroupPlan {
    /// The group.
    pub group: String,
    /// The member that plans for the group. `None` if nobody takes units.
    #[serde(default)]
    pub planner: Option<String>,
    /// Whether this is the planner's own plan. Another member does not know which moves were hinted
    /// and when the last round ended, so some of its moves may be under way or wait.
    #[serde(default)]
    pub is_planners: bool,
    /// The loads of the present owners.
    pub before: LoadRange,
    /// The loads when all moves have ended, also those that wait.
    pub after: LoadRange,
    /// The members that may own units or own some, in the order of their ids.
    #[serde(default)]
    pub members: Vec<PlannedMember>,
    /// The moves that were begun, in the order of the units' numbers or names.
    #[serde(default)]
    pub under_way: Vec<PlannedMove>,
    /// The moves to begin now, the most urgent first.
    #[serde(default)]
    pub moves: Vec<PlannedMove>,
    /// The moves that have to wait.
    #[serde(default)]
    pub held: Vec<PlannedMove>,
    /// The units that nobody may take, in the order of their numbers or names.
    #[serde(default)]
    pub unplaced: Vec<UnplacedUnit>,
    /// How many moves and units are left out, because the plan came in a message.
    #[serde(default)]
    pub omitted: usize,
}

/// The highest and the lowest load of the members that take units, in thousandths of the fair share
/// of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoadRange {
    /// The highest.
    pub most: u64,
    /// The lowest.
    pub least: u64,
}

/// A member of a group in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlannedMember {
    /// The instance id.
    pub instance_id: String,
    /// Whether it takes units: `active`, `cordoned`, `silent` or `waiting`.
    pub standing: String,
    /// How many units its name stands in.
    #[serde(default)]
    pub units: usize,
    /// The weight of these units together, as the plan counts it.
    #[serde(default)]
    pub weight: u64,
}

/// A move in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlannedMove {
    /// The unit.
    pub unit: String,
    /// The instance that gives it away. `None` if it has no living owner.
    #[serde(default)]
    pub from: Option<String>,
    /// The next owner.
    pub to: String,
    /// The reason, as [`placement::Cause`](crate::placement::Cause) names it. Of a move that was begun
    /// it is the one for which the policy would move the unit now, and `None` if it would not, as after
    /// a move by hand.
    #[serde(default)]
    pub cause: Option<String>,
    /// What it waits for, in words. `None` if it does not wait.
    #[serde(default)]
    pub waits_for: Option<String>,
}

/// A unit that nobody may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UnplacedUnit {
    /// The unit.
    pub unit: String,
    /// The owner that keeps it although it should not.
    #[serde(default)]
    pub kept_by: Option<String>,
    /// The reason, in words.
    pub why: String,
}

impl From<Imbalance> for LoadRange {
    fn from(Imbalance { most, least }: Imbalance) -> Self {
        Self { most, least }
    }
}

impl GroupPlan {
    pub(crate) fn of(group: &GroupName, view: &GroupView, plan: Plan) -> Self {
        let id = |epoch: Epoch| view.instance(epoch);
        let planned = |it: Move, waits_for: Option<String>| PlannedMove {
            unit: it.unit.to_string(),
            from: it.from.map(id),
            to: id(it.to),
            cause: Some(it.cause.to_string()),
            waits_for,
        };
        let fleet = &view.fleet;
        let causes = causes_under_way(view);
        let mut under_way: Vec<_> = fleet.under_way.iter().collect();
        under_way.sort_by(|(a, _), (b, _)| order(a).cmp(&order(b)));
        let under_way = under_way.into_iter().map(|(unit, to)| PlannedMove {
            unit: unit.to_string(),
            from: fleet.units.get(unit).and_then(|it| it.owner).map(id),
            to: id(*to),
            cause: causes.get(unit).map(ToString::to_string),
            waits_for: None,
        });
        let mut unplaced = plan.unplaced;
        unplaced.sort_by(|a, b| order(&a.unit).cmp(&order(&b.unit)));
        let unplaced = unplaced.into_iter().map(|it| UnplacedUnit {
            unit: it.unit.to_string(),
            kept_by: it.kept_by.map(id),
            why: unfit(&it.why, id),
        });
        Self {
            group: group.to_string(),
            planner: view.planner.map(id),
            is_planners: view.is_planners(),
            before: plan.before.into(),
            after: plan.after.into(),
            members: members(view),
            under_way: under_way.collect(),
            moves: plan.moves.into_iter().map(|it| planned(it, None)).collect(),
            held: plan
                .held
                .into_iter()
                .map(|it| planned(it.planned, Some(hold(it.hold))))
                .collect(),
            unplaced: unplaced.collect(),
            omitted: 0,
        }
    }

    /// Leaves out what is beyond so many entries of each list.
    #[must_use]
    pub(crate) fn cut(mut self, most: usize) -> Self {
        let mut omitted = 0;
        let mut cut = |moves: &mut Vec<PlannedMove>| {
            omitted += moves.len().saturating_sub(most);
            moves.truncate(most);
        };
        cut(&mut self.under_way);
        cut(&mut self.moves);
        cut(&mut self.held);
        omitted += self.unplaced.len().saturating_sub(most);
        self.unplaced.truncate(most);
        self.omitted += omitted;
        self
    }

    /// Makes all text printable.
    #[must_use]
    pub(crate) fn cleaned(mut self) -> Self {
        let clean = |text: &mut String| *text = printable(text);
        clean(&mut self.group);
        self.planner.iter_mut().for_each(clean);
        for member in &mut self.members {
            clean(&mut member.instance_id);
            clean(&mut member.standing);
        }
        let moves = self.under_way.iter_mut();
        for it in moves.chain(&mut self.moves).chain(&mut self.held) {
            clean(&mut it.unit);
            clean(&mut it.to);
            let optional = [&mut it.from, &mut it.cause, &mut it.waits_for];
            optional.into_iter().flatten().for_each(clean);
        }
        for it in &mut self.unplaced {
            clean(&mut it.unit);
            clean(&mut it.why);
            it.kept_by.iter_mut().for_each(clean);
        }
        self
    }
}

/// Why the policy would move the units whose moves were begun. A hint does not tell.
fn causes_under_way(view: &GroupView) -> BTreeMap<UnitName, Cause> {
    let under_way = &view.fleet.under_way;
    if under_way.is_empty() {
        return BTreeMap::new();
    }
    let mut fleet = view.fleet.clone();
    fleet.under_way.clear();
    // As of the next round.
    fleet.round = Round::Over { at: None };
    let plan = view.policy.plan(&fleet);
    let held = plan.held.into_iter().map(|it| it.planned);
    let moves = plan.moves.into_iter().chain(held);
    // What only makes things better does so at one place.
    let is_begun = |it: &Move| {
        let to = under_way.get(&it.unit);
        to.is_some_and(|to| *to == it.to || !it.cause.is_improvement())
    };
    let begun = moves.filter(is_begun);
    begun.map(|it| (it.unit, it.cause)).collect()
}

/// For units in their order: shards by their numbers.
fn order(unit: &UnitName) -> (Option<u32>, &UnitName) {
    (unit.as_shard(), unit)
}

fn members(view: &GroupView) -> Vec<PlannedMember> {
    let mut owned: BTreeMap<Epoch, (usize, u64)> = BTreeMap::new();
    for unit in view.fleet.units.values() {
        if let Some(owner) = unit.owner {
            let (units, weight) = owned.entry(owner).or_default();
            *units += 1;
            *weight += u64::from(unit.weight);
        }
    }
    let mut members: Vec<_> = view
        .fleet
        .members
        .iter()
        .map(|(epoch, it)| {
            let (units, weight) = owned.get(epoch).copied().unwrap_or_default();
            let standing = match it.standing {
                Standing::Active => "active",
                Standing::Cordoned => "cordoned",
                Standing::Silent => "silent",
                Standing::Waiting => "waiting",
            };
            PlannedMember {
                instance_id: view.instance(*epoch),
                standing: standing.into(),
                units,
                weight,
            }
        })
        .collect();
    members.sort_by(|a, b| a.instance_id.cmp(&b.instance_id));
    members
}

pub(super) fn hold(hold: Hold) -> String {
    match hold {
        Hold::Limit => "other moves: as many as may be are under way",
        Hold::Settling(_) => "its next owner to have been well for long enough",
        Hold::Room => "room at its next owner, which is full",
        Hold::Order => "moves that come before it",
        _ => "something that this version does not know",
    }
    .into()
}

pub(super) fn unfit(why: &Unfit, id: impl Fn(Epoch) -> String) -> String {
    match why {
        Unfit::NoMember => "no member takes units: all are cordoned or silent".into(),
        Unfit::Starting { settled, needed } => {
            format!("the fleet starts: {settled} of {needed} members are there")
        }
        Unfit::Labels(missing) => format!("no member has {}", labels(missing)),
        Unfit::Settling(_) => "every member that may take it has only just come".into(),
        Unfit::Caps(full) => {
            let more = full.len().saturating_sub(MOST_NAMED);
            let full: Vec<_> = full.iter().take(MOST_NAMED).map(|it| id(*it)).collect();
            let more = (more > 0).then(|| format!(", … and {more} more"));
            let (full, more) = (full.join(", "), more.unwrap_or_default());
            format!("the members that may take it are full: {full}{more}")
        }
        _ => "the policy has no place for it".into(),
    }
}

/// What a member lacks, in words. A handler for a unit counts as a label.
pub(super) fn labels(missing: &BTreeSet<String>) -> String {
    let (handlers, labels): (Vec<&str>, Vec<&str>) = missing
        .iter()
        .map(String::as_str)
        .partition(|it| it.starts_with(HANDLER));
    let handler = (!handlers.is_empty()).then(|| "a handler for it".to_owned());
    let labels = (!labels.is_empty()).then(|| format!("the labels {}", labels.join(", ")));
    let both: Vec<_> = handler.into_iter().chain(labels).collect();
    both.join(", and ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use nats_elect_core::Moment;
    use nats_elect_core::group::policy::{Balanced, Fleet, Member, Policy, PolicySettings, Unit};

    use super::*;

    fn epoch(letter: char) -> Epoch {
        let text = format!("{}A", letter.to_string().repeat(21));
        Epoch::parse(&text).expect("an epoch")
    }

    #[test]
    fn moves_under_way_are_in_the_order_of_units_with_the_cause_of_each() {
        let (a, b) = (epoch('B'), epoch('C'));
        let now = Moment::from_nanos(1);
        let mut fleet = Fleet::new(now);
        let cordoned = Member::new(now).standing(Standing::Cordoned);
        fleet.members = [(a, cordoned), (b, Member::new(now))].into();
        // The last one is moved by hand.
        for (shard, from, to) in [(10, a, b), (2, a, b), (3, b, a)] {
            let unit = UnitName::shard(shard);
            fleet
                .units
                .insert(unit.clone(), Unit::default().owner(from));
            fleet.under_way.insert(unit, to);
        }
        let policy = Balanced::new(PolicySettings::new(Duration::from_secs(1)));
        let plan = policy.plan(&fleet);
        let view = GroupView {
            fleet,
            policy: Arc::new(policy),
            instances: [(a, "a".to_owned()), (b, "b".to_owned())].into(),
            own: None,
            planner: Some(b),
        };
        let group = GroupName::new("g").expect("a name");
        let plan = GroupPlan::of(&group, &view, plan);
        let under_way = plan.under_way.iter();
        let told: Vec<_> = under_way
            .map(|it| (it.unit.as_str(), it.to.as_str(), it.cause.as_deref()))
            .collect();
        let drain = Some("drain");
        assert_eq!(
            told,
            [("2", "b", drain), ("3", "a", None), ("10", "b", drain)]
        );
    }

    #[test]
    fn a_reason_names_some_members_and_counts_the_others() {
        let full: Vec<_> = ('a'..='l').map(epoch).collect();
        let text = unfit(&Unfit::Caps(full), |it| it.to_string()[..1].to_owned());
        assert!(
            text.ends_with(": a, b, c, d, e, f, g, h, i, j, … and 2 more"),
            "{text}"
        );
    }

    #[test]
    fn a_plan_that_is_cut_says_how_much_is_missing() {
        let it = |unit: u32| PlannedMove {
            unit: unit.to_string(),
            from: None,
            to: "a".into(),
            cause: None,
            waits_for: None,
        };
        let plan = GroupPlan {
            group: "g".into(),
            planner: None,
            is_planners: false,
            before: LoadRange::default(),
            after: LoadRange::default(),
            members: Vec::new(),
            under_way: (0..3).map(it).collect(),
            moves: (0..7).map(it).collect(),
            held: Vec::new(),
            unplaced: Vec::new(),
            omitted: 0,
        };
        let plan = plan.cut(4);
        assert_eq!((plan.under_way.len(), plan.moves.len()), (3, 4));
        assert_eq!(plan.omitted, 3);
    }
}
