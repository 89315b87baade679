//! What a manager and its companion tell each other: one JSON text on a line.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::model::bequests::{self, Lease};
use crate::model::config::ManagerConfig;
use nats_elect_core::Bequest;
use nats_elect_core::heirs::Heirs;
use nats_elect_core::release::ReleaseSecret;
use nats_elect_core::token::FencingToken;

/// What a manager tells its companion. It has secrets, so it has no `Debug`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToCompanion {
    Setup(Box<SetUp>),
    /// A term began, or its record or its heirs changed.
    Will(Lease, Box<Will>),
    /// The term of this lease ended in good order, or is given up.
    Forget(Lease),
}

#[derive(Serialize, Deserialize)]
pub(super) struct SetUp {
    /// The process to watch.
    pub parent: u32,
    /// No other process may look into the parent, nor into the companion: see `PR_SET_DUMPABLE` in
    /// prctl(2).
    pub is_private: bool,
    pub instance_id: String,
    pub config: ManagerConfig,
}

/// What frees the present term of a lease.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Will {
    Term {
        incarnation: Uuid,
        fencing_token: FencingToken,
        revision: u64,
        secret: String,
        line: String,
        lease_ms: u64,
    },
    Epoch {
        bucket: u64,
        ttl_ms: u64,
    },
}

/// What a companion tells its manager.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromCompanion {
    /// It watches over the process. Before this no term may count on it.
    Watching,
    /// It can't watch over the process, for this reason.
    Failed(String),
    Connected,
    /// It lost the bucket, for this reason.
    Disconnected(String),
}

impl Will {
    pub fn new(will: &bequests::Will) -> Self {
        match *will {
            bequests::Will::Term(Bequest {
                incarnation,
                fencing_token,
                revision,
                secret,
                line,
                lease,
            }) => Self::Term {
                incarnation,
                fencing_token,
                revision,
                secret: secret.expose(),
                line: line.to_string(),
                lease_ms: millis(lease),
            },
            bequests::Will::Epoch { bucket, ttl } => Self::Epoch {
                bucket,
                ttl_ms: millis(ttl),
            },
        }
    }

    /// Returns nothing if the secret can't be read.
    pub fn read(&self) -> Option<bequests::Will> {
        Some(match self {
            Self::Term {
                incarnation,
                fencing_token,
                revision,
                secret,
                line,
                lease_ms,
            } => bequests::Will::Term(Bequest {
                incarnation: *incarnation,
                fencing_token: *fencing_token,
                revision: *revision,
                secret: ReleaseSecret::parse(secret)?,
                line: Heirs::parse(line),
                lease: Duration::from_millis(*lease_ms),
            }),
            Self::Epoch { bucket, ttl_ms } => bequests::Will::Epoch {
                bucket: *bucket,
                ttl: Duration::from_millis(*ttl_ms),
            },
        })
    }
}

fn millis(lasts: Duration) -> u64 {
    u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a message as a line.
pub(super) fn line_of(message: &impl Serialize) -> String {
    let mut line = serde_json::to_string(message).unwrap_or_default();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use nats_elect_core::assignment::Epoch;
    use nats_elect_core::name::{GroupName, RoleName};

    #[test]
    fn a_will_is_read_as_it_was_told() {
        let bequest = Bequest {
            incarnation: Uuid::from_u128(1),
            fencing_token: FencingToken {
                epoch: u64::MAX,
                sequence: 6,
            },
            revision: 7,
            secret: ReleaseSecret::new(17),
            line: [2, 3].map(Uuid::from_u128).into_iter().collect(),
            lease: Duration::from_secs(15),
        };
        let group = GroupName::new("partitions").expect("a name");
        let member = Lease::Member(group, Epoch::new([7; 16]));
        let role = Lease::Role(RoleName::new("jobs").expect("a name"));
        let ends = bequests::Will::Epoch {
            bucket: u64::MAX,
            ttl: bequest.lease,
        };
        for (lease, will) in [(role, bequests::Will::Term(bequest)), (member, ends)] {
            let told = ToCompanion::Will(lease.clone(), Box::new(Will::new(&will)));
            let line = line_of(&told);
            assert_eq!(line.find('\n'), Some(line.len() - 1));
            let Ok(ToCompanion::Will(of, told)) = serde_json::from_str(&line) else {
                panic!("{line}");
            };
            assert_eq!(of, lease);
            assert_eq!(told.read(), Some(will));
        }
    }

    #[test]
    fn a_setup_carries_secrets() {
        let mut config = ManagerConfig::default();
        config.auth.token = Some("s3cret".into());
        let told = ToCompanion::Setup(Box::new(SetUp {
            parent: 1,
            is_private: true,
            instance_id: "n".into(),
            config: config.clone(),
        }));
        let Ok(ToCompanion::Setup(read)) = serde_json::from_str(&line_of(&told)) else {
            panic!("no setup");
        };
        assert_eq!(read.config, config);
    }
}
