//! `group grow`: gives a sharded group another number of shards.

use std::time::Duration;

use clap::Args;
use nats_elect::admin::AdminClient;
use nats_elect::{FollowedGroups, GroupName, UnitStanding};
use serde_json::json;

use super::asking::takes_no_part;
use super::{find, observer};
use crate::confirm::{can_be_confirmed, confirm};
use crate::exit::{Failure, Outcome};
use crate::instances::{everyone, operating};
use crate::options::{Shared, duration};
use crate::output::Output;
use crate::progress::Wait;
use crate::text::lasted;

const MORE: &str = "\
The command asks a member of the group for another number of shards. All instances then end the
terms of the old units, and take the new ones of the next generation. For a moment no unit has an
owner. No instance has to restart. Write the new number into the settings of all instances
afterwards: a group that is made anew has that.

A key belongs to another shard then, and `term.store()` of each unit begins empty: docs/groups.md.
Fewer shards are possible in the same way. Where the group has that number already, the command
waits for owners, and writes nothing.

Exit codes: those of `nats-elect --help`. 0 if all new units have owners; with --no-wait: if the
group has the new number. 3 also if no instance that answers takes part in the group. 4 if the group
can't have that number. 5 also if new units have no owner after --wait-timeout. They get them later

Examples:
  nats-elect group grow partitions 512
  nats-elect group grow partitions 512 --yes --no-wait    for scripts";

/// Give a sharded group another number of shards, more or fewer
///
/// Every unit of the group ends and begins anew, in a new generation. See `nats-elect group show` for
/// the present number.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct Grow {
    /// The group
    group: GroupName,

    /// The new number of shards, from 1 to 65536
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_536))]
    shards: u32,

    /// Do not ask for a confirmation, for scripts
    #[arg(short, long)]
    yes: bool,

    /// End when the group has the new number
    #[arg(long)]
    no_wait: bool,

    /// How long to wait at most until the new units have owners
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5m")]
    wait_timeout: Duration,
}

impl Grow {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        can_be_confirmed(
            self.yes,
            "--yes grows the group without a confirmation: all its units end and begin anew",
        )?;
        let (group, shards) = (self.group.as_str(), self.shards);
        let observer = observer(shared).await?;
        let all = observer.groups(Duration::ZERO).await?;
        let found = find(&all, group)?;
        let before = found.shards.ok_or_else(|| {
            Failure::refused(match found.kind {
                Some(_) => format!("group {group:?} has named units, and no number of shards"),
                None => format!("group {group:?} has no map that is understood"),
            })
        })?;
        let written = before != shards;
        if written {
            if !self.yes {
                let what =
                    format!("All {before} units of {group} end, and {shards} new ones begin.");
                confirm(&format!("{what} Go on?")).await?;
            }
            let asking = async |admin: AdminClient| self.resize(&admin, shared).await;
            operating(&shared.config()?, shared.whose(), asking).await?;
        }
        let followed = observer.follow_groups()?;
        let wait = Wait::new(output);
        let grows = followed.wait_until(|it| {
            let now = Now::of(it, group);
            let has_it = now.shards == Some(shards);
            if has_it && !self.no_wait {
                wait.tell(&now.words());
            }
            has_it && (self.no_wait || now.is_done())
        });
        let in_time = tokio::time::timeout(self.wait_timeout, grows).await;
        let now = Now::of(&followed, group);
        let done = now.shards == Some(shards) && now.is_done();
        let told = json!({
            "group": group, "shards": shards, "before": before, "generation": now.generation,
            "written": written, "unowned": now.unowned, "changing": now.changing, "done": done,
        });
        let has = if written { "has" } else { "already has" };
        let has = format!(
            "{group} {has} {shards} shards, in generation {}",
            now.generation
        );
        let owned = done.then(|| "all of them have owners".to_owned());
        output.tell(&told, [has].into_iter().chain(owned))?;
        if in_time.is_ok() {
            return Ok(0);
        }
        let after = lasted(self.wait_timeout);
        let what = format!(
            "after {after} not all of the new units have owners: {}",
            now.words()
        );
        Err(Failure::unreachable(what).advice(
            "the members go on; `nats-elect group explain GROUP` says for whom units wait, and the same command waits again",
        ))
    }

    /// Asks one instance after the other, until one has given the group the number.
    async fn resize(&self, admin: &AdminClient, shared: &Shared) -> Result<(), Failure> {
        let mut failure = None;
        for instance in everyone(admin, shared.patience()).await? {
            let group = self.group.as_str();
            match admin.resize_group(&instance, group, self.shards).await {
                Ok(()) => return Ok(()),
                Err(error) if takes_no_part(&error) => {}
                // Another one may know more of the group, or answer.
                Err(error) => failure = Some(Failure::from(&error)),
            }
        }
        Err(failure.unwrap_or_else(|| {
            let group = &self.group;
            let what = format!("no instance that answers takes part in a group {group:?}");
            Failure::not_found(what).advice("a group grows while a member of it runs")
        }))
    }
}

/// How far the group has come.
#[derive(Default)]
struct Now {
    shards: Option<u32>,
    generation: u32,
    unowned: usize,
    changing: usize,
}

impl Now {
    fn of(followed: &FollowedGroups, group: &str) -> Self {
        let all = followed.groups().unwrap_or_default();
        let Some(group) = all.groups.get(group) else {
            return Self::default();
        };
        let changing = group.count(UnitStanding::Changing);
        Self {
            shards: group.shards,
            generation: group.generation,
            unowned: group.unit_count() - group.count(UnitStanding::Owned) - changing,
            changing,
        }
    }

    const fn is_done(&self) -> bool {
        self.unowned == 0 && self.changing == 0
    }

    fn words(&self) -> String {
        format!(
            "{} units have no owner, {} wait for former ones",
            self.unowned, self.changing
        )
    }
}
