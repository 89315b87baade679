//! The bucket: opened, created where that is wished, looked at again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use serde_json::{Value, json};

use super::error::StoreError;
use super::info::{BucketInfo, StreamInfo};
use super::mailbox::Mailbox;
use super::request::NO_RESPONDERS;
use super::server::{require_answering_server, require_server};
use crate::clock;
use crate::model::config::Storage;
use nats_elect_core::name::{BucketName, DataKey, RoleName};

/// The server's code for a stream that exists with other settings.
pub(super) const NAME_IN_USE: u64 = 10058;
/// Time between two looks for a bucket that is being created.
const BEING_CREATED: Duration = Duration::from_millis(20);

/// What to do about a bucket that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMissing {
    /// Fail with [`StoreError::BucketMissing`].
    Fail,
    /// Fail with it, but whoever asks will ask again: somebody else creates it.
    Await,
    /// Create it.
    Create {
        /// On how many servers it is kept.
        replicas: usize,
        /// On disk or in memory.
        storage: Storage,
    },
}

/// A handle on a bucket; clones share what was learnt about the server.
#[derive(Clone, Debug)]
pub struct Bucket {
    client: Client,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    name: BucketName,
    stream: String,
    /// What its keys begin with, as subjects.
    prefix: String,
    mailbox: Mailbox,
    /// `JetStream`'s domain, as the last look at the bucket showed it.
    domain: Mutex<Option<String>>,
    traits: Mutex<Option<Traits>>,
}

/// What the last look at the bucket showed of what fenced writes need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Its creation time, in nanoseconds since the Unix epoch.
    pub epoch: u64,
    /// Keys expire, fence records among them.
    pub expires: bool,
    /// Several messages can be written as one.
    pub atomic: bool,
    /// It is kept on more than one server.
    pub replicated: bool,
}

impl Bucket {
    /// Opens the bucket. Several processes may create it at the same moment; all of them open the same one.
    ///
    /// # Errors
    ///
    /// Besides those of any request: [`StoreError::BucketMissing`], [`StoreError::JetStreamDisabled`],
    /// [`StoreError::BucketUnfit`], [`StoreError::ServerTooOld`].
    pub async fn open(
        client: Client,
        name: &BucketName,
        if_missing: IfMissing,
        timeout: Duration,
    ) -> Result<(Self, BucketInfo), StoreError> {
        let bucket = Self {
            client,
            shared: Arc::new(Shared {
                name: name.clone(),
                stream: format!("KV_{name}"),
                prefix: format!("$KV.{name}."),
                mailbox: Mailbox::default(),
                domain: Mutex::new(None),
                traits: Mutex::new(None),
            }),
        };
        let opening = async {
            let stream = match (bucket.stream_info(timeout).await, if_missing) {
                (
                    Err(StoreError::BucketMissing { .. }),
                    IfMissing::Create { replicas, storage },
                ) => {
                    bucket.create(replicas, storage, timeout).await?;
                    bucket.created_stream_info(timeout).await?
                }
                (found, _) => found?,
            };
            bucket.learn(&stream)
        };
        // Also ends the wait for a bucket that is being created: the next attempt would find it, or create it.
        match tokio::time::timeout(timeout, opening).await {
            Ok(opened) => opened.map(|info| (bucket, info)),
            Err(_) => Err(StoreError::Timeout {
                subject: format!("$JS.API.STREAM.INFO.{}", bucket.stream()),
            }),
        }
    }

    /// Looks at the bucket's settings and its identity again.
    pub async fn inspect(&self, timeout: Duration) -> Result<BucketInfo, StoreError> {
        let stream = self.stream_info(timeout).await?;
        self.learn(&stream)
    }

    /// The bucket's creation time, in nanoseconds since the Unix epoch: the identity that a recreation changes.
    pub async fn epoch(&self, timeout: Duration) -> Result<u64, StoreError> {
        self.stream_info(timeout).await?.epoch()
    }

    /// Asks about the bucket, of a server that elections can be held on: the one that is asked, and the stream's leader, which answers.
    pub(super) async fn stream_info(&self, timeout: Duration) -> Result<StreamInfo, StoreError> {
        require_server(&self.client.server_info().version)?;
        let action = format!("STREAM.INFO.{}", self.stream());
        let asked = self.ask_api(&action, &json!({}), timeout).await;
        let info: StreamInfo = match asked {
            // Where JetStream runs somewhere in reach, its API is subscribed to, whatever the state of the bucket.
            Err(StoreError::Unavailable(detail))
                if detail == NO_RESPONDERS && !self.client.server_info().jetstream =>
            {
                return Err(StoreError::JetStreamDisabled(
                    "the server does not offer it".into(),
                ));
            }
            asked => asked?,
        };
        require_answering_server(info.server_version())?;
        Ok(info)
    }

