//! Requests between processes, over NATS itself: peer requests and admin requests. The bucket
//! stores none of them.
//!
//! Answers come to a subject of the service's own, not to `_INBOX`. So instances need no permission
//! to publish to inboxes. With that permission they could pretend to be the server that confirms
//! other instances' writes.

use async_nats::{Client, HeaderMap, Message, StatusCode, Subject, Subscriber};
use futures::stream::{self, Stream, StreamExt};
use uuid::Uuid;

use super::bucket::Bucket;
use super::error::StoreError;
use super::request::require_connection;

/// A request that was sent, and its answers.
pub struct Asking {
    answers: Subscriber,
    pub subject: String,
    /// The subject of the answers.
    pub reply: String,
}

impl Asking {
    /// Sends a request. Its answers come to a subject of its own under this prefix.
    pub async fn begin(
        client: &Client,
        prefix: &str,
        subject: String,
        body: Vec<u8>,
    ) -> Result<Self, StoreError> {
        require_connection(client)?;
        let number = Uuid::from_u128(rand::random());
        let reply = format!("{prefix}.{number}");
        let answers = subscribe(client, reply.clone()).await?;
        client
            .publish_with_reply(subject.clone(), reply.clone(), body.into())
            .await
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Self {
            answers,
            subject,
            reply,
        })
    }

    /// Returns the next answer, or nothing if nobody is there to answer.
    ///
    /// Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Result<Option<Message>, StoreError> {
        let ended = || StoreError::Unavailable("the connection ended".into());
        let message = self.answers.next().await.ok_or_else(ended)?;
        let nobody = message.status == Some(StatusCode::NO_RESPONDERS);
        Ok((!nobody).then_some(message))
    }
}

impl Bucket {
    /// Returns the requests to these subjects, each with what its subject stands for. The stream
    /// ends with the connection.
    pub(super) async fn requests<T: Clone + Send + 'static>(
        &self,
        subjects: Vec<(String, T)>,
    ) -> Result<impl Stream<Item = (T, Message)> + Send + Unpin + use<T>, StoreError> {
        require_connection(self.client())?;
        let mut subscriptions = Vec::new();
        for (subject, kind) in subjects {
            let messages = subscribe(self.client(), subject).await?;
            subscriptions.push(messages.map(move |message| (kind.clone(), message)));
        }
        Ok(stream::select_all(subscriptions))
    }

    /// Answers a request. The asker may have gone.
    pub(super) async fn respond(&self, to: Subject, headers: HeaderMap, body: Vec<u8>) {
        if require_connection(self.client()).is_ok() {
            let sending = self.client().publish_with_headers(to, headers, body.into());
            let _ = sending.await;
        }
    }
}

/// Subscribes to a subject.
pub(super) async fn subscribe(client: &Client, subject: String) -> Result<Subscriber, StoreError> {
    let subscribed = client.subscribe(subject).await;
    subscribed.map_err(|error| StoreError::Unavailable(format!("not subscribed: {error}")))
}
