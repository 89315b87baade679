//! The bucket in the eyes and hands of a stranger.

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use async_nats::jetstream::{self, kv};
use async_nats::{Client, ConnectOptions};
use serde_json::Value;

use super::{BUCKET, ROLE};

/// A client of the bucket `leaders` that takes no part in elections.
pub struct Stranger {
    pub client: Client,
    pub jetstream: jetstream::Context,
}

impl Stranger {
    pub async fn connect(url: &str) -> Self {
        Self::connect_as(url, ConnectOptions::new()).await
    }

    pub async fn connect_as(url: &str, options: ConnectOptions) -> Self {
        let client = options
            .connect(url.split(',').collect::<Vec<_>>())
            .await
            .expect("connect");
        Self {
            jetstream: jetstream::new(client.clone()),
            client,
        }
    }

    /// Makes the bucket as the Key-Value API does, with history 1.
    pub async fn make_bucket(&self, config: kv::Config) -> kv::Store {
        let config = kv::Config {
            bucket: BUCKET.to_owned(),
            history: 1,
            ..config
        };
        let made = self.jetstream.create_key_value(config).await;
        made.expect("make the bucket")
    }

    pub async fn delete_bucket(&self) {
        let deleted = self.jetstream.delete_key_value(BUCKET).await;
        deleted.expect("delete the bucket");
    }

    pub async fn store(&self) -> kv::Store {
        self.jetstream
            .get_key_value(BUCKET)
            .await
            .expect("the bucket")
    }

    pub async fn stream(&self) -> Stream {
        let stream = format!("KV_{BUCKET}");
        self.jetstream.get_stream(stream).await.expect("the stream")
    }

    /// The last message under a key, as the stream's leader has it.
    pub async fn find(&self, key: &str) -> Option<StreamMessage> {
        let subject = format!("$KV.{BUCKET}.{key}");
        let found = self.stream().await;
        match found.get_last_raw_message_by_subject(&subject).await {
            Ok(message) => Some(message),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => None,
            Err(error) => panic!("no answer about {key}: {error}"),
        }
    }

    /// The last message under the key of the role of most tests.
    pub async fn message(&self) -> StreamMessage {
        self.find(ROLE)
            .await
            .expect("a message under the role's key")
    }

    pub async fn record(&self) -> Value {
        self.record_of(ROLE).await
    }

    pub async fn record_of(&self, role: &str) -> Value {
        let message = self.find(role).await.expect("a message");
        serde_json::from_slice(&message.payload).expect("a record in JSON")
    }

    /// The sequence of the role's fence record.
    pub async fn fence_sequence(&self, role: &str) -> u64 {
        let key = format!("_fence.{role}");
        self.find(&key).await.expect("a fence record").sequence
    }
}

/// The header by which a leader frees its role.
pub fn release_of(message: &StreamMessage) -> Option<&str> {
    message.headers.get("Nats-Elect-Release").map(AsRef::as_ref)
}

/// What kind of delete marker it is, if it is one.
pub fn marker_of(message: &StreamMessage) -> Option<&str> {
    message.headers.get("KV-Operation").map(AsRef::as_ref)
}