    /// In a cluster a bucket that another process is creating may be in use as a name and not be there yet.
    async fn created_stream_info(&self, timeout: Duration) -> Result<StreamInfo, StoreError> {
        loop {
            match self.stream_info(timeout).await {
                Err(StoreError::BucketMissing { .. }) => tokio::time::sleep(BEING_CREATED).await,
                found => return found,
            }
        }
    }

    fn learn(&self, stream: &StreamInfo) -> Result<BucketInfo, StoreError> {
        let info = stream.assess(self.name())?;
        let traits = Traits {
            epoch: info.epoch,
            expires: info.max_age.is_some(),
            atomic: info.atomic,
            replicated: info.replicas > 1,
        };
        *self.traits_slot() = Some(traits);
        stream.domain.clone_into(&mut *self.domain());
        Ok(info)
    }

    async fn create(
        &self,
        replicas: usize,
        storage: Storage,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let config = Config {
            name: self.shared.stream.clone(),
            description: Some("Leader election (nats-elect)".into()),
            subjects: vec![format!("{}>", self.shared.prefix)],
            // Sequences of a recreated bucket stand above those of its predecessor, so that a stale writer's
            // expectation never holds there by accident.
            first_sequence: Some(clock::unix_micros()),
            max_messages_per_subject: 1,
            discard: DiscardPolicy::New,
            num_replicas: replicas,
            storage: storage.into(),
            // Nothing here carries a message id.
            duplicate_window: Duration::from_secs(1),
            deny_delete: true,
            // Or whoever may write one key could empty the bucket with a single message.
            allow_rollup: false,
            allow_direct: false,
            allow_atomic_publish: true,
            ..without_limits()
        };
        let action = format!("STREAM.CREATE.{}", self.stream());
        match self.ask_api::<Value>(&action, &config, timeout).await {
            // Somebody else was first, and with another first sequence.
            Err(StoreError::Rejected {
                code: NAME_IN_USE, ..
            }) => Ok(()),
            created => created.map(drop),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn mailbox(&self) -> &Mailbox {
        &self.shared.mailbox
    }

    /// `JetStream`'s domain, in which the bucket is; nothing where it has no name.
    pub(super) fn domain(&self) -> MutexGuard<'_, Option<String>> {
        let domain = self.shared.domain.lock();
        domain.unwrap_or_else(PoisonError::into_inner)
    }

    /// The bucket's name.
    pub fn name(&self) -> &BucketName {
        &self.shared.name
    }

    pub(super) fn stream(&self) -> &str {
        &self.shared.stream
    }

    pub(super) fn prefix(&self) -> &str {
        &self.shared.prefix
    }

    /// The subject of the role's key.
    pub fn role_subject(&self, role: &RoleName) -> String {
        format!("{}{role}", self.shared.prefix)
    }

    /// The subject of the role's fence key.
    pub fn fence_subject(&self, role: &RoleName) -> String {
        format!("{}_fence.{role}", self.shared.prefix)
    }

    /// What the keys of one role's data begin with. No role has a dot in its name, so none's is the beginning of another's.
    pub(super) fn data_prefix(&self, role: &RoleName) -> String {
        format!("{}_data.{role}.", self.shared.prefix)
    }

    pub(super) fn data_subject(&self, role: &RoleName, key: &DataKey) -> String {
        format!("{}{key}", self.data_prefix(role))
    }

    pub(super) fn guard_subject(&self, role: &RoleName) -> String {
        format!("{}_guard.{role}", self.shared.prefix)
    }

    /// How many bytes the connected server takes as one message.
    pub fn max_payload(&self) -> usize {
        self.client.server_info().max_payload
    }

    /// What the last look at the bucket showed; each new connection brings one.
    pub fn traits(&self) -> Option<Traits> {
        *self.traits_slot()
    }

    fn traits_slot(&self) -> MutexGuard<'_, Option<Traits>> {
        self.shared
            .traits
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a new stream is that takes as much as there is.
pub(super) fn without_limits() -> Config {
    Config {
        max_messages: -1,
        max_bytes: -1,
        max_consumers: -1,
        max_message_size: -1,
        ..Config::default()
    }
}

impl From<Storage> for StorageType {
    fn from(storage: Storage) -> Self {
        match storage {
            Storage::File => Self::File,
            Storage::Memory => Self::Memory,
        }
    }
}
