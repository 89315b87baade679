//! One question, one answer, one deadline.

use std::time::Duration;

use async_nats::Request;
use async_nats::client::RequestErrorKind;
use async_nats::connection::State;
use async_nats::jetstream::response::Response;
use serde::de::DeserializeOwned;

use super::bucket::Bucket;
use super::error::StoreError;
use crate::model::name::BucketName;

/// What an error says when nobody is subscribed to what was asked.
pub const NO_RESPONDERS: &str = "nobody answers for the bucket";
/// What an error says when the client has ended: it will not connect again.
const CLOSED: &str = "the connection is closed for good";

impl Bucket {
    /// Asks and reads the JSON answer. The timeout counts from the call, waiting for room in the client's queue included.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        subject: String,
        request: Request,
        timeout: Duration,
    ) -> Result<T, StoreError> {
        let answer = self.ask_plainly(subject, request, timeout).await?;
        understood(answer.as_ref(), self.name())
    }

    /// Asks and returns the answer as it is.
    pub(super) async fn ask_plainly(
        &self,
        subject: String,
        request: Request,
        timeout: Duration,
    ) -> Result<impl AsRef<[u8]> + use<>, StoreError> {
        self.require_connection()?;
        let asking = self
            .client()
            .send_request(subject.clone(), request.timeout(None));
        let answer = tokio::time::timeout(timeout, asking)
            .await
            .map_err(|_| StoreError::Timeout {
                subject: subject.clone(),
            })?
            .map_err(|error| match error.kind() {
                RequestErrorKind::TimedOut => StoreError::Timeout { subject },
                RequestErrorKind::NoResponders => StoreError::Unavailable(NO_RESPONDERS.into()),
                RequestErrorKind::InvalidSubject | RequestErrorKind::MaxPayloadExceeded => {
                    StoreError::Rejected {
                        code: 0,
                        detail: error.to_string(),
                    }
                }
                RequestErrorKind::Other => StoreError::Unavailable(CLOSED.into()),
            })?;
        Ok(answer.payload)
    }

    /// Asks the `JetStream` API.
    pub(super) async fn ask_api<T: DeserializeOwned>(
        &self,
        action: &str,
        body: &impl serde::Serialize,
        timeout: Duration,
    ) -> Result<T, StoreError> {
        let body =
            serde_json::to_vec(body).map_err(|error| StoreError::unreadable("request", error))?;
        let request = Request::new().payload(body.into());
        self.ask(format!("$JS.API.{action}"), request, timeout)
            .await
    }

    /// What the client is given while it is disconnected, it sends after it has reconnected, however late that is.
    pub(super) fn require_connection(&self) -> Result<(), StoreError> {
        match self.client().connection_state() {
            State::Connected => Ok(()),
            State::Pending | State::Disconnected => {
                Err(StoreError::Unavailable("not connected".into()))
            }
        }
    }
}

/// Whether the client that was asked has ended.
pub fn is_closed(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(detail) if detail == CLOSED)
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
