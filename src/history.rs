//! What changed hands, as a JetStream stream has kept it.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::stream::Stream;
use async_nats::jetstream::{self, ErrorCode};
use futures::StreamExt;
use thiserror::Error;

use crate::model::leader_event::LeaderEvent;
use crate::model::name::{BucketName, NameError, RoleName};
use crate::store::events_stream;

/// How long may pass before the first and between two events that are read.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no history to read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The name of the bucket or the role is none.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Nothing has ever been kept.
    #[error(
        "there is no stream {stream}: set `events = {{ publish = true, keep = \"30d\" }}` in the instances' settings to keep what changes hands from now on"
    )]
    NotKept {
        /// The stream that was looked for.
        stream: String,
    },
    /// NATS could not be asked, or broke off.
    #[error("the history can't be read just now: {0}")]
    Unavailable(String),
}

/// The leader changes of a bucket that are kept: see [`EventsConfig::keep`](crate::EventsConfig::keep).
#[derive(Clone, Debug)]
pub struct History {
    stream: Stream,
    /// What the subjects of a role's events begin with.
    prefix: String,
}

impl History {
    /// Finds the history of a bucket.
    ///
    /// # Errors
    /// [`HistoryError::NotKept`] if no instance has ever been told to keep it, or if somebody made the stream with subjects other than
    /// `<prefix>.<bucket>.*`; [`HistoryError::Name`], [`HistoryError::Unavailable`].
    pub async fn open(client: Client, bucket: &str) -> Result<Self, HistoryError> {
        let bucket = BucketName::new(bucket)?;
        let name = events_stream(&bucket);
        let found = jetstream::new(client).get_stream(&name).await;
        let stream = found.map_err(|error| {
            if is_missing(&error) {
                HistoryError::NotKept { stream: name }
            } else {
                unavailable(error)
            }
        })?;
        let subjects = &stream.cached_info().config.subjects;
        let own = format!(".{bucket}.");
        // As instances make it, or wider in its last part.
        let of_roles = |subject: &String| {
            let prefix = subject.strip_suffix(['*', '>'])?;
            prefix.ends_with(&own).then(|| prefix.to_owned())
        };
        let Some(prefix) = subjects.iter().find_map(of_roles) else {
            let stream = stream.cached_info().config.name.clone();
            return Err(HistoryError::NotKept { stream });
        };
        Ok(Self { stream, prefix })
    }

    /// The last events of a role, the oldest first, at most so many.
    ///
    /// # Errors
    /// [`HistoryError::Name`], [`HistoryError::Unavailable`].
    ///
    /// # Cancel safety
    /// Nothing is left behind if the future is dropped.
    pub async fn of_role(&self, role: &str, most: usize) -> Result<Vec<LeaderEvent>, HistoryError> {
        let role = RoleName::new(role)?;
        self.read(format!("{}{role}", self.prefix), most).await
    }

    /// The last events of all roles, the oldest first, at most so many.
    ///
    /// # Errors
    /// [`HistoryError::Unavailable`].
    pub async fn of_all(&self, most: usize) -> Result<Vec<LeaderEvent>, HistoryError> {
        self.read(format!("{}*", self.prefix), most).await
    }

    async fn read(&self, subject: String, most: usize) -> Result<Vec<LeaderEvent>, HistoryError> {
        let config = pull::OrderedConfig {
            // With a name its permission can be one for this stream's consumers alone.
            name: Some(format!("nats-elect-history-{:016x}", rand::random::<u64>())),
            filter_subject: subject,
            deliver_policy: DeliverPolicy::All,
            ..pull::OrderedConfig::default()
        };
        let created = tokio::time::timeout(PATIENCE, self.stream.create_consumer(config)).await;
        let mut consumer = created.map_err(unavailable)?.map_err(unavailable)?;
        let mut left = consumer.info().await.map_err(unavailable)?.num_pending;
        let mut last = VecDeque::new();
        let mut messages = consumer.messages().await.map_err(unavailable)?;
        while left > 0 {
            let next = tokio::time::timeout(PATIENCE, messages.next()).await;
            let next = next.map_err(unavailable)?.transpose();
            let Some(message) = next.map_err(unavailable)? else {
                break;
            };
            left = message
                .info()
                .map_err(|error| HistoryError::Unavailable(error.to_string()))?
                .pending;
            if let Some(event) = LeaderEvent::parse(&message.payload) {
                if last.len() == most {
                    last.pop_front();
                }
                last.push_back(event);
            }
        }
        last.truncate(most);
        Ok(last.into())
    }
}

fn is_missing(error: &GetStreamError) -> bool {
    matches!(error.kind(), GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

fn unavailable(error: impl std::error::Error) -> HistoryError {
    let cause = error
        .source()
        .map_or_else(String::new, |cause| format!(": {cause}"));
    HistoryError::Unavailable(format!("{error}{cause}"))
}
