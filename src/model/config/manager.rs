//! The settings of a whole process.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use async_nats::ServerAddr;
use serde::{Deserialize, Deserializer, Serialize};

use super::access::{HIDDEN, validate_inbox_prefix};
use super::{
    AdminConfig, AuthConfig, ConfigError, EventsConfig, LastWillConfig, MemberConfig, TlsConfig,
    listed,
};
use nats_elect_core::application::MAX_APPLICATION_BYTES;
use nats_elect_core::config::{DAY, check_meta, ensure, range};
use nats_elect_core::name::{BucketName, InstanceId, NameError};
use nats_elect_core::setters;
use nats_elect_core::text::{beginning, printable};

/// How a process takes part in elections: the NATS servers, the bucket and the name of the
/// instance.
///
/// The `Debug` form shows no secrets, and no user names of server addresses. The serialized form
/// does.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ManagerConfig {
    /// Addresses of NATS servers. In a file this is a single string or a list. Default
    /// `["nats://127.0.0.1:4222"]`. At least one.
    ///
    /// The client learns of the cluster's other servers from the first one that answers. An address
    /// may contain the login (`nats://user:password@host`, or a token alone), if `auth` does not
    /// set one. The client uses the same login for other servers. WebSocket (`ws://`, `wss://`) is
    /// refused.
    #[serde(deserialize_with = "one_or_many")]
    pub servers: Vec<String>,

    /// The Key-Value bucket that holds the roles. Default `leaders`. 1 to 255 ASCII letters,
    /// digits, `-` and `_`.
    pub bucket: String,

    /// The name of the application, which its instances share. If unset: the name of the program's
    /// file; with `nats-elect exec` that of the command. 1 to 64 bytes of printable UTF-8 without white
    /// space. Behind `nats-elect agent` the default is always `nats-elect`, and with `exec -- sh -c` it
    /// is `sh`: set it there.
    ///
    /// It is in the records of roles and in the instance's status. An instance of another
    /// application that stands for the same role is warned of; starting fails if both set their
    /// names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,

    /// The name of this instance, in records, logs and metrics. No two running processes may share it.
    /// If unset: host name, process id and a short random part. 1 to 255 bytes of printable UTF-8 without white space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,

    /// Facts about this instance, for people and observers: a zone, a version. Default empty. At
    /// most 4 KiB as JSON. They are in its status, and in the records of its roles, where an entry of
    /// the role's own [`meta`](field@crate::RoleConfig::meta) wins.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub meta: BTreeMap<String, String>,

    /// How long starting may wait for NATS before it fails. Default 30 s. 1 ms to a day.
    #[serde(with = "humantime_serde")]
    pub start_timeout: Duration,

    /// Whether a missing bucket is created, also later. Default false: a mistyped name or account
    /// should fail, not elect a second leader there. Leave it off where `Term::store()` keeps data
    /// that matters.
    pub bucket_auto_create: bool,

    /// Replicas of a bucket that is created here. Default 1. 1 to 5, which is the server's limit.
    /// Use 3 in a cluster.
    pub replicas: usize,

    /// Storage of a bucket that is created here: `file`, the default, or `memory`.
    pub storage: Storage,

    /// How to authenticate. Default: as the server's address says.
    #[serde(skip_serializing_if = "AuthConfig::is_empty")]
    pub auth: AuthConfig,

    /// How the connection is encrypted.
    pub tls: TlsConfig,

    /// The prefix of reply subjects. The user may subscribe to it, followed by `.>`. Default
    /// `_INBOX`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inbox_prefix: Option<String>,

    /// Whether leader changes are published. Default: they are, and kept for a week where there is a
    /// stream.
    pub events: EventsConfig,

    /// Whether this instance can be operated over NATS, and on which subjects. Default: it can.
    pub admin: AdminConfig,

    /// Whether a companion process releases the roles when this process dies. Default: there is
    /// none.
    pub last_will: LastWillConfig,

    /// The lease that this instance keeps for the units that it owns, if it has groups.
    pub member: MemberConfig,
}

impl Default for ManagerConfig {
    fn default() -> Self {
        Self {
            servers: vec!["nats://127.0.0.1:4222".into()],
            bucket: "leaders".into(),
            application: None,
            instance_id: None,
            meta: BTreeMap::new(),
            start_timeout: Duration::from_secs(30),
            bucket_auto_create: false,
            replicas: 1,
            storage: Storage::default(),
            auth: AuthConfig::default(),
            tls: TlsConfig::default(),
            inbox_prefix: None,
            events: EventsConfig::default(),
            admin: AdminConfig::default(),
            last_will: LastWillConfig::default(),
            member: MemberConfig::default(),
        }
    }
}

/// Where NATS keeps a bucket that is created here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Storage {
    /// On disk. Roles and fencing survive a restart of NATS.
    #[default]
    File,
    /// In memory. A restart of all replicas loses the leaders and how far fencing had come.
    Memory,
}

