//! What a drill is to be.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::fault::Kind;
use super::shards::Shards;

/// The Key-Value bucket of the drill.
pub const BUCKET: &str = "chaos";
/// Nodes of the NATS cluster, and replicas of the bucket.
pub const NODES: usize = 3;

/// Everything that is chosen beforehand.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// How long faults go on.
    pub length: Duration,
    pub instances: usize,
    pub roles: Vec<Role>,
    /// The sharded group beside the roles.
    pub shards: Option<Shards>,
    pub faults: Vec<Kind>,
    /// Where everything is written to. What is there is removed.
    pub out: PathBuf,
    pub sabotage: Option<Sabotage>,
    /// Whether instances have companions.
    pub last_wills: bool,
    pub launch: Launch,
    /// The `nats-elect` whose `serve` looks on.
    pub serve: Option<PathBuf>,
}

/// A role and the length of its leases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    pub name: String,
    pub ttl: Duration,
}

/// How this program starts itself as an instance.
#[derive(Clone, Debug)]
pub struct Launch {
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

/// Ways to make the histories false, each of which the checker must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Sabotage {
    /// The ends of handlers are recorded three seconds late.
    Overlap,
    /// Before each term another one of a greater fencing token is recorded.
    Token,
    /// Each term records a count that it has not done.
    Work,
    /// After the faults every instance stands still.
    Stuck,
}

/// What roles are called.
const NAMES: [&str; 3] = ["scheduler", "network", "metrics"];

impl Plan {
    /// Names of the instances, by index.
    pub fn instance_names(&self) -> Vec<String> {
        (1..=self.instances).map(|n| format!("node-{n}")).collect()
    }

    /// The log of an instance, of all its processes.
    pub fn log_of(&self, instance: &str) -> PathBuf {
        self.out.join(format!("{instance}.log"))
    }

    /// Where the instances write.
    pub fn folders(&self) -> Folders {
        Folders::below(&self.out)
    }
}

/// Where the instances write.
#[derive(Clone, Debug)]
pub struct Folders {
    /// What each process wrote down of its roles,
    pub roles: PathBuf,
    /// and of its shards.
    pub shards: PathBuf,
}

impl Folders {
    pub fn below(out: &Path) -> Self {
        Self {
            roles: out.join("roles"),
            shards: out.join("shards"),
        }
    }
}

impl Role {
    /// `count` roles: all have leases of `ttl` but the last, which has the default lease.
    pub fn several(count: usize, ttl: Duration) -> Vec<Self> {
        let default = nats_elect::RoleConfig::default().settings();
        let longest = default.map_or(ttl, |settings| settings.ttl);
        let role = |n: usize| Self {
            name: NAMES
                .get(n)
                .map_or_else(|| format!("role-{}", n + 1), ToString::to_string),
            ttl: if n + 1 == count { longest } else { ttl },
        };
        (0..count).map(role).collect()
    }

    /// How long the role may be without a leader once NATS takes writes, and it and the role's key
    /// are left alone. A lease is watched to its end; if the key turns out to be purged then, of
    /// which nobody was told, another one. A candidate that was refused for long asks every 5 s
    /// only, and may first have to find a node that answers.
    pub fn patience(&self) -> Duration {
        self.ttl * 2 + Duration::from_secs(10)
    }
}
