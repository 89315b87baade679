//! What members say of units, in words.

use futures::future::join_all;
use nats_elect::UnitExplanation;
use nats_elect::admin::{AdminClient, AdminError, ProblemCode};

use crate::exit::Failure;
use crate::instances::everyone;
use crate::options::Shared;
use crate::output::SHOWN;
use crate::text::{cut, row};

/// More members are only counted.
const MOST: usize = 20;

/// Asks all instances why a unit is where it is, or which units move, change or find no owner. Returns
/// the coordinator's answer, or else another one.
pub async fn explained(
    admin: &AdminClient,
    shared: &Shared,
    group: &str,
    unit: Option<&str>,
) -> Result<Vec<UnitExplanation>, Failure> {
    let found = everyone(admin, shared.patience()).await?;
    let asked = found.iter().map(async |it| match unit {
        Some(unit) => Ok(vec![admin.explain_unit(it, group, unit).await?]),
        None => admin.group_plan(it, group).await,
    });
    let (mut answers, mut failure) = (Vec::new(), None);
    for answer in join_all(asked).await {
        match answer {
            Ok(answer) => answers.push(answer),
            Err(error) if takes_no_part(&error) => {}
            Err(error) => failure = Some(Failure::from(&error)),
        }
    }
    answers.sort_by_key(|it| !it.iter().any(|it| it.is_coordinators));
    match (answers.into_iter().next(), failure) {
        (None, Some(failure)) => Err(failure),
        (answer, _) => Ok(answer.unwrap_or_default()),
    }
}

/// Whether the instance has no such group, or none at all.
pub fn takes_no_part(error: &AdminError) -> bool {
    matches!(error, AdminError::NoSuchInstance(_))
        || error.refusal() == Some(ProblemCode::UnknownGroup)
}

/// What the plan does with a unit, and each member as its owner.
pub fn lines(it: &UnitExplanation) -> Vec<String> {
    let mut lines = vec![row("plan", &verdict(it)), "members, with this unit:".into()];
    let choices = it.choices.iter().take(MOST);
    let choices: Vec<_> = choices
        .map(|it| (cut(&it.instance_id, SHOWN), it))
        .collect();
    let width = choices.iter().map(|(id, _)| id.chars().count()).max();
    let width = width.unwrap_or_default();
    for (id, choice) in &choices {
        let owns = it.owner.as_ref() == Some(&choice.instance_id);
        let owns = owns.then(|| "owns it".to_owned());
        let notes: Vec<_> = owns.into_iter().chain(choice.why_not.clone()).collect();
        let line = format!("  {id:<width$}  {}", notes.join("; "));
        lines.push(line.trim_end().to_owned());
    }
    let more = it.choices.len() - choices.len() + it.omitted;
    lines.extend((more > 0).then(|| format!("  and {more} more")));
    lines
}

/// What becomes of the unit by the plan.
pub fn verdict(it: &UnitExplanation) -> String {
    let to = cut(it.to.as_deref().unwrap_or("nobody"), SHOWN);
    let why = it.why.as_deref().or(it.cause.as_deref());
    let why = why.unwrap_or("unknown");
    match it.verdict.as_str() {
        "stays" if it.owner.is_none() => "it is taken when nothing is in the way".into(),
        "stays" => "it stays: no other member would be better by enough".into(),
        "under_way" => format!("it is on its way to {to}: {why}"),
        "moves" => format!("it moves to {to}: {why}"),
        "unplaced" => format!("nobody may take it: {why}"),
        other => other.into(),
    }
}
