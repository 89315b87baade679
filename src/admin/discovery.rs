//! One request, and the answers to it.
//!
//! Answers come to a subject of the admin service's own, not to `_INBOX`. So instances need no
//! permission to publish to inboxes. With that permission they could pretend to be the server that
//! confirms other instances' writes.

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, Message, StatusCode};
use futures::StreamExt;
use uuid::Uuid;

use super::{AdminError, Instance};
use crate::clock;
use crate::model::admin::micro::Info;
use crate::model::admin::{AdminSubjects, parse};
use nats_elect_core::name::BucketName;

/// After this time without a further answer, all instances count as having answered.
const QUIET: Duration = Duration::from_millis(400);
/// The most instances that are listed. No real fleet has as many, and a client that may answer
/// could invent more.
const MOST_INSTANCES: usize = 10_000;

/// A request that is on its way.
pub(super) struct Asking {
    answers: async_nats::Subscriber,
    pub subject: String,
    pub inbox: String,
}

impl Asking {
    pub async fn begin(
        client: &Client,
        subjects: &AdminSubjects,
        subject: String,
        body: Vec<u8>,
    ) -> Result<Self, AdminError> {
        let lost = |error: &dyn std::fmt::Display| AdminError::Unavailable(error.to_string());
        if client.connection_state() != State::Connected {
            // The client would send the request later, when the caller does not wait any more.
            return Err(lost(&"not connected"));
        }
        let number = Uuid::from_u128(rand::random());
        let inbox = format!("{}.{number}", subjects.answers());
        let answers = client.subscribe(inbox.clone()).await;
        let answers = answers.map_err(|error| lost(&error))?;
        client
            .publish_with_reply(subject.clone(), inbox.clone(), body.into())
            .await
            .map_err(|error| lost(&error))?;
        Ok(Self {
            answers,
            subject,
            inbox,
        })
    }

    /// Returns the next answer. Returns `None` if no instance listens.
    pub async fn next(&mut self) -> Result<Option<Message>, AdminError> {
        match self.answers.next().await {
            Some(message) if message.status == Some(StatusCode::NO_RESPONDERS) => Ok(None),
            Some(message) => Ok(Some(message)),
            None => Err(AdminError::Unavailable("the connection ended".into())),
        }
    }

    pub fn timed_out(self, after: Duration) -> AdminError {
        AdminError::Timeout {
            subject: self.subject,
            inbox: self.inbox,
            after,
        }
    }
}

/// Returns all instances that answer.
pub(super) async fn instances(
    client: &Client,
    subjects: &AdminSubjects,
    bucket: &BucketName,
    prefix: &str,
    within: Duration,
) -> Result<Vec<Instance>, AdminError> {
    let mut asking = Asking::begin(client, subjects, subjects.search(), Vec::new()).await?;
    let mut found = BTreeSet::new();
    let end = clock::now() + within;
    let mut wait = within;
    let mut heard = false;
    while found.len() < MOST_INSTANCES {
        match tokio::time::timeout(wait, asking.next()).await {
            Ok(Ok(Some(message))) => {
                heard = true;
                wait = QUIET.min(end.since(clock::now()));
                let info: Option<Info> = parse(&message.payload);
                found.extend(info.and_then(|info| Instance::of(&info, bucket, prefix)));
            }
            Ok(Ok(None)) => return Ok(Vec::new()),
            Ok(Err(error)) => return Err(error),
            Err(_) if heard => break,
            // An instance is subscribed there. Otherwise the server would have reported that there
            // is none.
            Err(_) => return Err(asking.timed_out(within)),
        }
    }
    Ok(found.into_iter().collect())
}
