//! `group grow`: gives a sharded group another number of shards.

use std::cell::Cell;
use std::time::Duration;

use async_nats::Client;
use clap::Args;
use nats_elect::{GroupGrowth, GrowthError, GrowthProgress};
use serde::Serialize;

use crate::confirm::{can_be_confirmed, confirm};
use crate::exit::{Code, Failure, Outcome};
use crate::names;
use crate::options::{Shared, duration};
use crate::output::Output;
use crate::progress::Wait;
use crate::text::lasted;

/// So many units a bucket is fit for, about.
const FIT: usize = 20_000;

const MORE: &str = "\
The command creates the units of the group's next generation, waits a minute until members may
build on them, and writes the group's record. Until then nothing changes. Then all instances end
the terms of the old units, close these for good, and take the new ones. For a moment no unit has
an owner. No instance has to restart, and none has to run. Write the new number into the settings
of all instances afterwards.

A key belongs to another shard then, and `term.store()` of each unit begins empty: docs/groups.md.
Fewer shards are possible in the same way. If the command is interrupted, the same command goes
on.

The user needs the permissions of deploy/nats/grow.conf.

Exit codes: those of `nats-elect --help`. 0 if all new units have owners; with --no-wait: if the
group's record says the new number. 4 if the group can't have that number now: the message says
why, and what to do. 5 also if new units have no owner after --wait-timeout. They get them later

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
    #[arg(value_parser = names::group)]
    group: String,

    /// The new number of shards, from 1 to 65536
    #[arg(value_parser = shards)]
    shards: u32,

    /// Do not ask for a confirmation, for scripts
    #[arg(short, long)]
    yes: bool,

    /// Grow also if the bucket has more than about 20,000 units then, or if a growth to more shards
    /// was begun and has not ended
    #[arg(long)]
    force: bool,

    /// End when the group's record says the new number
    #[arg(long)]
    no_wait: bool,

    /// How long to wait at most until the new units have owners
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5m")]
    wait_timeout: Duration,
}

/// What came of it, for programs.
#[derive(Serialize)]
struct Told<'a> {
    group: &'a str,
    shards: u32,
    before: u32,
    generation: u32,
    /// Whether this command wrote the group's record.
    written: bool,
    unclosed: Option<usize>,
    unowned: Option<usize>,
    done: bool,
}

