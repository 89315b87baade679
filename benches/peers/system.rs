//! What is measured side by side.

use serde::{Deserialize, Serialize};

/// A system with a way to use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum System {
    /// This library.
    Ours,
    /// This library, on a server that syncs each write to its disk, as the others do.
    OursSynced,
    /// This library, with a companion process.
    OursWithWill,
    /// A NATS key by hand.
    Nats,
    /// etcd's Election API.
    Etcd,
    /// ZooKeeper's recipe.
    ZooKeeper,
}

impl System {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "nats-elect",
            Self::OursSynced => "nats-elect, each write synced",
            Self::OursWithWill => "nats-elect, last will",
            Self::Nats => "raw NATS",
            Self::Etcd => "etcd, Election API",
            Self::ZooKeeper => "ZooKeeper, recipe",
        }
    }

    /// Whether it is this library.
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::Ours | Self::OursSynced | Self::OursWithWill)
    }
}
