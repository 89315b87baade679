//! Which NATS, and who connects: options before the environment, before the context, before the
//! defaults.

use std::cell::Cell;
use std::error::Error as _;
use std::future::Future;
use std::io;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::context::{
    GetStreamError, GetStreamErrorKind, KeyValueErrorKind, RequestError, RequestErrorKind,
};
use async_nats::jetstream::{self, ErrorCode, kv};
use futures::future::LocalBoxFuture;
use nats_elect::limits::failed;
use nats_elect::{
    AuthConfig, BucketReview, Denied, Error, ManagerConfig, Observer, ObserverBuilder,
};
use nats_elect_signing::TrustingBuilder;
use tokio::runtime::{Builder, Runtime};

use crate::config_file::ConfigFile;
use crate::context;
use crate::exit::{Code, Failure, Outcome};
use crate::line::Line;
use crate::options::Shared;
use crate::trust::{Trust, Trusted};

/// How long a command waits for NATS unless `--timeout` says otherwise.
const PATIENCE: Duration = Duration::from_secs(5);

impl Shared {
    /// Returns the configuration: the options and the environment over the context.
    pub fn config(&self) -> Result<ManagerConfig, Failure> {
        self.patient(self.of_context()?)
    }

    /// Returns the options and the environment over a configuration from elsewhere, for a command
    /// that does not wait for long.
    pub fn patient(&self, base: ManagerConfig) -> Result<ManagerConfig, Failure> {
        let mut config = self.over(base)?;
        config.start_timeout = self.patience();
        Ok(config)
    }

    fn of_context(&self) -> Result<ManagerConfig, Failure> {
        Ok(match &self.connection.context {
            Some(name) => context::named(name)?,
            None => context::selected()?.unwrap_or_default(),
        })
    }

