//! A request with one answer and one deadline.

use std::time::Duration;

use async_nats::client::PublishErrorKind;
use async_nats::connection::State;
use async_nats::jetstream::response::Response;
use async_nats::{Client, Request, StatusCode};
use serde::de::DeserializeOwned;

use super::bucket::Bucket;
use super::error::StoreError;
use super::fenced::LATE;
use crate::backoff::Backoff;
use nats_elect_core::name::BucketName;

/// The times after which a read without an answer is sent again.
pub(super) const READ_AGAIN: Backoff =
    Backoff::new(Duration::from_millis(300), Duration::from_secs(10));
/// The error text when the requested subject has no subscriber.
pub const NO_RESPONDERS: &str = "nobody answers for the bucket";
/// The error text when the client has ended. It will not connect again.
const CLOSED: &str = "the connection is closed for good";
/// The error text when nothing was sent.
const NOT_CONNECTED: &str = "not connected";
/// The error texts of a watch that lost its connection.
pub const SUBSCRIPTION_ENDED: &str = "the subscription has ended";
pub const REPLACED: &str = "the connection was replaced";
/// The error text of what waits for the bucket.
pub const OUT_OF_REACH: &str = "the bucket is out of reach";
/// The ends of the texts that say that the connection is gone. A server that answers that something
/// is not available just now, as each does while it restarts, is none of these.
pub(super) const CUT_OFF: [&str; 5] = [
    NOT_CONNECTED,
    CLOSED,
    SUBSCRIPTION_ENDED,
    REPLACED,
    OUT_OF_REACH,
];

impl Bucket {
    /// Sends a request and reads the JSON answer. The timeout counts from the call. It includes the
    /// wait for room in the client's queue.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        subject: String,
        request: Request,
        timeout: Duration,
    ) -> Result<T, StoreError> {
        let answer = self.ask_plainly(subject, request, timeout).await?;
        understood(answer.as_ref(), self.name())
    }

    /// Sends a request and returns the answer as it is. A dropped future leaves nothing behind.
    pub(super) async fn ask_plainly(
        &self,
        subject: String,
        request: Request,
        timeout: Duration,
    ) -> Result<impl AsRef<[u8]> + use<>, StoreError> {
        self.send(subject, request, None, timeout).await
    }

    /// Sends a request to the `JetStream` API.
    pub(super) async fn ask_api<T: DeserializeOwned>(
        &self,
        action: &str,
        body: &impl serde::Serialize,
        timeout: Duration,
    ) -> Result<T, StoreError> {
        self.call_api(action, body, None, timeout).await
    }

    /// Sends a request to the `JetStream` API that changes nothing, until it is answered. While a
    /// stream of a cluster has no leader, its servers drop requests without a word.
    pub(super) async fn read_api<T: DeserializeOwned>(
        &self,
        action: &str,
        body: &impl serde::Serialize,
        timeout: Duration,
    ) -> Result<T, StoreError> {
        self.call_api(action, body, Some(READ_AGAIN), timeout).await
    }

    async fn call_api<T: DeserializeOwned>(
        &self,
        action: &str,
        body: &impl serde::Serialize,
        again: Option<Backoff>,
        timeout: Duration,
    ) -> Result<T, StoreError> {
        let body =
            serde_json::to_vec(body).map_err(|error| StoreError::unreadable("request", error))?;
        let request = Request::new().payload(body.into());
        let subject = format!("$JS.API.{action}");
        let answer = self.send(subject, request, again, timeout).await?;
        understood(answer.as_ref(), self.name())
    }

    /// Sends a request and returns the first answer. Without an answer it is sent again after these
    /// times, or not at all.
    async fn send(
        &self,
        subject: String,
        request: Request,
        again: Option<Backoff>,
        timeout: Duration,
    ) -> Result<impl AsRef<[u8]> + use<>, StoreError> {
        let closed = || StoreError::Unavailable(CLOSED.into());
        let asking = async {
            let client = self.client();
            let subscribed = self.mailbox().expect(client, &subject).await;
            let mut awaited = subscribed.map_err(|_| closed())?;
            let payload = request.payload.unwrap_or_default();
            let headers = request.headers.unwrap_or_default();
            let mut sent = 0;
            let answer = loop {
                self.require_connection()?;
                let sending = client.publish_with_reply_and_headers(
                    subject.clone(),
                    awaited.reply.clone(),
                    headers.clone(),
                    payload.clone(),
                );
                sending.await.map_err(|error| match error.kind() {
                    PublishErrorKind::Send => closed(),
                    PublishErrorKind::InvalidSubject | PublishErrorKind::MaxPayloadExceeded => {
                        StoreError::Rejected {
                            code: 0,
                            detail: error.to_string(),
                        }
                    }
                })?;
                let Some(again) = again else {
                    break awaited.answer().await;
                };
                let patience = again.spread_after(sent);
                if let Ok(answer) = tokio::time::timeout(patience, awaited.answer()).await {
                    break answer;
                }
                sent += 1;
            };
            let answer = answer.ok_or_else(closed)?;
            let answer = answer.map_err(|it| StoreError::PermissionDenied(it.to_string()))?;
            if answer.status == Some(StatusCode::NO_RESPONDERS) {
                return Err(StoreError::Unavailable(NO_RESPONDERS.into()));
            }
            Ok(answer.payload)
        };
        let answer = tokio::time::timeout(timeout, asking).await;
        answer.unwrap_or_else(|_| {
            Err(StoreError::Timeout {
                subject: subject.clone(),
            })
        })
    }

    pub(super) fn require_connection(&self) -> Result<(), StoreError> {
        require_connection(self.client())
    }
}

/// Returns an error while the client is disconnected. A disconnected client sends its messages
/// after it has reconnected, however late that is.
pub(super) fn require_connection(client: &Client) -> Result<(), StoreError> {
    match client.connection_state() {
        State::Connected => Ok(()),
        State::Pending | State::Disconnected => Err(StoreError::Unavailable(NOT_CONNECTED.into())),
    }
}

/// Returns whether the error says that the client has ended.
pub fn is_closed(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(detail) if detail == CLOSED)
}

/// Returns whether nothing was sent that a server could store, or no server can have received it.
pub fn is_unsent(error: &StoreError) -> bool {
    match error {
        StoreError::Unavailable(detail) => {
            detail == NOT_CONNECTED || detail == NO_RESPONDERS || detail.starts_with(LATE)
        }
        StoreError::PermissionDenied(detail) => detail.starts_with(LATE),
        _ => false,
    }
}

/// Reads an answer.
pub(super) fn understood<T: DeserializeOwned>(
    payload: &[u8],
    bucket: &BucketName,
) -> Result<T, StoreError> {
    match serde_json::from_slice(payload) {
        Ok(Response::Ok(answer)) => Ok(answer),
        Ok(Response::Err { error }) => Err(StoreError::from_server(&error, bucket.as_str())),
        Err(error) => Err(StoreError::unreadable("answer", error)),
    }
}
