//! The bucket: opened, created where that is wished, looked at again.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use async_nats::{Client, HeaderMap, Request};
use serde_json::{Value, json};

use super::cross_check::CrossCheck;
use super::entry::{DELETE, OPERATION_HEADER};
use super::error::StoreError;
use super::info::{BucketInfo, StreamInfo};
use super::request::NO_RESPONDERS;
use crate::clock;
use crate::model::config::Storage;
use crate::model::name::{BucketName, DataKey, RoleName};

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
    cross_check: AtomicU8,
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
    /// [`StoreError::BucketUnfit`].
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
                cross_check: AtomicU8::new(CrossCheck::Unknown as u8),
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
            let info = bucket.learn(&stream)?;
            if matches!(if_missing, IfMissing::Create { .. }) && stream.must_pass_first_sequence() {
                bucket.pass_first_sequence(timeout).await?;
            }
            Ok(info)
        };
        // Also ends the wait for a bucket that is being created: the next attempt would find it, or create it.
        match tokio::time::timeout(timeout, opening).await {
            Ok(opened) => opened.map(|info| (bucket, info)),
            Err(_) => Err(StoreError::Timeout {
                subject: format!("$JS.API.STREAM.INFO.{}", bucket.stream()),
            }),
        }
    }

    /// Looks at the bucket's settings and its identity again, and forgets what was learnt by probing: the server may have
    /// changed too.
    pub async fn inspect(&self, timeout: Duration) -> Result<BucketInfo, StoreError> {
        let stream = self.stream_info(timeout).await?;
        self.set_cross_check(CrossCheck::Unknown);
        self.learn(&stream)
    }

    /// The bucket's creation time, in nanoseconds since the Unix epoch: the identity that a recreation changes.
    pub async fn epoch(&self, timeout: Duration) -> Result<u64, StoreError> {
        self.stream_info(timeout).await?.epoch()
    }

    async fn stream_info(&self, timeout: Duration) -> Result<StreamInfo, StoreError> {
        let action = format!("STREAM.INFO.{}", self.stream());
        let asked = self.ask_api(&action, &json!({}), timeout).await;
        match asked {
            // Where JetStream runs somewhere in reach, its API is subscribed to, whatever the state of the bucket.
            Err(StoreError::Unavailable(detail))
                if detail == NO_RESPONDERS && !self.client.server_info().jetstream =>
            {
                Err(StoreError::JetStreamDisabled(
                    "the server does not offer it".into(),
                ))
            }
            asked => asked,
        }
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
        let mut info = stream.assess(self.name())?;
        let traits = Traits {
            epoch: info.epoch,
            expires: info.max_age.is_some(),
            atomic: info.atomic,
            replicated: info.replicas > 1,
        };
        *self.traits_slot() = Some(traits);
        // The version of the server that this client talks to: a hint for people, the probe decides.
        if !self.client.is_server_compatible(2, 11, 0) {
            info.notes.push(
                "no conditions on another key: a fence record is written over the fence key's own revision, and there \
                 are no fenced writes (needs nats-server 2.11)"
                    .to_owned(),
            );
        }
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
            allow_rollup: true,
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

    /// Writes the first message and replaces it, both as delete markers, which nobody takes for a key.
    async fn pass_first_sequence(&self, timeout: Duration) -> Result<(), StoreError> {
        for _ in 0..2 {
            let mut headers = HeaderMap::new();
            headers.insert(OPERATION_HEADER, DELETE);
            let request = Request::new().headers(headers);
            let subject = format!("{}_first", self.prefix());
            self.publish(subject, request, timeout).await?;
        }
        Ok(())
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
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

    pub(super) fn role_subject(&self, role: &RoleName) -> String {
        format!("{}{role}", self.shared.prefix)
    }

    pub(super) fn fence_subject(&self, role: &RoleName) -> String {
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

    fn traits_slot(&self) -> std::sync::MutexGuard<'_, Option<Traits>> {
        self.shared
            .traits
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn cross_check(&self) -> CrossCheck {
        match self.shared.cross_check.load(Ordering::Relaxed) {
            1 => CrossCheck::Supported,
            2 => CrossCheck::Unsupported,
            _ => CrossCheck::Unknown,
        }
    }

    pub(super) fn set_cross_check(&self, verdict: CrossCheck) {
        self.shared
            .cross_check
            .store(verdict as u8, Ordering::Relaxed);
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
