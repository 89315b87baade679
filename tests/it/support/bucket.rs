//! The bucket in the eyes and hands of a stranger.

use std::sync::{Arc, Mutex};

use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::context::CreateStreamErrorKind;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, StorageType, Stream};
use async_nats::jetstream::{self, ErrorCode, kv};
use async_nats::{Client, ConnectOptions, HeaderMap, Message, Subscriber};
use futures::StreamExt;
use nats_elect_testing::eventually;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::clock::Stamp;
use super::{BUCKET, ROLE, SOON};

/// A client of the bucket `leaders` that takes no part in elections.
pub struct Stranger {
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
        Self::of(client)
    }

    pub fn of(client: Client) -> Self {
        let jetstream = jetstream::new(client);
        Self { jetstream }
    }

    /// Makes the bucket as the Key-Value API does, with history 1 and in memory.
    pub async fn make_bucket(&self, config: kv::Config) -> kv::Store {
        let config = kv::Config {
            bucket: BUCKET.to_owned(),
            history: 1,
            storage: StorageType::Memory,
            ..config
        };
        let made = self.jetstream.create_key_value(config).await;
        made.expect("make the bucket")
    }

    /// The same where it connects, without further settings.
    pub async fn with_bucket(url: &str) -> (Self, kv::Store) {
        let stranger = Self::connect(url).await;
        let store = stranger.make_bucket(kv::Config::default()).await;
        (stranger, store)
    }

    pub async fn delete_bucket(&self) {
        let deleted = self.jetstream.delete_key_value(BUCKET).await;
        deleted.expect("delete the bucket");
    }

    /// Deletes the bucket and makes it anew, empty, with the same settings. Instances that run may
    /// make it first.
    pub async fn replace_bucket(&self) {
        let config = self.stream().await.cached_info().config.clone();
        self.delete_bucket().await;
        if let Err(error) = self.jetstream.create_stream(config).await {
            let is_there = matches!(error.kind(), CreateStreamErrorKind::JetStream(error)
                if error.error_code() == ErrorCode::STREAM_NAME_EXIST);
            assert!(is_there, "make the bucket: {error}");
        }
    }

    pub async fn store(&self) -> kv::Store {
        self.jetstream
            .get_key_value(BUCKET)
            .await
            .expect("the bucket")
    }

    pub async fn stream(&self) -> Stream {
        let stream = format!("KV_{BUCKET}");
        // A cluster that has just lost a node answers nobody until another one leads it.
        eventually(SOON, "the stream", async || {
            self.jetstream.get_stream(&stream).await.ok()
        })
        .await
    }

    /// Lets Key-Value clients purge keys, which buckets of ours forbid.
    pub async fn allow_purges(&self) {
        let mut config = self.stream().await.cached_info().config.clone();
        config.allow_rollup = true;
        self.jetstream.update_stream(config).await.expect("edited");
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

    /// Notes what is stored under a key from now on.
    pub async fn tape(&self, key: &str) -> Tape {
        let config = pull::OrderedConfig {
            filter_subject: format!("$KV.{BUCKET}.{key}"),
            deliver_policy: DeliverPolicy::LastPerSubject,
            ..Default::default()
        };
        let stream = self.stream().await;
        // A cluster that is busy with a new stream may not make a consumer of it in time.
        let mut messages = eventually(SOON, "a consumer", async || {
            let consumer = stream.create_consumer(config.clone()).await.ok()?;
            consumer.messages().await.ok()
        })
        .await;
        let pieces = Arc::<Mutex<Vec<Piece>>>::default();
        let taping = Arc::clone(&pieces);
        let reader = tokio::spawn(async move {
            while let Some(Ok(message)) = messages.next().await {
                let piece = Piece {
                    at: Stamp::now(),
                    sequence: message.info().expect("its info").stream_sequence,
                    headers: message.headers.clone().unwrap_or_default(),
                    value: serde_json::from_slice(&message.payload).unwrap_or_default(),
                };
                taping.lock().expect("no panic").push(piece);
            }
        });
        Tape { pieces, reader }
    }

    /// Hears what is sent to a key from now on: also what the next message replaces before a tape
    /// has read it.
    pub async fn hear(&self, key: &str) -> Heard {
        let subject = format!("$KV.{BUCKET}.{key}");
        let subscribed = self.jetstream.client().subscribe(subject).await;
        // The server takes what one connection sends in its order.
        self.stream().await;
        Heard(subscribed.expect("subscribed"))
    }

    /// The sequence of the role's fence record.
    pub async fn fence_sequence(&self, role: &str) -> u64 {
        let key = format!("_fence.{role}");
        self.find(&key).await.expect("a fence record").sequence
    }
}

