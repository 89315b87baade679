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

fn no_name(field: &str, error: &NameError) -> ConfigError {
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
mod tests {
    use super::*;

    fn refused(config: &ManagerConfig, field: &str, value: &str, rule: &str) {
        let error = config.validate().unwrap_err();
        assert_eq!((error.field.as_str(), error.value.as_str()), (field, value));
        assert!(error.rule.contains(rule), "{error}");
    }

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(ManagerConfig::default().validate(), Ok(()));
    }

    #[test]
    fn an_empty_file_gives_the_defaults() {
        let config: ManagerConfig = toml::from_str("").unwrap();
        assert_eq!(config, ManagerConfig::default());
    }

    #[test]
    fn the_servers_are_a_string_or_a_list() {
        let one: ManagerConfig = toml::from_str("servers = 'nats://a'").unwrap();
        assert_eq!(one.servers, ["nats://a"]);
        let two: ManagerConfig = toml::from_str("servers = ['nats://a', 'b:4223']").unwrap();
        assert_eq!(two.servers, ["nats://a", "b:4223"]);
        assert_eq!(two.validate(), Ok(()));
        let error = toml::from_str::<ManagerConfig>("servers = 4222").unwrap_err();
        assert!(
            error
                .to_string()
                .contains("expected a server address or a list of them"),
            "{error}"
        );
    }

    #[test]
    fn each_server_must_be_one_address() {
        let rule = "must be an address like nats://host:4222";
        let mut config = ManagerConfig {
            servers: vec![],
            ..ManagerConfig::default()
        };
        refused(&config, "servers", "[]", "must name at least one server");
        for bad in [
            "",
            "nats://",
            "http://host",
            "ws://host:443",
            "wss://host",
            "nats://host:port",
            "nats://a:4222,nats://b:4222",
            "a,b",
            "a b",
        ] {
            config.servers = vec!["nats://good".into(), bad.into()];
            refused(&config, "servers[1]", &format!("{bad:?}"), rule);
        }
    }

    #[test]
    fn passwords_appear_neither_in_errors_nor_in_debug_output() {
        for address in [
            "http://me:secret@host",
            "nats://me:se@secret@host",
            "me:secret@host:port",
            "nats://secret@ho st",
            "me:secret://x@ho st",
        ] {
            let config = ManagerConfig {
                servers: vec![address.into()],
                ..ManagerConfig::default()
            };
            if let Err(error) = config.validate() {
                let error = error.to_string();
                assert!(!error.contains("secret"), "{error}");
                assert!(error.contains("***@ho"), "{error}");
            }
            let debug = format!("{config:?}");
            assert!(!debug.contains("secret"), "{debug}");
        }
    }

    #[test]
    fn a_login_is_set_in_one_place_only() {
        let mut config = ManagerConfig {
            servers: vec!["nats://a".into(), "nats://me:secret@b".into()],
            ..ManagerConfig::default()
        };
        assert_eq!(config.validate(), Ok(()));
        config.auth.token = Some("secret".into());
        refused(&config, "auth.token", "***", "`servers[1]` has a login too");
        let error = config.validate().unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn an_error_cuts_a_long_address() {
        let config = ManagerConfig {
            servers: vec![format!("http://{}", "s".repeat(1 << 20))],
            ..ManagerConfig::default()
        };
        assert!(config.validate().unwrap_err().to_string().len() < 500);
    }

    #[test]
    fn names_obey_their_rules() {
        let mut config = ManagerConfig {
            bucket: "lead.ers".into(),
            ..ManagerConfig::default()
        };
        refused(&config, "bucket", "\"lead.ers\"", "it has '.' at byte 4");
        config.bucket = "b".into();
        config.instance_id = Some("node 1".into());
        refused(&config, "instance_id", "\"node 1\"", "without white space");
    }

    #[test]
    fn request_subjects_are_apart_from_reply_subjects() {
        let mut config = ManagerConfig {
            admin: AdminConfig::under("$KV.leaders"),
            ..ManagerConfig::default()
        };
        let field = "admin.subject_prefix";
        refused(&config, field, "\"$KV.leaders\"", "must be tokens");
        config.admin = AdminConfig::under("ops.admin");
        config.inbox_prefix = Some("ops".into());
        refused(&config, field, "\"ops.admin\"", "apart from `inbox_prefix`");
    }

    #[test]
    fn metadata_has_a_limit() {
        let config = ManagerConfig::default().meta("k", "x".repeat(4088));
        assert_eq!(config.validate(), Ok(()));
        let config = config.meta("k", "x".repeat(4089));
        refused(&config, "meta", "4097 bytes as JSON", "at most 4096 bytes");
    }

    #[test]
    fn setters_say_what_a_file_says() {
        let set = ManagerConfig::default()
            .servers("nats://a, nats://b")
            .bucket("jobs")
            .bucket_auto_create()
            .replicas(3)
            .storage(Storage::Memory)
            .instance_id("node-1")
            .meta("zone", "eu-1")
            .start_timeout(Duration::from_secs(5))
            .inbox_prefix("_INBOX_jobs")
            .auth(AuthConfig::default().user_and_password("ada", "secret"))
            .tls(TlsConfig::default().require().ca_file("/ca.pem"))
            .events(EventsConfig::off())
            .admin(AdminConfig::off())
            .last_will(LastWillConfig::by("/bin/nats-elect"))
            .member(MemberConfig::default().ttl(Duration::from_secs(5)));
        let file = "servers = ['nats://a', 'nats://b']\nbucket = 'jobs'\nbucket_auto_create = true\nreplicas = 3\n\
            storage = 'memory'\ninstance_id = 'node-1'\nmeta.zone = 'eu-1'\nstart_timeout = '5s'\n\
            inbox_prefix = '_INBOX_jobs'\nauth = { user = 'ada', password = 'secret' }\n\
            tls = { required = true, ca_file = '/ca.pem' }\nevents.publish = false\nadmin.enabled = false\n\
            last_will = { enabled = true, program = '/bin/nats-elect' }\nmember.ttl = '5s'";
        assert_eq!(toml::from_str::<ManagerConfig>(file).unwrap(), set);
        assert_eq!(set.validate(), Ok(()));
    }

    #[test]
    fn numbers_stay_in_their_ranges() {
        let mut config = ManagerConfig::default();
        for replicas in [0, 6, usize::MAX] {
            config.replicas = replicas;
            refused(
                &config,
                "replicas",
                &replicas.to_string(),
                "must be from 1 to 5",
            );
        }
        config.replicas = 5;
        config.start_timeout = Duration::ZERO;
        refused(&config, "start_timeout", "0s", "must be from 1ms to 1d");
        config.start_timeout = Duration::MAX;
        assert_eq!(config.validate().unwrap_err().field, "start_timeout");
    }

    #[test]
    fn a_configuration_survives_a_round_trip_through_toml() {
        let config = ManagerConfig {
            servers: vec!["tls://a".into(), "b".into()],
            instance_id: Some("node-1".into()),
            start_timeout: Duration::from_millis(1500),
            bucket_auto_create: true,
            replicas: 3,
            storage: Storage::Memory,
            tls: TlsConfig {
                ca_file: Some("/ca.pem".into()),
                ..TlsConfig::default()
            },
            auth: AuthConfig {
                user: Some("ada".into()),
                password: Some("secret".into()),
                ..AuthConfig::default()
            },
            inbox_prefix: Some("_INBOX.elect".into()),
            admin: AdminConfig::under("ops.elect"),
            ..ManagerConfig::default()
        };
        let text = toml::to_string(&config).unwrap();
        assert!(text.contains("storage = \"memory\""), "{text}");
        assert!(text.contains("start_timeout = \"1s 500ms\""), "{text}");
        assert_eq!(toml::from_str::<ManagerConfig>(&text).unwrap(), config);
    }

    #[test]
    fn an_unknown_field_is_an_error() {
        let error = toml::from_str::<ManagerConfig>("buckets = 'x'").unwrap_err();
        assert!(
            error.to_string().contains("unknown field `buckets`"),
            "{error}"
        );
    }
}
