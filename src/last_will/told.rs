//! What a manager and its companion tell each other: one JSON text on a line.

use serde::{Deserialize, Serialize};

use crate::model::bequests::{Lease, Will};
use crate::model::config::ManagerConfig;

/// What a manager tells its companion. It has secrets, so it has no `Debug`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToCompanion {
    Setup(Box<SetUp>),
    /// A term began, or its record or its heirs changed.
    Will(Lease, Will),
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

/// Returns a message as a line.
pub(super) fn line_of(message: &impl Serialize) -> String {
    let mut line = serde_json::to_string(message).unwrap_or_default();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;
    use nats_elect_core::Bequest;
    use nats_elect_core::assignment::Epoch;
    use nats_elect_core::name::{GroupName, RoleName};
    use nats_elect_core::release::ReleaseSecret;
    use nats_elect_core::token::FencingToken;

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
        let ends = Will::Epoch {
            bucket: u64::MAX,
            ttl: bequest.lease,
        };
        for (lease, will) in [(role, Will::Term(bequest)), (member, ends)] {
            let told = ToCompanion::Will(lease.clone(), will);
            let line = line_of(&told);
            assert_eq!(line.find('\n'), Some(line.len() - 1));
            let Ok(ToCompanion::Will(of, told)) = serde_json::from_str(&line) else {
                panic!("{line}");
            };
            assert_eq!(of, lease);
            assert_eq!(told, will);
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
