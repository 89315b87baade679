//! The bucket: opening it, creating it where that is configured, and inspecting it again.

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use serde_json::{Value, json};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use super::error::StoreError;
use super::info::{BucketInfo, StreamInfo};
use super::mailbox::Mailbox;
use super::questions::Questions;
use super::request::{NO_RESPONDERS, READ_AGAIN, ReadAnswers};
use super::server::{require_answering_server, require_connected_server};
use crate::clock;
use crate::lock::lock;
use crate::model::admin::BucketId;
use crate::model::config::Storage;
use nats_elect_core::Moment;
use nats_elect_core::name::{BucketName, RoleName};

/// The server's code for a stream that exists with other settings.
pub(super) const NAME_IN_USE: u64 = 10058;
/// The time between two looks for a bucket that is being created.
const BEING_CREATED: Duration = Duration::from_millis(20);

/// The action to take if a bucket does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMissing {
    /// Fail with [`StoreError::BucketMissing`].
    Fail,
    /// Fail with the same error. The caller asks again, because another process creates the bucket.
    Await,
    /// Create it.
    Create {
        /// The number of servers that keep it.
        replicas: usize,
        /// Storage on disk or in memory.
        storage: Storage,
    },
}

/// The most reads of roles' keys at a time. A server with 10,000 requests to `JetStream` in its queue
/// drops all of them, those of other clients too.
const READS_AT_ONCE: usize = 300;

/// A handle on a bucket. Clones share all of it.
#[derive(Clone, Debug)]
pub struct Bucket {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    name: BucketName,
    stream: String,
    /// The prefix of its keys, as subjects.
    prefix: String,
    mailbox: Arc<Mailbox>,
    /// The `JetStream` domain, as of the last look at the bucket.
    domain: Mutex<Option<String>>,
    info: Mutex<Option<Arc<BucketInfo>>>,
    /// The turns of reads that may wait.
    reads: Arc<Semaphore>,
    /// The last answer for [`Bucket::standing_since`], and when it was requested.
    standing: tokio::sync::Mutex<Option<(Moment, Standing)>>,
    questions: Questions,
    read_answers: Mutex<ReadAnswers>,
}

/// What a read of keys is put beside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// The bucket's creation time, in nanoseconds since the Unix epoch.
    pub epoch: u64,
    pub last_sequence: u64,
}

impl Bucket {
    /// Opens the bucket. Several processes may create it at the same moment. All of them open the
    /// same bucket.
    ///
    /// The mailbox is that of the client. It must be told of the refusals that the client hears.
    /// Without them, a request that the user's permissions forbid only times out.
    ///
    /// # Errors
    ///
    /// The errors of any request, and [`StoreError::BucketMissing`],
    /// [`StoreError::JetStreamDisabled`], [`StoreError::BucketUnfit`] and
    /// [`StoreError::ServerTooOld`].
    pub async fn open(
        client: Client,
        mailbox: Arc<Mailbox>,
        name: &BucketName,
        if_missing: IfMissing,
        timeout: Duration,
    ) -> Result<(Self, BucketInfo), StoreError> {
        let bucket = Self {
            shared: Arc::new(Shared {
                client,
                name: name.clone(),
                stream: format!("KV_{name}"),
                prefix: format!("$KV.{name}."),
                mailbox,
                domain: Mutex::new(None),
                info: Mutex::default(),
                reads: Arc::new(Semaphore::new(READS_AT_ONCE)),
                standing: tokio::sync::Mutex::default(),
                questions: Questions::default(),
                read_answers: Mutex::new(ReadAnswers::NONE),
            }),
        };
        let opening = async {
            let mut created = false;
            let stream = match (bucket.stream_info(timeout).await, if_missing) {
                (
                    Err(StoreError::BucketMissing { .. }),
                    IfMissing::Create { replicas, storage },
                ) => {
                    created = bucket.create(replicas, storage, timeout).await?;
                    bucket.created_stream_info(timeout).await?
                }
                (found, _) => found?,
            };
            let info = bucket.learn(&stream)?;
            Ok(BucketInfo { created, ..info })
        };
        // The timeout also ends the wait for a bucket that is being created. The next attempt would
        // find the bucket, or create it.
        match tokio::time::timeout(timeout, opening).await {
            Ok(opened) => opened.map(|info| (bucket, info)),
            Err(_) => Err(bucket.info_timed_out()),
        }
    }

