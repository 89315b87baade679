//! Which NATS, and who connects: options before the environment, before the context, before the defaults.

use std::future::Future;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::context::KeyValueErrorKind;
use async_nats::jetstream::{self, kv};
use nats_elect::admin::AdminClient;
use nats_elect::{AuthConfig, ManagerConfig, Observer};

use crate::cli::Shared;
use crate::context;
use crate::exit::{Code, Failure, Outcome};
use crate::trust::Trust;

/// How long a command waits for NATS unless `--timeout` says otherwise.
const PATIENCE: Duration = Duration::from_secs(5);

impl Shared {
    /// What all of it comes to, over the context.
    pub fn config(&self) -> Result<ManagerConfig, Failure> {
        let base = match &self.context {
            Some(name) => context::named(name)?,
            None => context::selected()?.unwrap_or_default(),
        };
        let mut config = self.over(base)?;
        config.start_timeout = self.patience();
        Ok(config)
    }

    /// What all of it comes to, over a configuration from elsewhere. Its `start_timeout` stays unless `--timeout` is given.
    pub fn over(&self, base: ManagerConfig) -> Result<ManagerConfig, Failure> {
        let mut config = base.with_env()?;
        if let Some(servers) = &self.server {
            config.servers = servers.split(',').map(|one| one.trim().into()).collect();
            // The login of another address is not for this one.
            if servers.contains('@') {
                config.auth = AuthConfig::default();
            }
        }
        let auth = self.auth();
        if !auth.is_empty() {
            config.auth = auth;
        }
        let tls = &mut config.tls;
        tls.ca_file = self.tlsca.clone().or(tls.ca_file.take());
        tls.cert_file = self.tlscert.clone().or(tls.cert_file.take());
        tls.key_file = self.tlskey.clone().or(tls.key_file.take());
        tls.first |= self.tlsfirst;
        config.inbox_prefix = self.inbox_prefix.clone().or(config.inbox_prefix.take());
        if let Some(bucket) = &self.bucket {
            config.bucket.clone_from(bucket);
        }
        if let Some(prefix) = &self.admin_prefix {
            config.admin.subject_prefix.clone_from(prefix);
        }
        if let Some(timeout) = self.timeout {
            config.start_timeout = timeout;
        }
        config.validate()?;
        Ok(config)
    }

    /// How long to wait for an answer.
    pub fn patience(&self) -> Duration {
        self.timeout.unwrap_or(PATIENCE)
    }

    /// A connection, and what it was made by.
    pub async fn connect(&self) -> Result<(Client, ManagerConfig), Failure> {
        let config = self.config()?;
        let client = config.connect("nats-elect").await?;
        Ok((client, config))
    }

    /// What asks the instances, over a connection of its own.
    pub async fn admin(&self) -> Result<AdminClient, Failure> {
        let (client, config) = self.connect().await?;
        let prefix = &config.admin.subject_prefix;
        Ok(AdminClient::under(client, &config.bucket, prefix)?)
    }

    /// An observer of these roles, or of all: how they stand is known when it returns. With trusted keys it tells of leaders who
    /// signed alone.
    pub async fn observer(
        &self,
        roles: Option<&[String]>,
        trust: &Trust,
    ) -> Result<Observer, Failure> {
        // A connection of its own: it notices a dead one sooner than a plain client does.
        let mut builder = Observer::builder().config(self.config()?);
        if let Some(roles) = roles {
            builder = builder.roles(roles.iter().map(String::as_str));
        }
        if let Some(keys) = trust.keys()? {
            builder = builder.trusted_keys(keys, trust.max_skew);
        }
        // It waits for a bucket to appear; whoever types wants to know at once that there is none.
        let missing = async {
            match self.bucket().await {
                Err(failure) if failure.code == Code::NotFound => failure,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            started = builder.start() => Ok(started?),
            failure = missing => Err(failure),
        }
    }

    /// The election's bucket, for reading.
    pub async fn bucket(&self) -> Result<kv::Store, Failure> {
        let (client, config) = self.connect().await?;
        let mut jetstream = jetstream::new(client);
        jetstream.set_timeout(self.patience());
        jetstream.get_key_value(&config.bucket).await.map_err(|error| {
            let bucket = &config.bucket;
            match error.kind() {
                KeyValueErrorKind::InvalidStoreName => {
                    Failure::usage(format!("{bucket:?} is no name of a bucket"))
                }
                // Whatever else the server says of a bucket that it can't find has this kind, too.
                KeyValueErrorKind::GetBucket if error.to_string().contains("not found") => {
                    Failure::not_found(format!("bucket {bucket:?} does not exist"))
                        .advice("name another with --bucket or NATS_ELECT_BUCKET, or make it: `exec --create-bucket`")
                }
                _ => Failure::new(
                    Code::Unreachable,
                    format!("bucket {bucket:?} could not be looked at: {error}"),
                )
                .advice("JetStream may be off for this account, or a permission is missing: docs/security.md lists them"),
            }
        })
    }

    fn auth(&self) -> AuthConfig {
        let mut auth = AuthConfig::default();
        auth.user.clone_from(&self.user);
        auth.password = self.password.clone().map(Into::into);
        auth.token = self.token.clone().map(Into::into);
        auth.nkey_file.clone_from(&self.nkey);
        auth.creds_file.clone_from(&self.creds);
        auth
    }
}

/// Runs a command that talks to NATS, on this thread.
pub fn block_on(command: impl Future<Output = Outcome>) -> Outcome {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(command)
}
