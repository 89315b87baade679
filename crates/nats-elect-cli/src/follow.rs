//! Leader events as the history gets them.

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::{self, stream::Stream};
use futures::StreamExt;
use nats_elect::{BucketName, Error, LeaderEvent, events_stream};

use crate::exit::Failure;

/// The pause after an interruption. The consumer makes itself anew.
const PAUSE: Duration = Duration::from_secs(1);

/// The events of a bucket from one point on.
pub struct Follow(Stream);

impl Follow {
    /// Remembers where the history of a bucket ends now.
    pub async fn from_now(client: Client, bucket: &str) -> Result<Self, Failure> {
        let name = BucketName::new(bucket).map_err(Error::from)?;
        let stream = jetstream::new(client)
            .get_stream(events_stream(&name))
            .await;
        Ok(Self(stream.map_err(failed)?))
    }

    /// Hands each later event to `tell`, until the history can't be followed.
    pub async fn each(&self, tell: impl Fn(&LeaderEvent)) -> Result<(), Failure> {
        let config = pull::OrderedConfig {
            // A named consumer allows a permission for this stream's consumers alone.
            name: Some(format!("nats-elect-history-{:016x}", rand::random::<u64>())),
            deliver_policy: DeliverPolicy::ByStartSequence {
                start_sequence: self.0.cached_info().state.last_sequence + 1,
            },
            ..pull::OrderedConfig::default()
        };
        let consumer = self.0.create_consumer(config).await.map_err(failed)?;
        let mut messages = consumer.messages().await.map_err(failed)?;
        while let Some(message) = messages.next().await {
            match message {
                Ok(message) => {
                    if let Some(event) = LeaderEvent::parse(&message.payload) {
                        tell(&event);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "the history is interrupted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        Err(failed("its stream has ended"))
    }
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::unreachable(format!("the history can't be followed: {why}"))
}
