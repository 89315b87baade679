//! Why a unit is where it is, in words: what the plan does with it, and each member as its owner.

use nats_elect::{UnitChoice, UnitExplanation};

use super::asking::of_another;
use crate::output::SHOWN;
use crate::text::cut;

/// More members are only counted.
const MOST: usize = 20;

pub fn lines(it: &UnitExplanation) -> Vec<String> {
    let mut lines = vec![format!("  {:<14} {}", "plan", verdict(it))];
    if let Some(of) = of_another(it.planner.as_deref(), it.is_planners) {
        lines.push(format!("  {:<14} {of}", ""));
    }
    let shown = it.choices.iter().take(MOST);
    let shown: Vec<_> = shown.map(|it| (cut(&it.instance_id, SHOWN), it)).collect();
    let width = shown.iter().map(|(id, _)| id.chars().count()).max();
    let width = width.unwrap_or_default();
    lines.push("members, with this unit:".into());
    for (id, choice) in &shown {
        let owns = it.owner.as_ref() == Some(&choice.instance_id);
        let line = format!("  {id:<width$}  {}", notes(choice, owns));
        lines.push(line.trim_end().to_owned());
    }
    let more = it.choices.len() - shown.len() + it.omitted;
    if more > 0 {
        lines.push(format!("  and {more} more"));
    }
    lines
}

fn verdict(it: &UnitExplanation) -> String {
    let to = cut(it.to.as_deref().unwrap_or("nobody"), SHOWN);
    let cause = it.cause.as_deref().unwrap_or("unknown");
    let why = it.why.as_deref().unwrap_or("something");
    match it.verdict.as_str() {
        "stays" if it.owner.is_none() => "it is taken when nothing is in the way".into(),
        "stays" => "it stays: no other member would be better by enough".into(),
        "under_way" => format!("it is on its way to {to}: {why}"),
        "moves" => format!("it moves to {to} now: {cause}"),
        "unplaced" => format!("nobody may take it: {why}"),
        other => other.into(),
    }
}

/// The reasons for and against a member.
fn notes(it: &UnitChoice, owns: bool) -> String {
    let owns = owns.then(|| "owns it".to_owned());
    let notes: Vec<_> = [owns, it.why_not.clone()].into_iter().flatten().collect();
    notes.join("; ")
}
