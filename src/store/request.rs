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
use super::mailbox::{Awaited, Received};
use crate::backoff::Backoff;
use crate::clock;
use nats_elect_core::Moment;
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

impl Bucket {
    /// Sends a request and reads the JSON answer. The timeout counts from the call. It includes the
    /// wait for room in the client's queue.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        subject: String,
        request: Request,
        again: Option<Backoff>,
        timeout: Duration,
    ) -> Result<T, StoreError> {
        let answer = self.send(subject, request, again, timeout).await?;
        understood(answer.as_ref(), self.name())
    }

    /// Sends a request to the `JetStream` API.
    ///
    /// One that changes nothing is sent [again](READ_AGAIN) and again until it is answered. While a
    /// stream of a cluster has no leader, its servers drop requests without a word. A server that is
    /// busy gets no more of them for it.
    pub(super) async fn ask_api<T: DeserializeOwned>(
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
        self.ask(subject, request, again, timeout).await
    }

    /// Sends a request and returns the first answer, as it is. If it seems to be lost after one of
    /// these times, it is sent again; or never. A dropped future leaves nothing behind.
    pub(super) async fn send(
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
            let sent = clock::now();
            let mut pauses = 0;
            let answer = loop {
                self.require_connection()?;
                let sending = client.publish_with_reply_and_headers(
                    subject.clone(),
                    awaited.reply().to_owned(),
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
                if let Some(answer) = self.answered(&mut awaited, sent, again, &mut pauses).await {
                    break answer;
                }
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

    /// Waits for the answer to a read, or until the read seems to be lost.
    async fn answered(
        &self,
        awaited: &mut Awaited,
        sent: Moment,
        again: Backoff,
        pauses: &mut u32,
    ) -> Option<Received> {
        loop {
            let patience = again.spread_after(*pauses);
            *pauses += 1;
            let answer = tokio::time::timeout(patience, awaited.answer()).await;
            let mut answers = self.read_answers();
            if let Ok(answer) = answer {
                answers.note(sent, clock::now());
                return Some(answer);
            }
            if answers.passed_over(sent, patience, clock::now()) {
                return None;
            }
        }
    }

    pub(super) fn require_connection(&self) -> Result<(), StoreError> {
        require_connection(self.client())
    }
}

/// The answers to reads of a bucket. They tell a server that is busy from one that drops requests.
#[derive(Debug)]
pub(super) struct ReadAnswers {
    /// When the last one came.
    last: Moment,
    /// When the last of the reads that are answered was sent.
    sent: Moment,
}

impl ReadAnswers {
    pub const NONE: Self = Self {
        last: Moment::from_nanos(0),
        sent: Moment::from_nanos(0),
    };

    fn note(&mut self, sent: Moment, now: Moment) {
        self.last = now;
        self.sent = self.sent.max(sent);
    }

    /// Whether a read that was sent at this moment seems to be lost: for a while no read was
    /// answered, or one was that was sent so much later. A server answers most reads in turn.
    fn passed_over(&self, sent: Moment, patience: Duration, now: Moment) -> bool {
        now.since(self.last) >= patience || self.sent.since(sent) >= patience
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_read_seems_lost_once_no_answers_come() {
        let began = Moment::from_nanos(0) + SECOND;
        let mut answers = ReadAnswers::NONE;
        assert!(answers.passed_over(began, SECOND, began + SECOND));
        answers.note(began, began + SECOND / 2);
        assert!(!answers.passed_over(began, SECOND, began + SECOND));
        assert!(answers.passed_over(began, SECOND, began + SECOND * 3 / 2));
    }

    #[test]
    fn a_read_seems_lost_once_one_that_was_sent_long_after_it_is_answered() {
        let began = Moment::from_nanos(0) + SECOND;
        let mut answers = ReadAnswers::NONE;
        let now = began + SECOND * 9;
        answers.note(began + SECOND, now);
        answers.note(began, now);
        assert!(answers.passed_over(began, SECOND, now));
        assert!(!answers.passed_over(began + SECOND / 2, SECOND, now));
    }
}
