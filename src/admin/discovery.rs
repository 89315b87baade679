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
use nats_elect_core::Moment;
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

    pub fn timed_out(&self, after: Duration) -> AdminError {
        AdminError::Timeout {
            subject: self.subject.clone(),
            inbox: self.inbox.clone(),
            after,
        }
    }
}

/// The search for instances: each is found when its answer comes.
pub(super) struct Discovery<'a> {
    asking: Asking,
    bucket: &'a BucketName,
    prefix: &'a str,
    within: Duration,
    end: Moment,
    /// At least one instance answered.
    heard: bool,
    found: BTreeSet<Instance>,
}

impl<'a> Discovery<'a> {
    pub async fn begin(
        client: &Client,
        subjects: &AdminSubjects,
        bucket: &'a BucketName,
        prefix: &'a str,
        within: Duration,
    ) -> Result<Self, AdminError> {
        let asking = Asking::begin(client, subjects, subjects.search(), Vec::new()).await?;
        Ok(Self {
            asking,
            bucket,
            prefix,
            within,
            end: clock::now() + within,
            heard: false,
            found: BTreeSet::new(),
        })
    }

    /// Returns the next instance that answers, each once. Returns `None` if all have answered.
    ///
    /// Nothing is lost if the future is dropped, except the time that it waited.
    pub async fn next(&mut self) -> Result<Option<Instance>, AdminError> {
        while self.found.len() < MOST_INSTANCES {
            let left = self.end.since(clock::now());
            let wait = if self.heard { QUIET.min(left) } else { left };
            match tokio::time::timeout(wait, self.asking.next()).await {
                Ok(Ok(Some(message))) => {
                    self.heard = true;
                    let info: Option<Info> = parse(&message.payload);
                    let found = info.and_then(|it| Instance::of(&it, self.bucket, self.prefix));
                    if let Some(found) = found.filter(|it| self.found.insert(it.clone())) {
                        return Ok(Some(found));
                    }
                }
                Ok(Ok(None)) => return Ok(None),
                Ok(Err(error)) => return Err(error),
                Err(_) if self.heard => return Ok(None),
                // An instance is subscribed there. Otherwise the server would have reported that
                // there is none.
                Err(_) => return Err(self.asking.timed_out(self.within)),
            }
        }
        Ok(None)
    }

    /// Returns all instances that answer, in the order of their ids.
    pub async fn all(mut self) -> Result<Vec<Instance>, AdminError> {
        while self.next().await?.is_some() {}
        Ok(self.found.into_iter().collect())
    }
}