/// What was stored under a key, one message after the other.
pub struct Tape {
    pieces: Arc<Mutex<Vec<Piece>>>,
    reader: JoinHandle<()>,
}

/// A message that was stored.
#[derive(Clone, Debug)]
pub struct Piece {
    /// When it was read: later than it was sent.
    pub at: Stamp,
    pub sequence: u64,
    pub headers: HeaderMap,
    /// Null if it is no JSON.
    pub value: Value,
}

impl Tape {
    pub fn all(&self) -> Vec<Piece> {
        self.pieces.lock().expect("no panic").clone()
    }

    /// The last message so far; the first one is waited for.
    pub async fn last(&self) -> Piece {
        eventually(SOON, "a message", async || self.all().pop()).await
    }

    /// Waits for a message, in the past or the future.
    pub async fn wait_for(&self, what: &str, is_it: impl Fn(&Piece) -> bool) -> Piece {
        eventually(SOON, what, async || self.all().into_iter().find(&is_it)).await
    }

    /// Waits for a record above that sequence.
    pub async fn wait_for_record_above(&self, sequence: u64) -> Piece {
        self.wait_for("a newer record", |piece| {
            piece.sequence > sequence && piece.value.is_object()
        })
        .await
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// What is sent to a key, taken or not.
pub struct Heard(Subscriber);

impl Heard {
    /// Waits for the message that frees the role.
    pub async fn release(&mut self) -> Message {
        let released = async {
            loop {
                let message = self.0.next().await.expect("a connection");
                let headers = message.headers.as_ref();
                if headers.is_some_and(|headers| release_of(headers).is_some()) {
                    break message;
                }
            }
        };
        let released = tokio::time::timeout(SOON, released).await;
        released.expect("a release in time")
    }
}

/// The header by which a leader frees its role.
pub fn release_of(headers: &HeaderMap) -> Option<&str> {
    headers.get("Nats-Elect-Release").map(AsRef::as_ref)
}

/// What kind of delete marker it is, if it is one.
pub fn marker_of(headers: &HeaderMap) -> Option<&str> {
    headers.get("KV-Operation").map(AsRef::as_ref)
}

/// Publishes these very header bytes, as no client would, and a value.
pub fn publish_headers(url: &str, subject: &str, headers: &[u8], value: &[u8]) {
    use std::io::{BufRead, BufReader, Write};
    let address = url.replace("nats://", "");
    let mut stream = std::net::TcpStream::connect(address).expect("connect");
    let mut lines = BufReader::new(stream.try_clone().expect("clone"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("INFO");
    let (bytes, all) = (headers.len(), headers.len() + value.len());
    let options = r#"{"verbose":false,"headers":true,"protocol":1}"#;
    write!(
        stream,
        "CONNECT {options}\r\nHPUB {subject} {bytes} {all}\r\n"
    )
    .expect("write");
    stream.write_all(headers).expect("write");
    stream.write_all(value).expect("write");
    stream.write_all(b"\r\nPING\r\n").expect("write");
    line.clear();
    lines.read_line(&mut line).expect("PONG");
    assert_eq!(line, "PONG\r\n");
}