    /// Returns the options and the environment over a configuration from elsewhere. Its
    /// `start_timeout` stays unless `--timeout` is given.
    pub fn over(&self, base: ManagerConfig) -> Result<ManagerConfig, Failure> {
        let mut config = base.with_env()?;
        if let Some(servers) = &self.connection.server {
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
        tls.ca_file = self.connection.tlsca.clone().or(tls.ca_file.take());
        tls.cert_file = self.connection.tlscert.clone().or(tls.cert_file.take());
        tls.key_file = self.connection.tlskey.clone().or(tls.key_file.take());
        tls.first |= self.connection.tlsfirst;
        config.inbox_prefix = self
            .connection
            .inbox_prefix
            .clone()
            .or(config.inbox_prefix.take());
        if let Some(bucket) = &self.connection.bucket {
            config.bucket.clone_from(bucket);
        }
        if let Some(prefix) = &self.connection.admin_prefix {
            config.admin.subject_prefix.clone_from(prefix);
        }
        if let Some(timeout) = self.connection.timeout {
            config.start_timeout = timeout;
        }
        config.validate()?;
        Ok(config)
    }

    /// Returns the configuration of an instance: the options and the environment over the file's
    /// `[manager]`. Without that table, or without a file, they are over the context.
    pub fn over_file(&self, file: Option<&ConfigFile>) -> Result<ManagerConfig, Failure> {
        let said = file.filter(|file| file.has_manager);
        let base = match said {
            Some(_) if self.connection.context.is_some() => {
                return Err(Failure::usage(
                    "both the file's [manager] and a context say how to connect: use only one of them",
                ));
            }
            Some(file) => file.config.manager.clone(),
            None => self.of_context()?,
        };
        self.over(base)
    }

    /// How long to wait for an answer.
    pub fn patience(&self) -> Duration {
        self.connection.timeout.unwrap_or(PATIENCE)
    }

    /// An observer of these roles, or of all: how they stand is known when it returns. With trusted
    /// keys it tells of leaders who signed alone. If no address takes a connection, it fails at once,
    /// or for a command that follows when the time for an answer is over.
    pub async fn observer(
        &self,
        roles: Option<&[String]>,
        trust: &Trust,
        follows: bool,
    ) -> Result<Observer, Failure> {
        let mut builder = observing(self.config()?, trust.keys()?);
        if let Some(roles) = roles {
            builder = builder.roles(roles.iter().map(String::as_str));
        }
        let answers = Cell::new(false);
        // It waits for a bucket to appear, and hears nothing of what is forbidden; whoever types
        // wants to know at once.
        let hindered = async {
            let failure = self.hindrance(&answers).await;
            match failure.filter(|it| !follows || it.code != Code::Unreachable) {
                Some(failure) => failure,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            started = Box::pin(builder.start()) => started.map_err(|error| match error {
                Error::Unavailable { .. } if answers.get() => {
                    Failure::unreachable(error.to_string())
                        .advice("NATS itself answers at that address: `nats-elect doctor` finds the cause")
                }
                error => error.into(),
            }),
            failure = hindered => Err(failure),
        }
    }

    /// What keeps this user from watching the bucket: NATS says so, or no address takes a
    /// connection. And whether NATS answers.
    async fn hindrance(&self, answers: &Cell<bool>) -> Option<Failure> {
        let look = async |client: Client, name: String| {
            answers.set(true);
            bucket_of(client.clone(), &name, self.patience()).await?;
            // As a watch is asked for, but for nothing: no server makes one of it, but it says so
            // only to those who may.
            let subject = format!("$JS.API.CONSUMER.CREATE.KV_{name}.elect-look");
            let _ = client.request(subject, "{}".into()).await;
            Ok(())
        };
        let failure = self.reading(look).await.err()?;
        let is_final = failure.code != Code::Unreachable || !answers.get();
        is_final.then_some(failure)
    }

    /// Asks NATS, and ends as soon as the server forbids one of the requests: nothing else would
    /// tell before the time is over.
    pub async fn reading<T>(
        &self,
        read: impl AsyncFnOnce(Client, String) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        reading(&self.config()?, read).await
    }

    /// Reads the election's bucket, and ends as soon as the server forbids one of the requests.
    pub async fn in_bucket<T>(
        &self,
        read: impl AsyncFnOnce(kv::Store) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let patience = self.patience();
        let opened =
            async |client, name: String| read(bucket_of(client, &name, patience).await?).await;
        self.reading(opened).await
    }

    /// What to say if JetStream is off, where something else than the bucket was looked for and not
    /// found.
    pub async fn jetstream_off(&self) -> Option<Failure> {
        let failure = self.in_bucket(async |_| Ok(())).await.err()?;
        (failure.code == Code::Failed).then_some(failure)
    }

    fn auth(&self) -> AuthConfig {
        let mut auth = AuthConfig::default();
        auth.user.clone_from(&self.connection.user);
        auth.password = self.connection.password.clone().map(Into::into);
        auth.token = self.connection.token.clone().map(Into::into);
        auth.nkey_file.clone_from(&self.connection.nkey);
        auth.creds_file.clone_from(&self.connection.creds);
        auth
    }
}

/// An observer over a connection of its own, which notices a dead one sooner than a plain client
/// does.
pub fn observing(config: ManagerConfig, trust: Option<Trusted>) -> ObserverBuilder {
    let builder = Observer::builder().config(config);
    match trust {
        Some((keys, max_skew)) => builder.trusted_keys(keys, max_skew),
        None => builder,
    }
}

/// Asks NATS, and ends as soon as the server forbids one of the requests: nothing else would tell
/// before the time is over.
pub async fn reading<T>(
    config: &ManagerConfig,
    read: impl AsyncFnOnce(Client, String) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let line = Line::connect(config, None).await?;
    // Consumers that nobody uses any more end by themselves, too.
    let matters = |denied: &Denied| !denied.subject.starts_with("$JS.API.CONSUMER.DELETE.");
    tokio::select! {
        biased;
        denied = line.hears(&matters) => Err(denied.into()),
        read = read(line.client.clone(), config.bucket.clone()) => read,
    }
}

/// The bucket as it stands there, if it does. `None` if this user may not read it, or it is out of
/// reach.
pub async fn review(
    client: &Client,
    name: &str,
    patience: Duration,
) -> Option<Option<BucketReview>> {
    let subject = format!("$JS.API.STREAM.INFO.KV_{name}");
    let asked = tokio::time::timeout(patience, client.request(subject, "".into()));
    let answer = asked.await.ok()?.ok()?;
    BucketReview::of_answer(name, &answer.payload).ok()
}

/// The election's bucket, over this connection; each request waits for so long.
pub async fn bucket_of(
    client: Client,
    name: &str,
    patience: Duration,
) -> Result<kv::Store, Failure> {
    let offered = client.server_info().jetstream;
    let mut jetstream = jetstream::new(client);
    jetstream.set_timeout(patience);
    jetstream.get_key_value(name).await.map_err(|error| {
        if error.kind() == KeyValueErrorKind::InvalidStoreName {
            return Failure::usage(format!("{name:?} is not a valid bucket name"));
        }
        let why = error.source().and_then(|it| it.downcast_ref::<GetStreamError>());
        if let Some(GetStreamErrorKind::JetStream(said)) = why.map(GetStreamError::kind) {
            match said.error_code() {
                ErrorCode::STREAM_NOT_FOUND => {
                    return Failure::not_found(format!("bucket {name:?} does not exist"))
                        .advice("name another with --bucket or NATS_ELECT_BUCKET, or create it: `nats-elect create-bucket`");
                }
                ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => {
                    return Error::JetStreamDisabled(said.to_string()).into();
                }
                _ => {}
            }
        }
        let request = why.and_then(|it| it.source()?.downcast_ref::<RequestError>());
        let is_unheard = |it: &RequestError| it.kind() == RequestErrorKind::NoResponders;
        if !offered && request.is_some_and(is_unheard) {
            return Error::JetStreamDisabled("the server does not offer it".into()).into();
        }
        Failure::unreachable(format!("bucket {name:?} could not be read: {error}"))
            .advice("`nats-elect doctor` finds the cause")
    })
}

/// Runs a command that talks to NATS, on this thread.
pub fn block_on<'a>(command: impl Future<Output = Outcome> + 'a) -> Outcome {
    block_on_any(Box::pin(command))
}

/// It is compiled once, and not for each command.
fn block_on_any(command: LocalBoxFuture<'_, Outcome>) -> Outcome {
    runtime("the command could not begin")?.block_on(command)
}

/// A runtime on this thread; this is said if there can be none.
pub fn runtime(otherwise: &'static str) -> io::Result<Runtime> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(failed(otherwise))
}