setters!(ManagerConfig {
    bucket: impl Into<String> => bucket.into();
    application: impl Into<String> => Some(application.into());
    instance_id: impl Into<String> => Some(instance_id.into());
    start_timeout: Duration => start_timeout;
    replicas: usize => replicas;
    storage: Storage => storage;
    auth: AuthConfig => auth;
    tls: TlsConfig => tls;
    inbox_prefix: impl Into<String> => Some(inbox_prefix.into());
    events: EventsConfig => events;
    admin: AdminConfig => admin;
    last_will: LastWillConfig => last_will;
    member: MemberConfig => member;
});

/// The methods have the names and the meaning of those of
/// [`RoleManagerBuilder`](crate::RoleManagerBuilder).
impl ManagerConfig {
    /// Sets [`servers`](field@Self::servers): one URL, or several separated by commas.
    #[must_use]
    pub fn servers(mut self, servers: impl AsRef<str>) -> Self {
        self.servers = listed(servers.as_ref());
        self
    }

    /// Sets [`bucket_auto_create`](field@Self::bucket_auto_create): a missing bucket is created.
    #[must_use]
    pub const fn bucket_auto_create(mut self) -> Self {
        self.bucket_auto_create = true;
        self
    }

    /// Adds an entry to [`meta`](field@Self::meta), or replaces the one of that key.
    #[must_use]
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.meta.insert(key.into(), value.into());
        self
    }

    /// Checks every rule.
    ///
    /// # Errors
    ///
    /// Returns the first rule that is broken, with the field, its value and the rule.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ensure(
            !self.servers.is_empty(),
            "servers",
            "[]",
            "must name at least one server",
        )?;
        for (i, server) in self.servers.iter().enumerate() {
            let address = server.parse::<ServerAddr>();
            let problem = match &address {
                Ok(address) if address.host().is_empty() => "it has no host".to_owned(),
                Ok(address) if address.host().contains(',') => {
                    "several servers are a list".to_owned()
                }
                Ok(address) if matches!(address.scheme(), "ws" | "wss") => {
                    "WebSocket is not supported: name the port for NATS clients".to_owned()
                }
                Ok(_) => continue,
                Err(error) => error.to_string(),
            };
            return Err(ConfigError::new(
                format!("servers[{i}]"),
                format!("{:?}", beginning(&without_credentials(server))),
                format!("must be an address like nats://host:4222 ({problem})"),
            ));
        }
        BucketName::new(&self.bucket).map_err(|error| no_name("bucket", &error))?;
        if let Some(name) = &self.application {
            let is_plain = |it: &str| it == printable(it) && !it.contains(char::is_whitespace);
            ensure(
                (1..=MAX_APPLICATION_BYTES).contains(&name.len()) && is_plain(name),
                "application",
                format!("{:?}", beginning(name)),
                "must be 1 to 64 bytes of printable UTF-8 without white space",
            )?;
        }
        if let Some(id) = &self.instance_id {
            InstanceId::new(id).map_err(|error| no_name("instance_id", &error))?;
        }
        check_meta(&self.meta)?;
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
            "must be from 1 to 5",
        )?;
        self.auth.validate()?;
        self.tls.validate()?;
        if let Some(way) = self.auth.ways().first()
            && let Some(i) = self.servers.iter().position(|server| names_a_user(server))
        {
            return Err(ConfigError::new(
                *way,
                HIDDEN,
                format!("`servers[{i}]` has a login too: set it in one place"),
            ));
        }
        self.events.validate(&self.admin)?;
        self.member.settings()?;
        let inbox = self.inbox_prefix.as_deref();
        inbox.map_or(Ok(()), validate_inbox_prefix)?;
        self.admin.validate(inbox)
    }
}

/// Returns whether an address contains a login.
pub(super) fn names_a_user(server: &str) -> bool {
    let address = server.parse::<ServerAddr>();
    address.is_ok_and(|address| address.username().is_some())
}

pub(super) fn no_name(field: &str, error: &NameError) -> ConfigError {
    let rule = format!("{} ({})", error.rule, error.problem);
    ConfigError::new(field, format!("{:?}", error.name), rule)
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
            .field("application", &self.application)
            .field("instance_id", &self.instance_id)
            .field("meta", &self.meta)
            .field("start_timeout", &self.start_timeout)
            .field("bucket_auto_create", &self.bucket_auto_create)
            .field("replicas", &self.replicas)
            .field("storage", &self.storage)
            .field("auth", &self.auth)
            .field("tls", &self.tls)
            .field("inbox_prefix", &self.inbox_prefix)
            .field("events", &self.events)
            .field("admin", &self.admin)
            .field("last_will", &self.last_will)
            .field("member", &self.member)
            .finish()
    }
}

/// Returns an address for people to see. The text before an `@` may be a password, even in an
/// address that does not parse.
pub(super) fn without_credentials(server: &str) -> String {
    let Some((before, host)) = server.rsplit_once('@') else {
        return server.to_owned();
    };
    let is_scheme = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'+')
    };
    let scheme = before.split_once("://").map_or("", |(scheme, _)| scheme);
    // A password may contain slashes too.
    let scheme = if is_scheme(scheme) { scheme } else { "" };
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

#[cfg(test)]
mod tests;
