//! Operators with too many rights: they act on the bucket directly.

use std::time::Duration;

use async_nats::jetstream::context::{DeleteStreamError, DeleteStreamErrorKind};
use async_nats::jetstream::{self, Context, ErrorCode};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::plan::{BUCKET, NODES};
use super::{Problem, runtime};

/// How long an operation may take. The nemesis waits for it.
const TIMEOUT: Duration = Duration::from_secs(3);
/// What the account may store on all nodes together. The bucket needs a small part of it.
pub const ACCOUNT_BYTES: usize = 48 << 20;
/// The stream that fills the account.
const FILLER: &str = "chaos-filler";

/// The stream of the bucket.
pub fn stream() -> String {
    format!("KV_{BUCKET}")
}

/// Blocking operations on the bucket. Each has a connection of its own: one may be to a node that
/// is gone by the next.
pub struct Admin(Runtime);

/// What a fault does to a key or to the stream.
#[derive(Clone, Copy, Debug)]
pub enum Deed<'a> {
    /// As `nats kv del` does.
    DeleteKey(&'a str),
    /// Removes the key's messages, so that nothing is left of it.
    PurgeKey(&'a str),
    /// A record of the Go library's form, without a look at what is there.
    ForeignRecord(&'a str),
    /// What stands under the first key, under the second one.
    Copy(&'a str, &'a str),
    /// Makes the stream's leader give its place to another node.
    MoveStream,
    /// Stores in another stream until the account has no room for the bucket's writes.
    FillAccount,
    /// Deletes that stream.
    FreeAccount,
    /// As `nats kv rm` does.
    DeleteBucket,
}

impl Admin {
    pub fn new() -> Result<Self, Problem> {
        let runtime = runtime()?;
        Ok(Self(runtime))
    }

    /// Does it at the node with this address. Success means that NATS has confirmed it.
    pub fn act(&self, url: &str, deed: Deed<'_>) -> Result<(), Problem> {
        self.within_time(carry_out(url, deed))
    }

    /// Reads what stands under a key, from the stream's leader.
    pub fn read(&self, url: &str, key: &str) -> Result<Value, Problem> {
        let read = self.within_time(async {
            let context = jetstream::new(async_nats::connect(url).await?);
            read(&context, key).await
        });
        Ok(serde_json::from_slice(&read?)?)
    }

    fn within_time<T>(&self, deed: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
        let done = async { tokio::time::timeout(TIMEOUT, deed).await };
        let done = self.0.block_on(done);
        done.map_err(|_| "no answer from NATS")?
    }
}

async fn carry_out(url: &str, deed: Deed<'_>) -> Result<(), Problem> {
    let client = async_nats::connect(url).await?;
    let context = jetstream::new(client.clone());
    match deed {
        Deed::DeleteKey(key) => context.get_key_value(BUCKET).await?.delete(key).await?,
        Deed::PurgeKey(key) => {
            let stream = context.get_stream_no_info(stream()).await?;
            let purged = stream.purge().filter(subject(key)).await?;
            if purged.purged == 0 {
                return Err("there was nothing under the key".into());
            }
        }
        Deed::ForeignRecord(key) => {
            let record = r#"{"id":"stranger","token":"00000000-0000-4000-8000-000000000000"}"#;
            context.publish(subject(key), record.into()).await?.await?;
        }
        Deed::Copy(from, to) => {
            let record = read(&context, from).await?;
            context.publish(subject(to), record.into()).await?.await?;
        }
        Deed::MoveStream => {
            let order = format!("$JS.API.STREAM.LEADER.STEPDOWN.{}", stream());
            let answer = client.request(order, "".into()).await?;
            let answer: Value = serde_json::from_slice(&answer.payload)?;
            if answer["success"] != true {
                return Err(answer["error"]["description"].to_string().into());
            }
        }
        Deed::FillAccount => fill_account(&context).await?,
        Deed::FreeAccount => match context.delete_stream(FILLER).await {
            Err(error) if !is_missing(&error) => return Err(error.into()),
            _ => {}
        },
        Deed::DeleteBucket => {
            context.delete_stream(stream()).await?;
        }
    }
    Ok(())
}

async fn fill_account(context: &Context) -> Result<(), Problem> {
    let config = jetstream::stream::Config {
        name: FILLER.to_owned(),
        num_replicas: NODES,
        ..jetstream::stream::Config::default()
    };
    context.get_or_create_stream(config).await?;
    let block = vec![0; 512 << 10];
    // The nodes tell each other how much they store, and only now and then.
    while stores(context, FILLER.to_owned(), &block).await
        || stores(context, subject("_probe.filled"), &[]).await
    {}
    Ok(())
}

/// Whether NATS stores it.
async fn stores(context: &Context, subject: String, payload: &[u8]) -> bool {
    let sent = context.publish(subject, payload.to_vec().into()).await;
    match sent {
        Ok(sent) => sent.await.is_ok(),
        Err(_) => false,
    }
}

fn is_missing(error: &DeleteStreamError) -> bool {
    matches!(error.kind(), DeleteStreamErrorKind::JetStream(error)
        if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

async fn read(context: &Context, key: &str) -> Result<Vec<u8>, Problem> {
    let stream = context.get_stream_no_info(stream()).await?;
    let subject = subject(key);
    let message = stream.get_last_raw_message_by_subject(&subject).await?;
    Ok(message.payload.to_vec())
}

fn subject(key: &str) -> String {
    format!("$KV.{BUCKET}.{key}")
}