impl Grow {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        can_be_confirmed(
            self.yes,
            "--yes grows the group without a confirmation: all its units end and begin anew",
        )?;
        let growing = async |client, bucket: String| self.grow(client, &bucket, output).await;
        shared.reading(growing).await
    }

    /// Refuses what takes --force.
    fn refuse(&self, growth: &GroupGrowth, bucket: &str) -> Result<(), Failure> {
        let (group, shards) = (&self.group, self.shards);
        let units = growth.units_afterwards();
        if !growth.is_written() && units > FIT {
            let what = format!(
                "bucket {bucket} would have {units} units, those of earlier generations and of other groups among them, and is fit for about {FIT}"
            );
            return Err(Failure::refused(what).advice(
                "nothing was done. Each instance that starts reads them all before it owns any; --force grows the group all the same",
            ));
        }
        match growth.prepared() {
            Some(prepared) if prepared.shards > shards => {
                let generation = growth.generation();
                let what = format!(
                    "{} units of generation {generation} exist already, for {} shards at least: somebody has {group} grow to another number, or did not end that",
                    prepared.count, prepared.shards
                );
                Err(Failure::refused(what).advice(format!(
                    "nothing was done. If somebody does, `nats-elect group show {group}` says generation {generation} within two minutes. \
                     If not, give their number to go on there, or --force to have {shards} shards: the other keys are left behind"
                )))
            }
            _ => Ok(()),
        }
    }

    async fn grow(&self, client: Client, bucket: &str, output: Output) -> Outcome {
        let (group, shards) = (&self.group, self.shards);
        let begun = GroupGrowth::begin(client, bucket, group, shards).await;
        let mut growth = begun.map_err(failure)?;
        let goes_on = growth.is_written();
        let units = growth.units_afterwards();
        if !self.force {
            self.refuse(&growth, bucket)?;
        }
        if !goes_on && !self.yes {
            confirm(&format!(
                "All {} units of {group} end, and {shards} new ones begin: the bucket has {units} then, and is fit for about {FIT}. Go on?",
                growth.before()
            ))
            .await?;
        }
        let (wait, last) = (Wait::new(output), Cell::new(None));
        let told = |step| {
            last.set(Some(step));
            wait.tell(&words(step));
        };
        growth.write(told).await.map_err(failure)?;
        let mut is_done = false;
        if !self.no_wait {
            let followed = tokio::time::timeout(self.wait_timeout, growth.follow(told)).await;
            if let Ok(followed) = followed {
                followed.map_err(failure)?;
                is_done = true;
            }
        }
        let left = match last.get() {
            Some(GrowthProgress::Changing { unclosed, unowned }) => Some((unclosed, unowned)),
            _ => None,
        };
        let generation = growth.generation();
        let told = Told {
            group,
            shards,
            before: growth.before(),
            generation,
            written: !goes_on,
            unclosed: left.map(|(unclosed, _)| unclosed),
            unowned: left.map(|(_, unowned)| unowned),
            done: is_done,
        };
        let has = format!("{group} has {shards} shards now, in generation {generation}");
        let all = is_done.then(|| "all of them have owners".to_owned());
        output.tell(&told, [has].into_iter().chain(all))?;
        if is_done || self.no_wait {
            return Ok(0);
        }
        let what = format!(
            "after {} not all of the new units have owners: {}",
            lasted(self.wait_timeout),
            last.get().map(words).unwrap_or_default()
        );
        Err(Failure::unreachable(what).advice(
            "the members go on; `nats-elect group show GROUP` says what is missing, and the same command waits again",
        ))
    }
}

fn shards(text: &str) -> Result<u32, &'static str> {
    let shards = text.parse().ok();
    let shards = shards.filter(|it| (1..=65_536).contains(it));
    shards.ok_or("a group has 1 to 65536 shards")
}

fn words(progress: GrowthProgress) -> String {
    match progress {
        GrowthProgress::Creating { missing } => format!("creating {missing} units"),
        GrowthProgress::Ageing { left } => format!(
            "{} until members may build on the new units; nothing changes before",
            lasted(left)
        ),
        GrowthProgress::Changing { unclosed, unowned } => {
            format!("{unclosed} old units are not closed, {unowned} new ones have no owner")
        }
        _ => "going on".into(),
    }
}

fn failure(error: GrowthError) -> Failure {
    let advice = match &error {
        GrowthError::NoSuchGroup(_) => Some("`nats-elect group ls` lists the groups"),
        GrowthError::RecordMissing(_) | GrowthError::NotUnderstood(_) => Some(
            "nothing was done. Members that know the record write it again, within five minutes. If none does, see the runbook: write a group's record again",
        ),
        GrowthError::InTheWay { .. } => Some(
            "the group goes on as before. Find out who wrote that, write {\"v\":1} there instead (`nats kv put`), and run the command again",
        ),
        GrowthError::StillGrowing { .. }
        | GrowthError::OtherGrowth { .. }
        | GrowthError::Changed(_) => Some(
            "`nats-elect group show GROUP` says what stands there now. If somebody else has it grow to another number, agree on one first",
        ),
        _ => None,
    };
    let code = match &error {
        GrowthError::Name(_) | GrowthError::Shards(_) => Code::Usage,
        GrowthError::NoSuchGroup(_) => Code::NotFound,
        _ => Code::Refused,
    };
    let what = error.to_string();
    match error {
        GrowthError::Bucket(error) => error.into(),
        _ => Failure::new(code, what).advised(advice),
    }
}
