//! `group`: groups, their members and units.

mod asking;
pub mod drain;
pub mod explain;
pub mod grow;
pub mod ls;
pub mod show;
pub mod transfer;
mod waiting;

use std::time::Duration;

use nats_elect::{ObservedGroup, ObservedGroups, Observer};

use crate::exit::Failure;
use crate::fleet::problems;
use crate::options::Shared;
use crate::output::Output;
use crate::trust::Trust;

/// Reads the bucket. Roles are of no interest here.
async fn observer(shared: &Shared) -> Result<Observer, Failure> {
    // The future's state is large: boxing it spares the callers.
    Box::pin(shared.observer(Some(&[]), &Trust::default(), false)).await
}

/// Reads all groups of the bucket, and waits for a heartbeat of each member.
async fn read(shared: &Shared, wait: Duration) -> Result<ObservedGroups, Failure> {
    Ok(observer(shared).await?.groups(wait).await?)
}

/// The group of this name.
fn find<'a>(all: &'a ObservedGroups, name: &str) -> Result<&'a ObservedGroup, Failure> {
    all.groups.get(name).ok_or_else(|| {
        Failure::not_found(format!("there is no group {name:?} in the bucket"))
            .advice("`nats-elect group ls` lists the groups")
    })
}

/// Tells the problems of these groups, below a table.
fn note_problems(all: &ObservedGroups, names: impl IntoIterator<Item: AsRef<str>>, output: Output) {
    let problems: Vec<_> = names
        .into_iter()
        .flat_map(|it| problems(all, it.as_ref()))
        .collect();
    if !problems.is_empty() {
        output.note("");
    }
    for problem in problems {
        output.note(&problem);
    }
}
