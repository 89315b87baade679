//! The capabilities of a bucket, from the settings that the server returned. A server silently
//! drops settings that it does not know.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;

use super::error::StoreError;
use super::server::require_answering_server;
use super::settings::{BucketNote, StreamConfig, StreamState};
use crate::model::admin::BucketId;
use nats_elect_core::name::{BucketName, NameError};

/// The key of the server's version in a stream's metadata.
const SERVER_VERSION: &str = "_nats.ver";

/// The identity and the capabilities of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketInfo {
    /// The bucket's creation time by the server's clock, in nanoseconds since the Unix epoch. A
    /// recreated bucket has another one.
    pub epoch: u64,
    /// The maximum lifetime of its keys.
    pub max_age: Option<Duration>,
    /// Whether the server can write several messages as one.
    pub atomic: bool,
    /// The largest message that it takes, headers included, in bytes.
    pub max_msg_size: Option<usize>,
    /// Whether its sequences are greater than those of a deleted bucket of the same name.
    pub unique_sequences: bool,
    /// The number of servers that keep it.
    pub replicas: usize,
    /// Whether this client has just created it.
    pub created: bool,
    /// Its shortcomings and risks.
    pub notes: Vec<BucketNote>,
}

/// A review of a bucket's settings, for programs that look at buckets, such as a check before a
/// deployment. It contains the warnings that a manager logs when it starts.
///
/// ```no_run
/// use nats_elect::{BoxError, BucketReview, ManagerConfig};
///
/// # async fn run() -> Result<(), BoxError> {
/// let config = ManagerConfig::default().with_env()?;
/// let client = config.connect("preflight").await?;
/// let subject = format!("$JS.API.STREAM.INFO.KV_{}", config.bucket);
/// let answer = client.request(subject, "".into()).await?;
/// match BucketReview::of_answer(&config.bucket, &answer.payload)? {
///     None => println!("the server did not describe the bucket"),
///     Some(BucketReview { unfit: Some(why), .. }) => println!("no elections: {why}"),
///     Some(review) => {
///         for note in review.notes {
///             println!("{}: {} (to change it: {})", note.setting, note.risk, note.remedy);
///         }
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketReview {
    /// What tells the bucket apart from others of its name. `None` if the answer does not.
    pub id: Option<BucketId>,
    /// The reason why the bucket is not fit for elections, if there is one, with what mends it. A
    /// manager does not start on such a bucket, and one that runs ends its terms.
    pub unfit: Option<String>,
    /// Its shortcomings and risks.
    pub notes: Vec<BucketNote>,
    /// The number of roles that its limits have room for at most, or nothing if it has no limits. A
    /// role takes two keys and 1 KiB, or three and 1.5 KiB with several replicas.
    pub room: Option<u64>,
    /// The number of further roles that there is room for at most, beside the stored messages, or
    /// nothing if the bucket has no limits.
    pub spare: Option<u64>,
}

impl BucketReview {
    /// Reviews the server's answer to `$JS.API.STREAM.INFO.KV_<bucket>`. Returns nothing if the
    /// answer cannot be read.
    ///
    /// A server leaves out settings that it does not know. The review takes them as not set. A
    /// server that is too old for elections makes the bucket unfit.
    ///
    /// # Errors
    /// [`NameError`], if no bucket can have this name.
    pub fn of_answer(bucket: &str, answer: &[u8]) -> Result<Option<Self>, NameError> {
        let bucket = BucketName::new(bucket)?;
        let stream = serde_json::from_slice::<StreamInfo>(answer).ok();
        Ok(stream.map(|stream| Self {
            id: stream.id(),
            unfit: stream.problem(&bucket),
            notes: stream.config.notes(&bucket),
            room: stream.config.room_beside(&StreamState::default()),
            spare: stream.config.room_beside(&stream.state),
        }))
    }
}

/// The server's answer. It has only the fields that are needed here, so that later servers may add
/// others.
#[derive(Deserialize)]
pub(super) struct StreamInfo {
    created: String,
    /// When the server answered, by its clock.
    #[serde(default, rename = "ts")]
    answered: Option<String>,
    config: StreamConfig,
    #[serde(default)]
    pub domain: Option<String>,
    #[serde(default)]
    pub state: StreamState,
}

impl StreamInfo {
    fn id(&self) -> Option<BucketId> {
        let epoch = self.epoch().ok()?;
        Some(BucketId::new(self.domain.as_deref(), epoch))
    }

    pub fn epoch(&self) -> Result<u64, StoreError> {
        let unreadable = |why: &str| StoreError::unreadable("creation time", why);
        let created = humantime::parse_rfc3339(&self.created)
            .map_err(|error| unreadable(&error.to_string()))?
            .duration_since(UNIX_EPOCH)
            .map_err(|error| unreadable(&error.to_string()))?;
        u64::try_from(created.as_nanos()).map_err(|_| unreadable("too late"))
    }

    /// Returns when the stream's leader answered, by its clock. The time is for people.
    pub fn answered(&self) -> Option<SystemTime> {
        humantime::parse_rfc3339(self.answered.as_deref()?).ok()
    }

    /// Returns the version of the server that answered, which is the stream's leader. Servers from
    /// 2.11 on add the version to their answers, and never store it.
    pub fn server_version(&self) -> Option<&str> {
        let metadata = self.config.metadata.as_ref()?;
        metadata.get(SERVER_VERSION).map(String::as_str)
    }

    /// Returns the reason why the bucket is not fit for elections, if there is one.
    fn problem(&self, bucket: &BucketName) -> Option<String> {
        match require_answering_server(self.server_version()) {
            Err(error) => Some(error.to_string()),
            Ok(()) => self.config.problem(bucket),
        }
    }

    pub fn assess(&self, bucket: &BucketName) -> Result<BucketInfo, StoreError> {
        if let Some(problem) = self.config.problem(bucket) {
            return Err(StoreError::BucketUnfit(problem));
        }
        let config = &self.config;
        let max_age = Duration::from_nanos(config.max_age);
        Ok(BucketInfo {
            epoch: self.epoch()?,
            max_age: (!max_age.is_zero()).then_some(max_age),
            atomic: config.allow_atomic,
            max_msg_size: usize::try_from(config.max_msg_size)
                .ok()
                .filter(|size| *size > 0),
            unique_sequences: config.unique_sequences(),
            replicas: config.num_replicas,
            created: false,
            notes: config.notes(bucket),
        })
    }
}

#[cfg(test)]
mod tests;
