//! Questions to the instances about a group.

use futures::future::join_all;
use nats_elect::admin::{AdminClient, AdminError, Instance, ProblemCode};

use crate::exit::Failure;
use crate::instances::everyone;
use crate::options::Shared;

/// Asks all instances, and returns the planner's answer, or else another one. `None` if no instance
/// that answers takes part in the group.
pub async fn ask<T>(
    admin: &AdminClient,
    shared: &Shared,
    question: impl AsyncFn(&Instance) -> Result<T, AdminError>,
    is_planners: impl Fn(&T) -> bool,
) -> Result<Option<T>, Failure> {
    let found = everyone(admin, shared.patience()).await?;
    let (mut answers, mut errors) = (Vec::new(), Vec::new());
    for answer in join_all(found.iter().map(|it| question(it))).await {
        match answer {
            Ok(answer) => answers.push(answer),
            Err(error) if takes_no_part(&error) => {}
            Err(error) => errors.push(error),
        }
    }
    answers.sort_by_key(|it| !is_planners(it));
    match (answers.into_iter().next(), errors.first()) {
        (None, Some(error)) => Err(error.into()),
        (answer, _) => Ok(answer),
    }
}

/// A remark for people, if the answer is not the planner's.
pub fn of_another(planner: Option<&str>, is_planners: bool) -> Option<String> {
    match planner {
        _ if is_planners => None,
        Some(planner) => Some(format!(
            "this is another member's plan: {planner} plans for the group, and did not answer"
        )),
        None => Some(
            "this is a member's plan: nobody plans for the group, for no member takes units".into(),
        ),
    }
}

/// Whether the instance has no such group, or none at all.
fn takes_no_part(error: &AdminError) -> bool {
    matches!(error, AdminError::NoSuchInstance(_))
        || error.refusal() == Some(ProblemCode::UnknownGroup)
}
