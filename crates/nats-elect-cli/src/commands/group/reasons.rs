//! Why a unit is where it is, in words: what the plan does with it, and each member as its owner.

use nats_elect::{UnitChoice, UnitExplanation};

use super::asking::of_another;
use super::plan::share;
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
        let load = choice.load.map_or_else(|| "–".into(), share);
        let owns = it.owner.as_ref() == Some(&choice.instance_id);
        let line = format!("  {id:<width$}  {load:>5}  {}", notes(choice, owns));
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
        "under_way" => format!("it is on its way to {to}"),
        "moves" => format!("it moves to {to} now: {cause}"),
        "held" => format!("it is to move to {to}: {cause}; that waits for {why}"),
        "unplaced" => format!("nobody may take it: {why}"),
        other => other.into(),
    }
}

/// The reasons for and against a member.
fn notes(it: &UnitChoice, owns: bool) -> String {
    let failing = it
        .failing
        .then(|| "the unit keeps failing there".to_owned());
    let zone = (it.zone_mates > 0).then(|| format!("{} of its set in that zone", it.zone_mates));
    let beside =
        (!it.beside.is_empty()).then(|| format!("beside {}", cut(&it.beside.join(", "), SHOWN)));
    let missed = (!it.missed.is_empty())
        .then(|| format!("lacks the preferred {}", cut(&it.missed.join(", "), SHOWN)));
    let owns = owns.then(|| "owns it".to_owned());
    let notes = [owns, it.refusal.clone(), failing, zone, beside, missed];
    let notes: Vec<_> = notes.into_iter().flatten().collect();
    notes.join("; ")
}