    /// Reads the bucket's settings and its identity again.
    pub async fn inspect(&self, timeout: Duration) -> Result<BucketInfo, StoreError> {
        let stream = self.stream_info(timeout).await?;
        self.learn(&stream)
    }

    /// Returns the bucket's creation time, in nanoseconds since the Unix epoch. It is the bucket's
    /// identity: a recreated bucket has another one.
    pub async fn epoch(&self, timeout: Duration) -> Result<u64, StoreError> {
        self.stream_info(timeout).await?.epoch()
    }

    /// Requests the bucket's info. Both servers must be new enough for elections: the connected
    /// server, which must take whole records, and the stream's leader, which answers.
    pub(super) async fn stream_info(&self, timeout: Duration) -> Result<StreamInfo, StoreError> {
        require_connected_server(&self.client().server_info())?;
        let (action, all) = (format!("STREAM.INFO.{}", self.stream()), json!({}));
        let asked = self.ask_api(&action, &all, Some(READ_AGAIN), timeout);
        let info: StreamInfo = match asked.await {
            // Where JetStream runs on a reachable server, its API has a subscriber, whatever the
            // state of the bucket.
            Err(StoreError::Unavailable(detail))
                if detail == NO_RESPONDERS && !self.client().server_info().jetstream =>
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

    /// Returns how the bucket stood at some time after that moment. Callers that wait at the same
    /// time share one request. If its answer is lost, they wait until it is sent again, or for their
    /// own timeout.
    pub(super) async fn standing_since(
        &self,
        moment: Moment,
        timeout: Duration,
    ) -> Result<Standing, StoreError> {
        let asking = async {
            let mut last = self.shared.standing.lock().await;
            if let Some((asked, standing)) = *last
                && asked > moment
            {
                return Ok(standing);
            }
            let asked = clock::now();
            let standing = self.standing(timeout).await?;
            *last = Some((asked, standing));
            Ok(standing)
        };
        let asked = tokio::time::timeout(timeout, asking).await;
        asked.unwrap_or_else(|_| Err(self.info_timed_out()))
    }

    /// A bucket that drops keys may show a role as if nobody had ever led it. So keys count for
    /// nothing while its settings are unfit, or differ in this from those of the last look.
    async fn standing(&self, timeout: Duration) -> Result<Standing, StoreError> {
        let stream = self.stream_info(timeout).await?;
        let info = stream.assess(self.name())?;
        if (self.info()).is_some_and(|known| known.max_age != info.max_age) {
            let changed = "the bucket's max age was changed: looking at it again";
            return Err(StoreError::Unavailable(changed.into()));
        }
        Ok(Standing {
            epoch: stream.epoch()?,
            last_sequence: stream.state.last_seq,
        })
    }

    fn info_timed_out(&self) -> StoreError {
        StoreError::Timeout {
            subject: format!("$JS.API.STREAM.INFO.{}", self.stream()),
        }
    }

    /// Another process may be creating the bucket. In a cluster its name may then be in use before
    /// the bucket exists.
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
        *lock(&self.shared.info) = Some(Arc::new(info.clone()));
        stream.domain.clone_into(&mut *self.domain());
        Ok(info)
    }

    /// Creates the bucket. Returns whether it did: another client may have been first.
    async fn create(
        &self,
        replicas: usize,
        storage: Storage,
        timeout: Duration,
    ) -> Result<bool, StoreError> {
        let config = Config {
            name: self.shared.stream.clone(),
            description: Some("Leader election (nats-elect)".into()),
            subjects: vec![format!("{}>", self.shared.prefix)],
            // The sequences of a recreated bucket are greater than those of its predecessor. A
            // stale writer's expectation therefore never holds there by accident.
            first_sequence: Some(clock::unix_micros()),
            max_messages_per_subject: 1,
            discard: DiscardPolicy::New,
            num_replicas: replicas,
            storage: storage.into(),
            // No message in the bucket carries a message id.
            duplicate_window: Duration::from_secs(1),
            deny_delete: true,
            // With rollups, a client that may write one key could empty the bucket with a single
            // message.
            allow_rollup: false,
            allow_direct: false,
            allow_atomic_publish: true,
            // The keys of ended members of groups expire.
            allow_message_ttl: true,
            ..without_limits()
        };
        let action = format!("STREAM.CREATE.{}", self.stream());
        match self.ask_api::<Value>(&action, &config, None, timeout).await {
            // Another client created the stream first, with another first sequence.
            Err(StoreError::Rejected {
                code: NAME_IN_USE, ..
            }) => Ok(false),
            Err(StoreError::PermissionDenied(denied)) => {
                Err(StoreError::PermissionDenied(format!(
                    "{denied}, which makes the missing bucket (so does `nats-elect create-bucket` by a user who may)"
                )))
            }
            created => created.map(|_| true),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.shared.client
    }

    /// Waits for the turn to read a role's keys, which lasts until the permit is dropped. A
    /// thousand roles may want to read theirs at the same moment. A read that something depends on
    /// takes no turn.
    ///
    /// Nothing closes the semaphore.
    pub fn turn_to_read(
        &self,
    ) -> impl Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send + use<> {
        Arc::clone(&self.shared.reads).acquire_owned()
    }

    pub(super) fn questions(&self) -> &Questions {
        &self.shared.questions
    }

    pub(super) fn read_answers(&self) -> MutexGuard<'_, ReadAnswers> {
        lock(&self.shared.read_answers)
    }

    pub(super) fn mailbox(&self) -> &Mailbox {
        &self.shared.mailbox
    }

    /// The `JetStream` domain of the bucket, or nothing if the domain has no name.
    pub(super) fn domain(&self) -> MutexGuard<'_, Option<String>> {
        lock(&self.shared.domain)
    }

