//! A connection that hears what it may not do.
//!
//! The server tells of a missing permission on the side, as an event of the connection; the request
//! itself just gets no answer.

use std::time::Duration;

use async_nats::client::RequestErrorKind;
use async_nats::{Client, ConnectOptions, Event, HeaderMap, Request, ServerInfo};
use futures::StreamExt;
use nats_elect::{Denied, Error, ManagerConfig, inbox_prefix};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::exit::{ADDRESS, Failure};
use crate::text::hosts;

/// How long an event may take from the connection to whoever listens, within this process.
const EVENT_DELAY: Duration = Duration::from_millis(50);

/// How long until somebody is asked again while nobody answers.
const MOVING: Duration = Duration::from_millis(200);

/// What came of a request.
#[derive(Debug)]
pub enum Answer {
    Json(Value),
    /// Nobody is subscribed there.
    Nobody,
    Denied(Denied),
    /// No answer in time.
    Silence,
}

pub struct Line {
    pub client: Client,
    denied: watch::Receiver<Vec<Denied>>,
    patience: Duration,
    bucket: String,
    /// What the subjects begin with under which answers can be waited for; none: inboxes.
    answers: Option<String>,
}

impl Line {
    /// Makes one attempt at each address. Answers are waited for as long as for a start.
    pub async fn connect(config: &ManagerConfig, answers: Option<String>) -> Result<Self, Failure> {
        let (tell, denied) = watch::channel(Vec::new());
        let heard = move |event: Event| {
            if let Some(denial) = Denied::of(&event) {
                tell.send_modify(|all: &mut Vec<_>| all.push(denial));
            }
            std::future::ready(())
        };
        let listening = |options: ConnectOptions| options.event_callback(heard);
        let client = config.connect_with("nats-elect", listening).await;
        let client = client.map_err(|error| match error {
            // Each address was tried once. That is over long before the time is, as a rule.
            Error::Unavailable { reason, .. } => {
                let why = format!("{reason} (tried {})", hosts(&config.servers));
                Failure::unreachable(why).advice(ADDRESS)
            }
            error => error.into(),
        })?;
        Ok(Self {
            client,
            denied,
            patience: config.start_timeout,
            bucket: config.bucket.clone(),
            answers,
        })
    }

    pub fn server(&self) -> ServerInfo {
        self.client.server_info()
    }

    /// Asks, with a body of JSON.
    pub async fn ask(&self, subject: &str, body: &Value) -> Answer {
        self.send(
            subject,
            Request::new().payload(body.to_string().into_bytes().into()),
        )
        .await
    }

    /// Asks for a write that the bucket must refuse whatever stands there: no stream's sequences
    /// come so far, neither the key's nor the bucket's. While nobody answers it asks again: the
    /// stream's leader may just have moved.
    pub async fn ask_for_refusal(&self, subject: &str) -> Answer {
        let impossible = i64::MAX.to_string();
        let mut headers = HeaderMap::new();
        for name in [
            "Nats-Expected-Last-Subject-Sequence",
            "Nats-Expected-Last-Sequence",
        ] {
            headers.insert(name, impossible.as_str());
        }
        headers.insert("Nats-Expected-Stream", format!("KV_{}", self.bucket));
        let mut left = self.patience;
        loop {
            let request = Request::new().headers(headers.clone());
            let answer = self.send(subject, request).await;
            if !matches!(answer, Answer::Nobody) || left.is_zero() {
                return answer;
            }
            sleep(MOVING).await;
            left = left.saturating_sub(MOVING);
        }
    }

    async fn send(&self, subject: &str, request: Request) -> Answer {
        let request = request.timeout(Some(self.patience));
        let asked = self.client.send_request(subject.to_owned(), request);
        let inbox = format!("{}.", inbox_prefix(&self.client));
        let forbids = |denied: &Denied| {
            if denied.publish {
                denied.subject == subject
            } else {
                denied.subject.starts_with(&inbox)
            }
        };
        let answer = tokio::select! {
            biased;
            denied = self.hears(&forbids) => return Answer::Denied(denied),
            answer = asked => answer,
        };
        match answer {
            Ok(message) => match serde_json::from_slice(&message.payload) {
                Ok(value) => Answer::Json(value),
                Err(_) => Answer::Silence,
            },
            Err(error) if error.kind() == RequestErrorKind::NoResponders => {
                // A denial may be on its way past the answer.
                match timeout(EVENT_DELAY, self.hears(&forbids)).await {
                    Ok(denied) => Answer::Denied(denied),
                    Err(_) => Answer::Nobody,
                }
            }
            Err(_) => Answer::Silence,
        }
    }

    /// Publishes empty messages and subscribes for a moment; returns which subjects that was
    /// forbidden for, or nothing if it is not known because the server did not answer.
    pub async fn forbidden(&self, publish: &[String], subscribe: &[String]) -> Option<Vec<Denied>> {
        let mut subscriptions = Vec::new();
        for subject in publish {
            let sent = self.client.publish(subject.clone(), "".into());
            timeout(self.patience, sent).await.ok()?.ok()?;
        }
        for subject in subscribe {
            let made = self.client.subscribe(subject.clone());
            subscriptions.push(timeout(self.patience, made).await.ok()?.ok()?);
        }
        // The server answers in the order in which it was asked: when it has answered this, it has
        // said all of the above.
        self.hears_out().await?;
        let wanted = |denied: &Denied| {
            let tried = if denied.publish { publish } else { subscribe };
            tried.contains(&denied.subject)
        };
        let found = |heard: &Vec<Denied>| {
            let mut found: Vec<Denied> = Vec::new();
            for denied in heard.iter().filter(|denied| wanted(denied)) {
                if !found.contains(denied) {
                    found.push(denied.clone());
                }
            }
            found
        };
        let everything =
            |heard: &Vec<Denied>| found(heard).len() == publish.len() + subscribe.len();
        let _ = timeout(EVENT_DELAY, self.denied.clone().wait_for(everything)).await;
        Some(found(&self.denied.borrow()))
    }

    /// Waits until the server has come to a request that nobody hears: by then it has said all that
    /// it had to say.
    async fn hears_out(&self) -> Option<()> {
        let nobody = Uuid::from_u128(rand::random());
        let last = format!("nats-elect.{}._doctor.{nobody}", self.bucket);
        let inbox = match &self.answers {
            Some(prefix) => format!("{prefix}.{nobody}"),
            None => self.client.new_inbox(),
        };
        let is_end = |denied: &Denied| denied.subject == last || denied.subject == inbox;
        let asking = async {
            let mut answers = self.client.subscribe(inbox.clone()).await.ok()?;
            let asked = self
                .client
                .publish_with_reply(last.clone(), inbox.clone(), "".into());
            asked.await.ok()?;
            tokio::select! {
                _ = self.hears(&is_end) => {}
                answer = answers.next() => drop(answer?),
            }
            Some(())
        };
        timeout(self.patience, asking).await.ok()?
    }

    /// Waits until the server forbids something of the kind.
    pub async fn hears(&self, forbids: &(dyn Fn(&Denied) -> bool + Sync)) -> Denied {
        let mut denied = self.denied.clone();
        let found = |all: &Vec<Denied>| all.iter().find(|it| forbids(it)).cloned();
        let heard = denied.wait_for(|all| found(all).is_some()).await;
        match heard.ok().and_then(|all| found(&all)) {
            Some(denied) => denied,
            None => std::future::pending().await,
        }
    }
}
