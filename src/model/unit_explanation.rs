//! Why a unit of a group is where it is, as people and programs read it.

use serde::{Deserialize, Serialize};

use crate::model::group_plan::{hold, labels, unfit};
use crate::role::GroupView;
use nats_elect_core::group::Epoch;
use nats_elect_core::group::policy::{Choice, Explanation, Refusal, Verdict};
use nats_elect_core::name::GroupName;
use nats_elect_core::text::printable;

/// Why a unit of a group is where it is, as one member sees it: what the group's plan does with it,
/// and each member as its owner.
///
/// It decides nothing. Instances are named by their ids. Of members with the same id only the one that
/// came last is, and others as `ID (epoch EPOCH)`. A member whose id is not known is named by its epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UnitExplanation {
    /// The group.
    pub group: String,
    /// The unit.
    pub unit: String,
    /// The member that plans for the group. `None` if nobody takes units.
    #[serde(default)]
    pub planner: Option<String>,
    /// Whether the planner itself says so. Another member does not know which moves were hinted and
    /// when the last round ended.
    #[serde(default)]
    pub is_planners: bool,
    /// The unit's living owner.
    #[serde(default)]
    pub owner: Option<String>,
    /// What the plan does with the unit: `stays`, `under_way`, `moves` (now), `held` (a move that has
    /// to wait) or `unplaced` (nobody may take it).
    pub verdict: String,
    /// The next owner, if it is to move.
    #[serde(default)]
    pub to: Option<String>,
    /// The reason of the move, as [`placement::Cause`](crate::placement::Cause) names it.
    #[serde(default)]
    pub cause: Option<String>,
    /// In words: what a move waits for, or why nobody may take the unit.
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
///
/// Of those that may take the unit the best one has, in this order: no failures, the fewest zone
/// mates, the fewest units beside it, the fewest labels missed, the least load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UnitChoice {
    /// The instance id.
    pub instance_id: String,
    /// In words: why it may not take the unit. `None` if it may.
    #[serde(default)]
    pub refusal: Option<String>,
    /// Whether the unit keeps failing there.
    #[serde(default)]
    pub failing: bool,
    /// How many other units of its set are in the member's zone.
    #[serde(default)]
    pub zone_mates: usize,
    /// The units there that it should be apart from.
    #[serde(default)]
    pub beside: Vec<String>,
    /// The labels that it prefers, and the member lacks.
    #[serde(default)]
    pub missed: Vec<String>,
    /// The member's load with this unit, in thousandths of its fair share. `None` if it takes no
    /// units.
    #[serde(default)]
    pub load: Option<u64>,
}

impl UnitExplanation {
    pub(crate) fn of(group: &GroupName, view: &GroupView, explained: Explanation) -> Self {
        let id = |epoch: Epoch| view.instance(epoch);
        let (verdict, to, cause, why) = match explained.verdict {
            Verdict::Stays => ("stays", None, None, None),
            Verdict::UnderWay(to) => ("under_way", Some(to), None, None),
            Verdict::Moves { to, cause } => ("moves", Some(to), Some(cause), None),
            Verdict::Held {
                to,
                cause,
                hold: reason,
            } => ("held", Some(to), Some(cause), Some(hold(reason))),
            Verdict::Unplaced(why) => ("unplaced", None, None, Some(unfit(&why, id))),
            _ => ("unknown", None, None, None),
        };
        let choices = explained.choices.into_iter();
        let mut choices: Vec<_> = choices.map(|it| choice(it, id)).collect();
        choices.sort_by(|a, b| a.instance_id.cmp(&b.instance_id));
        Self {
            group: group.to_string(),
            unit: explained.unit.to_string(),
            planner: view.planner.map(id),
            is_planners: view.is_planners(),
            owner: explained.owner.map(id),
            verdict: verdict.into(),
            to: to.map(id),
            cause: cause.map(|it| it.to_string()),
            why,
            choices,
            omitted: 0,
        }
    }

    /// Leaves out members beyond so many.
    #[must_use]
    pub(crate) fn cut(mut self, most: usize) -> Self {
        self.omitted += self.choices.len().saturating_sub(most);
        self.choices.truncate(most);
        self
    }

    /// Makes all text printable.
    #[must_use]
    pub(crate) fn cleaned(mut self) -> Self {
        let clean = |text: &mut String| *text = printable(text);
        let own = [&mut self.group, &mut self.unit, &mut self.verdict];
        own.into_iter().for_each(clean);
        let optional = [
            &mut self.planner,
            &mut self.owner,
            &mut self.to,
            &mut self.cause,
            &mut self.why,
        ];
        optional.into_iter().flatten().for_each(clean);
        for it in &mut self.choices {
            clean(&mut it.instance_id);
            it.refusal.iter_mut().for_each(clean);
            it.beside.iter_mut().chain(&mut it.missed).for_each(clean);
        }
        self
    }
}

fn choice(it: Choice, id: impl Fn(Epoch) -> String) -> UnitChoice {
    UnitChoice {
        instance_id: id(it.member),
        refusal: it.refusal.as_ref().map(refusal),
        failing: it.failing,
        zone_mates: it.zone_mates,
        beside: it.beside.iter().map(ToString::to_string).collect(),
        missed: it.missed.into_iter().collect(),
        load: it.load,
    }
}

fn refusal(why: &Refusal) -> String {
    match why {
        Refusal::Cordoned => "it is cordoned".into(),
        Refusal::Silent => "its heartbeats are missing".into(),
        Refusal::Waiting => "most units are not of age for it yet".into(),
        Refusal::Labels(missing) => format!("it lacks {}", labels(missing)),
        Refusal::Settling(_) => "it has only just come".into(),
        Refusal::Cap(most) => format!("it is full, with {most} units"),
        _ => "a reason that this version does not know".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_is_made_printable() {
        let json = r#"{"group":"g\u001b","unit":"7\u0007","verdict":"mo\nves","to":"a\u001b[2J",
            "cause":"bal\nance","why":"\u001bw","moon":1,
            "choices":[{"instance_id":"a\u001b","refusal":"\u001br","beside":["\u001bb"],
            "missed":["\u001bm"]}]}"#;
        let read: UnitExplanation = serde_json::from_str(json).expect("an explanation");
        let clean = read.cleaned();
        let text = serde_json::to_string(&clean).expect("JSON");
        assert!(!text.contains("\\u00") && !text.contains("\\n"), "{text}");
        assert_eq!(clean.to.as_deref(), Some("a[2J"));
    }

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
