//! A stand-in for JetStream in tests. It gives any answer at any time.

use std::collections::HashSet;
use std::sync::Arc;

use async_nats::{Client, Message, Subscriber};
use futures::StreamExt;
use serde_json::{Value, json};

use super::{Bucket, IfMissing};
use nats_elect_core::name::BucketName;
use nats_elect_testing::NatsServer;

/// A client of a server without JetStream. It receives all requests that would go to JetStream.
pub(crate) struct StandIn {
    pub(super) client: Client,
    asked: Subscriber,
    /// Where answers to the requests so far are expected.
    taken: HashSet<String>,
    pub(super) server: NatsServer,
    /// The domain that it reports with the bucket.
    pub(super) domain: Option<&'static str>,
}

/// A request to the stand-in.
#[derive(Debug)]
pub(crate) struct Asked(Message);

impl StandIn {
    pub(crate) async fn new() -> Self {
        let server = NatsServer::builder().without_jetstream().start().unwrap();
        let client = async_nats::connect(server.url()).await.unwrap();
        let mut asked = client.subscribe(">").await.unwrap();
        // An echo proves that the server knows of the subscription.
        client.publish("echo", "".into()).await.unwrap();
        asked.next().await.unwrap();
        Self {
            client,
            asked,
            taken: HashSet::new(),
            server,
            domain: None,
        }
    }

    /// Opens a bucket `leaders` on three servers, over another connection.
    pub(crate) async fn bucket(&mut self) -> Bucket {
        let client = async_nats::connect(self.server.url()).await.unwrap();
        let name = BucketName::new("leaders").unwrap();
        let timeout = super::tests::TIMEOUT;
        let opening = Bucket::open(client, Arc::default(), &name, IfMissing::Fail, timeout);
        let (opened, ()) = tokio::join!(opening, self.tell_of_bucket("2026-11-05T10:20:30Z"));
        opened.unwrap().0
    }

    /// Waits for a request. One that is sent again counts once.
    pub(crate) async fn next(&mut self) -> Asked {
        loop {
            let asked = self.any().await;
            let reply = asked.0.reply.as_ref().map(ToString::to_string);
            if reply.is_none_or(|reply| self.taken.insert(reply)) {
                return asked;
            }
        }
    }

    /// Waits for a request, or for one that is sent again.
    pub(crate) async fn any(&mut self) -> Asked {
        loop {
            let message = self.asked.next().await.unwrap();
            // Its own answers are no requests.
            if message.subject.starts_with('$') {
                return Asked(message);
            }
        }
    }

    pub(crate) async fn tell_of_bucket(&mut self, created: &str) {
        self.tell_of_bucket_as(created, json!({ "_nats.ver": "2.12.8" }))
            .await;
    }

    pub(crate) async fn tell_of_bucket_as(&mut self, created: &str, metadata: Value) {
        let asked = self.next().await;
        assert_eq!(asked.subject(), "$JS.API.STREAM.INFO.KV_leaders");
        let config = json!({
            "subjects": ["$KV.leaders.>"],
            "num_replicas": 3,
            "allow_atomic": true,
            "metadata": metadata,
        });
        let info = json!({ "created": created, "config": config, "domain": self.domain });
        self.answer(asked, &info.to_string()).await;
    }

    pub(crate) async fn answer(&self, asked: Asked, answer: &str) {
        let reply = asked.0.reply.unwrap();
        let answer = answer.to_owned().into();
        self.client.publish(reply, answer).await.unwrap();
    }

    pub(crate) async fn refuse(&self, asked: Asked, code: u64, description: &str) {
        let error = json!({ "code": 400, "err_code": code, "description": description });
        let answer = json!({ "error": error, "stream": "KV_leaders", "seq": 0 });
        self.answer(asked, &answer.to_string()).await;
    }

    /// Refuses a write, because another sequence is stored than the expected one.
    pub(crate) async fn conflict(&self, asked: Asked, current: u64) {
        let text = format!("wrong last sequence: {current}");
        self.refuse(asked, 10071, &text).await;
    }

    /// Confirms a write.
    pub(crate) async fn store(&self, asked: Asked, sequence: u64) {
        let mut answer = json!({ "stream": "KV_leaders", "seq": sequence });
        if let Some(batch) = asked.header("Nats-Batch-Id") {
            answer["batch"] = json!(batch);
            let count: u64 = asked
                .header("Nats-Batch-Sequence")
                .unwrap()
                .parse()
                .unwrap();
            answer["count"] = json!(count);
        }
        self.answer(asked, &answer.to_string()).await;
    }

    /// Answers a read with a stored message that has this value.
    pub(crate) async fn show_value(&self, asked: Asked, sequence: u64, value: &[u8]) {
        let message = json!({
            "subject": "$KV.leaders.x",
            "seq": sequence,
            "time": "2026-11-05T10:20:31Z",
            "data": base64(value),
        });
        let answer = json!({ "message": message });
        self.answer(asked, &answer.to_string()).await;
    }

    /// Answers a read with the stored message, or with nothing.
    pub(crate) async fn show(&self, asked: Asked, sequence: Option<u64>) {
        assert_eq!(asked.subject(), "$JS.API.STREAM.MSG.GET.KV_leaders");
        let Some(sequence) = sequence else {
            return self.refuse(asked, 10037, "no message found").await;
        };
        let message =
            json!({ "subject": "$KV.leaders.x", "seq": sequence, "time": "2026-11-05T10:20:31Z" });
        let answer = json!({ "message": message });
        self.answer(asked, &answer.to_string()).await;
    }
}

impl Asked {
    pub(crate) fn subject(&self) -> &str {
        &self.0.subject
    }

    pub(crate) fn body(&self) -> Value {
        serde_json::from_slice(&self.0.payload).unwrap()
    }

    /// The subject of the answer.
    pub(crate) fn reply(&self) -> &str {
        self.0.reply.as_deref().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.0
            .headers
            .as_ref()?
            .get(name)
            .map(async_nats::HeaderValue::as_str)
    }

    /// Returns the subject of the condition and its expected sequence, or nothing for a request
    /// that is not a conditional write.
    pub(crate) fn condition(&self) -> Option<(&str, u64)> {
        let sequence = self.header("Nats-Expected-Last-Subject-Sequence")?;
        let subject = self.header("Nats-Expected-Last-Subject-Sequence-Subject");
        Some((subject.unwrap_or(self.subject()), sequence.parse().ok()?))
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| {
            bits << 8 | usize::from(group.get(at).copied().unwrap_or(0))
        });
        for at in 0..4 {
            let digit = char::from(DIGITS[bits >> (18 - 6 * at) & 63]);
            text.push(if at > group.len() { '=' } else { digit });
        }
    }
    text
}
