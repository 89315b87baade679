//! What a manager and its companion tell each other: one JSON text on a line.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::model::bequests::Lease;
use crate::model::config::ManagerConfig;
use nats_elect_core::Bequest;
use nats_elect_core::group::{Epoch, Identity};
use nats_elect_core::heirs::Heirs;
use nats_elect_core::name::RoleName;
use nats_elect_core::release::ReleaseSecret;
use nats_elect_core::token::FencingToken;

/// What a manager tells its companion. It has secrets, so it has no `Debug`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToCompanion {
    Setup(Box<SetUp>),
    /// A term began, or its record or its heirs changed.
    Will(Box<Will>),
    /// The term of this lease ended in good order, or is given up.
    Forget(Of),
}

/// The lease that a term is of.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Of {
    Role(String),
    Member { epoch: String, identity: String },
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

/// What releases the present term of a lease.
#[derive(Serialize, Deserialize)]
pub(super) struct Will {
    pub of: Of,
    incarnation: Uuid,
    fencing_token: FencingToken,
    revision: u64,
    secret: String,
    line: String,
    lease_ms: u64,
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

impl Of {
    pub fn new(lease: &Lease) -> Self {
        match lease {
            Lease::Role(role) => Self::Role(role.to_string()),
            Lease::Member(identity) => Self::Member {
                epoch: identity.epoch().to_string(),
                identity: identity.to_string(),
            },
        }
    }

    /// Returns nothing if it can't be read.
    pub fn lease(&self) -> Option<Lease> {
        match self {
            Self::Role(role) => RoleName::new(role).ok().map(Lease::Role),
            Self::Member { epoch, identity } => {
                Identity::parse(identity, Epoch::parse(epoch)?).map(Lease::Member)
            }
        }
    }
}

impl Will {
    pub fn new(of: &Lease, bequest: &Bequest) -> Self {
        let Bequest {
            incarnation,
            fencing_token,
            revision,
            secret,
            line,
            lease,
        } = *bequest;
        Self {
            of: Of::new(of),
            incarnation,
            fencing_token,
            revision,
            secret: secret.expose(),
            line: line.to_string(),
            lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Returns nothing if the secret can't be read.
    pub fn bequest(&self) -> Option<Bequest> {
        Some(Bequest {
            incarnation: self.incarnation,
            fencing_token: self.fencing_token,
            revision: self.revision,
            secret: ReleaseSecret::parse(&self.secret)?,
            line: Heirs::parse(&self.line),
            lease: Duration::from_millis(self.lease_ms),
        })
    }
}

/// Returns a message as a line.
pub(super) fn line_of(message: &impl Serialize) -> String {
    let mut line = serde_json::to_string(message).unwrap_or_default();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use nats_elect_core::group::EpochKey;

    use super::*;

    #[test]
    fn a_bequest_is_read_as_it_was_told() {
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
        let member = Lease::Member(Identity {
            key: EpochKey::new([7; 32]),
            ttl: bequest.lease,
            release: bequest.secret.hash(),
        });
        let role = Lease::Role(RoleName::new("jobs").expect("a name"));
        for lease in [role, member] {
            let told = ToCompanion::Will(Box::new(Will::new(&lease, &bequest)));
            let line = line_of(&told);
            assert_eq!(line.find('\n'), Some(line.len() - 1));
            let Ok(ToCompanion::Will(will)) = serde_json::from_str(&line) else {
                panic!("{line}");
            };
            assert_eq!(will.of.lease(), Some(lease));
            assert_eq!(will.bequest(), Some(bequest));
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
