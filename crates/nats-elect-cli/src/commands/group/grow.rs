//! `group grow`: gives a sharded group another number of shards.

use clap::Args;
use nats_elect::admin::AdminClient;
use serde::Serialize;

use crate::confirm::{can_be_confirmed, confirm};
use crate::exit::{Failure, Outcome};
use crate::instances::everyone;
use crate::names;
use crate::options::Shared;
use crate::output::Output;

const MORE: &str = "\
The command asks an instance of the group to write its map with the new number. All handlers end, and
when all have ended, the new shards start. No instance has to restart. Write the new number into the
settings of all instances afterwards.

A key belongs to another shard then, and `term.store()` of each unit begins empty: docs/groups.md.
Fewer shards are possible in the same way.

Exit codes: those of `nats-elect --help`. 4 if the group can't have that number now

Examples:
  nats-elect group grow partitions 512
  nats-elect group grow partitions 512 --yes    for scripts";

/// Give a sharded group another number of shards, more or fewer
///
/// Every unit of the group ends and begins anew, in a new generation. See `nats-elect group show` for
/// the present number.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct Grow {
    /// The group
    #[arg(value_parser = names::group)]
    group: String,

    /// The new number of shards, from 1 to 65536
    #[arg(value_parser = shards)]
    shards: u32,

    /// Do not ask for a confirmation, for scripts
    #[arg(short, long)]
    yes: bool,
}

/// What came of it, for programs.
#[derive(Serialize)]
struct Told<'a> {
    group: &'a str,
    shards: u32,
}

impl Grow {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        can_be_confirmed(
            self.yes,
            "--yes grows the group without a confirmation: all its units end and begin anew",
        )?;
        let growing = async |admin: AdminClient| self.grow(&admin, shared, output).await;
        shared.operate(growing).await
    }

    async fn grow(&self, admin: &AdminClient, shared: &Shared, output: Output) -> Outcome {
        let (group, shards) = (&self.group, self.shards);
        if !self.yes {
            confirm(&format!(
                "All units of {group} end, and {shards} new ones begin. Go on?"
            ))
            .await?;
        }
        let mut refused = None;
        for instance in everyone(admin, shared.patience()).await? {
            match admin.resize_group(&instance, group, shards).await {
                Ok(()) => {
                    let has = format!("{group} has {shards} shards now");
                    output.tell(&Told { group, shards }, [has])?;
                    return Ok(0);
                }
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.map_or_else(
            || Failure::not_found("no instance answers"),
            |error| Failure::from(&error),
        ))
    }
}

fn shards(text: &str) -> Result<u32, &'static str> {
    let shards = text.parse().ok();
    let shards = shards.filter(|it| (1..=65_536).contains(it));
    shards.ok_or("a group has 1 to 65536 shards")
}
