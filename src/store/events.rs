//! Published leader changes, and the stream that keeps them.

use std::time::Duration;

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::stream::Config;
use async_nats::{HeaderMap, Request};
use serde_json::Value;

use super::bucket::{Bucket, NAME_IN_USE, without_limits};
use super::error::StoreError;
use super::write::Ack;
use crate::model::config::ManagerConfig;
use nats_elect_core::name::BucketName;

/// The bound per role. A role that flaps must not push out the events of the others.
const MOST_OF_A_ROLE: i64 = 10_000;

/// How long and how much a stream keeps for which nobody has said so: half a kilobyte each. A bound in
/// bytes would be reserved, once for each replica. In a small account it would take the room of the
/// bucket, once that has to be created anew.
const USUAL_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const USUAL_EVENTS: i64 = 30_000;

/// Returns the name of the stream that keeps a bucket's leader changes.
pub fn events_stream(bucket: &BucketName) -> String {
    format!("nats-elect-events-{bucket}")
}

impl Bucket {
    /// Publishes an event to its subscribers, and waits for no confirmation.
    pub async fn publish_event(&self, subject: String, payload: String) -> Result<(), StoreError> {
        self.require_connection()?;
        let published = self.client().publish(subject, payload.into()).await;
        published.map_err(|error| StoreError::Unavailable(error.to_string()))
    }

    /// Publishes to a stream and waits for its confirmation. The stream keeps an event once, even
    /// if it is sent twice under one id. Returns the stream.
    pub async fn keep_event(
        &self,
        subject: String,
        payload: String,
        id: &str,
        timeout: Duration,
    ) -> Result<String, StoreError> {
        let mut headers = HeaderMap::new();
        headers.insert(NATS_MESSAGE_ID, id);
        let request = Request::new().headers(headers).payload(payload.into());
        let ack: Ack = self.ask(subject, request, None, timeout).await?;
        Ok(ack.stream)
    }

    /// Creates the stream that keeps events, unless a stream of that name exists.
    pub async fn create_events_stream(
        &self,
        manager: &ManagerConfig,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let name = events_stream(self.name());
        let events = &manager.events;
        let usual = (USUAL_AGE, USUAL_EVENTS);
        let (keep, max_messages) = events.keep.map_or(usual, |keep| (keep, -1));
        let config = Config {
            name: name.clone(),
            description: Some("Leader changes (nats-elect)".into()),
            subjects: vec![format!("{}.{}.*", events.subject_prefix, self.name())],
            max_age: keep,
            max_messages,
            max_messages_per_subject: MOST_OF_A_ROLE,
            num_replicas: manager.replicas,
            storage: manager.storage.into(),
            duplicate_window: keep.min(Duration::from_secs(120)),
            ..without_limits()
        };
        let action = format!("STREAM.CREATE.{name}");
        match self.ask_api::<Value>(&action, &config, None, timeout).await {
            // The stream exists, with settings that another client chose.
            Err(StoreError::Rejected {
                code: NAME_IN_USE, ..
            }) => Ok(()),
            created => created.map(drop),
        }
    }
}
