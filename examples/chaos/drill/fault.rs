//! The faults.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use ::drill::Moment;

/// A kind of fault.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An instance is killed (SIGKILL) and started again later.
    Kill,
    /// An instance stands still (SIGSTOP) for less than a lease.
    PauseShort,
    /// An instance stands still for longer than a lease.
    PauseLong,
    /// An instance is stopped gracefully (SIGTERM) and started again.
    Restart,
    /// A leader is asked to step down.
    StepDown,
    /// Nothing passes between an instance and NATS, and nothing is closed.
    BlackHole,
    /// An instance hears nothing from NATS, but is heard.
    Deaf,
    /// An instance hears NATS, but is not heard.
    Mute,
    /// An instance's connections are reset, and new ones refused.
    Reset,
    /// Everything between an instance and NATS takes longer.
    Slow,
    /// An instance's writes arrive, their confirmations do not.
    AcksLost,
    /// A role's key is deleted by hand.
    DeleteKey,
    /// A role's key is purged from the stream: no marker is left.
    PurgeKey,
    /// Somebody writes a record of his own over a role's key.
    ForeignRecord,
    /// The key of a group's unit is deleted by hand.
    DeleteUnit,
    /// It is purged from the stream.
    PurgeUnit,
    /// Somebody writes the record of another unit over it. It may name a living owner.
    ForeignUnit,
    /// The lease of a group's member that owns a unit is purged from the stream.
    PurgeMember,
    /// Somebody writes a record of his own over it.
    ForeignMember,
    /// The group's own record is purged from the stream.
    PurgeGroup,
    /// The bucket's stream is told to choose another leader.
    MoveStream,
    /// A NATS node is killed (SIGKILL) and started again later.
    KillServer,
    /// The NATS node that leads the bucket's stream is killed.
    KillStreamLeader,
    /// A NATS node stands still (SIGSTOP).
    PauseServer,
    /// A NATS node is stopped in order (SIGTERM) and started again.
    RestartServer,
    /// A NATS node sends its clients away, ends, and is started again.
    LameDuck,
    /// All NATS nodes are stopped at once and started again.
    RestartAll,
    /// Another stream takes all storage that the account may use, until it is deleted.
    FullAccount,
    /// The disk of all NATS nodes is full. Then there is room again, and they are restarted.
    FullDisk,
    /// The bucket is deleted by hand. The instances create it anew. No process starts until the
    /// leases on the old one are over.
    RecreateBucket,
}

/// What a fault of a kind is done to. Two faults that act on the same thing never do so at one
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The process of an instance.
    Process,
    /// The network of an instance.
    Network,
    /// A role.
    Role,
    /// The group: one of its units, the owner of that, or its own record.
    Group,
    /// The stream.
    Stream,
    /// NATS nodes, or what all of them need to take a write: never two at once, so that the cluster
    /// keeps its quorum.
    Server,
}

/// One fault, as it happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub kind: Kind,
    /// An instance, a role, a shard, a node.
    pub target: String,
    pub from: Moment,
    /// When it was undone; the same as `from` where nothing is to be undone.
    pub until: Moment,
    pub outcome: Outcome,
}

/// Whether a fault was seen to take effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Done,
    /// It did not: why.
    Missed(String),
}

impl Kind {
    /// Its name on the command line.
    pub fn name(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        value.map_or_else(String::new, |it| it.get_name().to_owned())
    }

    /// All of them.
    pub fn all() -> &'static [Self] {
        clap::ValueEnum::value_variants()
    }

    /// Its initials, for places where there is little room.
    pub fn code(self) -> String {
        let name = self.name().to_uppercase();
        name.split('-').map(|word| &word[..1]).collect()
    }

    /// What it is done to.
    pub const fn subject(self) -> Subject {
        match self {
            Self::Kill | Self::PauseShort | Self::PauseLong | Self::Restart => Subject::Process,
            Self::BlackHole
            | Self::Deaf
            | Self::Mute
            | Self::Reset
            | Self::Slow
            | Self::AcksLost => Subject::Network,
            Self::StepDown | Self::DeleteKey | Self::PurgeKey | Self::ForeignRecord => {
                Subject::Role
            }
            Self::DeleteUnit
            | Self::PurgeUnit
            | Self::ForeignUnit
            | Self::PurgeMember
            | Self::ForeignMember
            | Self::PurgeGroup => Subject::Group,
            Self::MoveStream => Subject::Stream,
            _ => Subject::Server,
        }
    }

    /// The shortest and the longest time for which it lasts, where `ttl` is the shortest lease.
    pub fn lasts(self, ttl: Duration) -> (Duration, Duration) {
        let ms = Duration::from_millis;
        match self {
            Self::Kill => (ms(300), ttl * 2),
            Self::PauseShort => (ttl / 10, ttl * 7 / 10),
            Self::PauseLong => (ttl * 5 / 4, ttl * 3),
            Self::Restart => (ms(200), ttl),
            Self::BlackHole | Self::Deaf | Self::Mute | Self::Reset => (ttl / 2, ttl * 3),
            Self::Slow | Self::AcksLost | Self::FullAccount | Self::FullDisk => (ttl, ttl * 3),
            Self::KillServer | Self::KillStreamLeader | Self::RestartServer => (ms(500), ms(6000)),
            Self::PauseServer => (ms(500), ms(8000)),
            Self::LameDuck => (ms(4000), ms(7000)),
            Self::RestartAll => (ms(200), ms(2000)),
            _ => (Duration::ZERO, Duration::ZERO),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

impl Fault {
    /// Whether it took effect.
    pub fn is_done(&self) -> bool {
        self.outcome == Outcome::Done
    }

    /// Whether it was done to an instance: to its process or its network.
    pub fn is_of_instance(&self) -> bool {
        matches!(self.kind.subject(), Subject::Process | Subject::Network)
    }

    /// Whether it can matter to who leads a role that this instance leads, or led last.
    pub fn concerns(&self, role: &str, leader: Option<&str>) -> bool {
        let in_place = match self.kind.subject() {
            Subject::Process | Subject::Network => leader == Some(&self.target),
            Subject::Role => self.target == role,
            Subject::Group => false,
            Subject::Stream | Subject::Server => true,
        };
        self.is_done() && in_place
    }
}