    /// Returns what tells it apart from other buckets of its name.
    pub fn id(&self, epoch: u64) -> BucketId {
        BucketId::new(self.domain().as_deref(), epoch)
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

    /// The subject of a key, or of a filter of keys.
    pub fn subject(&self, key: impl Display) -> String {
        format!("{}{key}", self.shared.prefix)
    }

    /// The subject of the role's fence key.
    pub fn fence_subject(&self, role: &RoleName) -> String {
        format!("{}_fence.{role}", self.shared.prefix)
    }

    /// Returns the connected server, or the last one.
    pub fn server(&self) -> String {
        server_of(self.client())
    }

    /// Returns the version of that server.
    pub fn server_version(&self) -> String {
        self.client().server_info().version
    }

    /// Returns the largest message that the connected server takes, in bytes.
    pub fn max_payload(&self) -> usize {
        self.client().server_info().max_payload
    }

    /// Returns the largest message that the server takes for the bucket, headers included, in bytes.
    pub fn largest_message(&self) -> usize {
        let limit = self.info().and_then(|info| info.max_msg_size);
        limit.unwrap_or(usize::MAX).min(self.max_payload())
    }

    /// Returns the properties as of the last look at the bucket. Each new connection brings a look,
    /// and so does the passing of time.
    pub fn info(&self) -> Option<Arc<BucketInfo>> {
        lock(&self.shared.info).clone()
    }
}

/// Returns the server to which a client is connected, or was connected last: its name if it has one,
/// and the address that it tells.
pub fn server_of(client: &Client) -> String {
    let info = client.server_info();
    let address = format!("{}:{}", info.host, info.port);
    if info.server_name.is_empty() || info.server_name == info.server_id {
        address
    } else {
        format!("{} at {address}", info.server_name)
    }
}

/// The settings of a new stream without limits.
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
