//! `create-bucket`: makes the bucket of the elections, as a manager makes it.

use clap::{Args, ValueEnum};
use nats_elect::{Error, History, ManagerConfig, RoleManager, StopOptions, Storage};

use crate::connect::review;
use crate::doctor::bucket;
use crate::doctor::findings::Findings;
use crate::doctor::server;
use crate::exit::{Failure, Outcome};
use crate::line::Line;
use crate::options::Shared;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  nats-elect create-bucket --replicas 3
  nats-elect create-bucket --bucket leaders --creds admin.creds
  nats-elect create-bucket --json | jq '.checks[] | select(.verdict != \"ok\")'";

/// Create the bucket of the elections, if it does not exist
///
/// The new bucket has the settings that a manager with `bucket_auto_create` gives it: the last value
/// of each key, no limits, no expiry, no roll-ups (`nats kv del` works in it, `nats kv purge` does
/// not), and sequences that no deleted bucket had. A bucket that exists stays as it is. Then the
/// command checks the settings as `doctor` does, and prints the result.
///
/// A stream keeps the leader changes, for `nats-elect history`: a week of them, at most 30,000. It is
/// made for a bucket that exists, too.
///
/// Instances then need no permission to create either. The user of deploy/nats/admin.conf has those
/// permissions.
///
/// The exit code is 0 if elections can be held in the bucket, 1 if not, 4 if this user may not
/// create it, and 5 if NATS does not answer.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct CreateBucket {
    /// The number of servers that store it, 1 to 5. Three survive the loss of one [default: 1]
    #[arg(long, value_name = "N")]
    replicas: Option<usize>,

    /// Where the servers store it [default: file]
    #[arg(long, value_name = "WHERE", value_enum)]
    storage: Option<Kept>,
}

/// Where a bucket is kept.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kept {
    /// On disk
    File,
    /// In memory. A restart of all its servers loses the leaders
    Memory,
}

impl CreateBucket {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let config = self.config(shared.config()?)?;
        let line = Line::connect(&config, None).await?;
        if let Some(error) = server::too_old(&line) {
            return Err(error.into());
        }
        let mut findings = Findings::new(output);
        let name = &config.bucket;
        let patience = shared.patience();
        let look = async |client, name: String| Ok(review(&client, &name, patience).await);
        let exists = matches!(shared.reading(look).await?, Some(Some(_)));
        // It makes the stream of the history also for a bucket that is there.
        let made = make(config.clone()).await;
        if exists {
            findings.skipped(
                "created",
                format!("bucket {name:?} exists already; unchanged"),
            );
        } else {
            made?;
            findings.ok("created", format!("bucket {name:?}"));
        }
        if bucket::check(&line, name, &[], &mut findings)
            .await
            .is_some()
        {
            tell_history(shared, &mut findings).await;
        }
        findings.sum_up(false)
    }

    /// For a manager that makes the bucket with its history, and nothing else.
    fn config(&self, mut config: ManagerConfig) -> Result<ManagerConfig, Failure> {
        config.bucket_auto_create = true;
        // Without it no stream is made.
        config.events.publish = true;
        config.admin.enabled = false;
        config.last_will.enabled = false;
        if let Some(replicas) = self.replicas {
            config.replicas = replicas;
        }
        config.storage = match self.storage {
            Some(Kept::File) => Storage::File,
            Some(Kept::Memory) => Storage::Memory,
            None => config.storage,
        };
        config.validate()?;
        Ok(config)
    }
}

/// Says whether leader changes are kept.
async fn tell_history(shared: &Shared, findings: &mut Findings) {
    let find = async |client, bucket: String| Ok(History::open(client, &bucket).await?);
    match shared.reading(find).await {
        Ok(_) => findings.ok(
            "leader changes",
            "a stream keeps them, for `nats-elect history`",
        ),
        Err(failure) => findings.warn(
            "leader changes",
            format!("no history is kept: {}", failure.what),
            "deploy/nats/admin.conf has the permissions of a user that may make its stream",
        ),
    }
}

/// A manager without a role makes it when it starts.
async fn make(config: ManagerConfig) -> Result<(), Failure> {
    let manager = RoleManager::builder().config(config).start().await;
    let manager = manager.map_err(|error| match error {
        Error::PermissionDenied(_) => Failure::from(error).advice(
            "deploy/nats/admin.conf has the permissions of a user that may create the bucket",
        ),
        error => error.into(),
    })?;
    manager.stop(StopOptions::default()).await?;
    Ok(())
}
