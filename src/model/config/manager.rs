//! What users set for a whole process.

use std::fmt;
use std::time::Duration;

use async_nats::ServerAddr;
use serde::{Deserialize, Deserializer, Serialize};

use super::ConfigError;
use super::rules::{DAY, ensure, range};
use crate::model::name::{BucketName, InstanceId};

/// How a process takes part in elections: which NATS, which bucket, under what name.
///
/// Its `Debug` form shows no user names and passwords of server addresses; its serialized form does.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ManagerConfig {
    /// Addresses of NATS servers, in a file a single string or a list. Default `["nats://127.0.0.1:4222"]`; at least one.
    /// The client learns of the cluster's other servers from the first that answers.
    #[serde(deserialize_with = "one_or_many")]
    pub servers: Vec<String>,

    /// The Key-Value bucket that holds the roles. Default `leaders`; 1 to 255 ASCII letters, digits, `-` and `_`.
    pub bucket: String,

    /// What people call this instance. Unset: host name, process id and a short random part.
    /// 1 to 255 bytes of printable UTF-8 without white space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,

    /// How long starting may wait for NATS before it fails. Default 30 s; 1 ms to a day.
    #[serde(with = "humantime_serde")]
    pub start_timeout: Duration,

    /// Whether a missing bucket is created. Default false: a mistyped name or account should fail, not elect a second leader there.
    pub bucket_auto_create: bool,

    /// Replicas of a bucket that is created here. Default 1; 1 to 5, which is the server's limit. Use 3 in a cluster.
    pub replicas: usize,

    /// Storage of a bucket that is created here. Default [`Storage::File`].
    pub storage: Storage,
}

impl Default for ManagerConfig {
    fn default() -> Self {
        Self {
            servers: vec!["nats://127.0.0.1:4222".into()],
            bucket: "leaders".into(),
            instance_id: None,
            start_timeout: Duration::from_secs(30),
            bucket_auto_create: false,
            replicas: 1,
            storage: Storage::default(),
        }
    }
}

/// Where NATS keeps a bucket that is created here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Storage {
    /// On disk: roles and fencing survive a restart of NATS.
    #[default]
    File,
    /// In memory: a restart of all replicas forgets who led and how far fencing had come.
    Memory,
}

impl ManagerConfig {
    /// Checks every rule.
    ///
    /// # Errors
    ///
    /// The first rule that is broken, with the field, its value and the rule.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ensure(!self.servers.is_empty(), "servers", "[]", || {
            "must name at least one server".into()
        })?;
        for (i, server) in self.servers.iter().enumerate() {
            let address: Result<ServerAddr, _> = server.parse();
            if let Err(error) = address {
                let value = format!("{:?}", without_credentials(server));
                return Err(ConfigError::new(
                    format!("servers[{i}]"),
                    value,
                    format!("must be an address like nats://host:4222 ({error})"),
                ));
            }
        }
        BucketName::new(&self.bucket).map_err(|error| {
            ConfigError::new(
                "bucket",
                format!("{:?}", error.name),
                name_rule(error.problem, error.rule),
            )
        })?;
        if let Some(id) = &self.instance_id {
            InstanceId::new(id).map_err(|error| {
                ConfigError::new(
                    "instance_id",
                    format!("{:?}", error.name),
                    name_rule(error.problem, error.rule),
                )
            })?;
        }
        range(
            "start_timeout",
            self.start_timeout,
            Duration::from_millis(1),
            DAY,
        )?;
        ensure(
            (1..=5).contains(&self.replicas),
            "replicas",
            self.replicas,
            || "must be from 1 to 5".into(),
        )
    }
}

fn name_rule(problem: impl fmt::Display, rule: &str) -> String {
    format!("{rule} ({problem})")
}

impl fmt::Debug for ManagerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<_> = self
            .servers
            .iter()
            .map(|server| without_credentials(server))
            .collect();
        f.debug_struct("ManagerConfig")
            .field("servers", &servers)
            .field("bucket", &self.bucket)
            .field("instance_id", &self.instance_id)
            .field("start_timeout", &self.start_timeout)
            .field("bucket_auto_create", &self.bucket_auto_create)
            .field("replicas", &self.replicas)
            .field("storage", &self.storage)
            .finish()
    }
}

/// An address for people to see. Whatever stands before an `@` may be a password, also in an address that does not parse.
fn without_credentials(server: &str) -> String {
    let Some((before, host)) = server.rsplit_once('@') else {
        return server.to_owned();
    };
    let scheme = before.split_once("://").map_or("", |(scheme, _)| scheme);
    let separator = if scheme.is_empty() { "" } else { "://" };
    format!("{scheme}{separator}***@{host}")
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a server address or a list of them")]
    enum Servers {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Servers::deserialize(deserializer)? {
        Servers::One(server) => vec![server],
        Servers::Many(servers) => servers,
    })
}
