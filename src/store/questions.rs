//! The questions of this instance that other instances may still answer.
//!
//! One subscription receives the answers to all of them: a subscription for each would take 6 KiB,
//! and an instance that leads a thousand roles asks about each of them. Each question has a reply
//! subject of its own, with 128 random bits in it, so that only those who received it can answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_nats::{Client, Message, StatusCode, Subscriber};
use futures::StreamExt;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::asking::subscribe;
use super::error::StoreError;
use crate::lock::lock;
use nats_elect_core::peer::PeerReply;

/// The questions on one connection. The first one subscribes to the answers.
#[derive(Debug, Default)]
pub(super) struct Questions(tokio::sync::Mutex<Option<Arc<Open>>>);

#[derive(Debug)]
struct Open {
    /// The prefix of the reply subjects, with the trailing dot.
    prefix: String,
    asked: Arc<Mutex<HashMap<u128, Question>>>,
    sorting: JoinHandle<()>,
}

/// The subjects of a question.
#[derive(Debug)]
pub(super) enum Receivers {
    /// Any number of instances listen there.
    All(String),
    /// One instance listens at each, if any.
    Each(Vec<String>),
}

struct Question {
    heard: Box<dyn FnMut(PeerReply) + Send>,
    /// The subjects that may still bring an answer.
    awaited: usize,
    /// Whether a subject brings one answer at most.
    once: bool,
    /// Dropped with the question.
    _open: oneshot::Sender<()>,
}

/// A question that can be answered until this is dropped.
#[derive(Debug)]
pub(super) struct Answers {
    /// The reply subject of the question.
    pub reply: String,
    open: Arc<Open>,
    number: u128,
    over: oneshot::Receiver<()>,
}

impl Questions {
    /// Makes a place for the answers to a question that is about to be sent. Reply subjects begin
    /// with this prefix.
    pub async fn expect(
        &self,
        client: &Client,
        prefix: &str,
        to: &Receivers,
        heard: impl FnMut(PeerReply) + Send + 'static,
    ) -> Result<Answers, StoreError> {
        let open = self.open(client, prefix).await?;
        let number = rand::random();
        let (sender, over) = oneshot::channel();
        let question = Question {
            heard: Box::new(heard),
            awaited: to.subjects().len(),
            once: matches!(to, Receivers::Each(_)),
            _open: sender,
        };
        lock(&open.asked).insert(number, question);
        Ok(Answers {
            reply: format!("{}{number:032x}", open.prefix),
            open,
            number,
            over,
        })
    }

    async fn open(&self, client: &Client, prefix: &str) -> Result<Arc<Open>, StoreError> {
        let mut slot = self.0.lock().await;
        // The runtime that sorted the answers may have ended.
        if let Some(open) = slot.as_ref().filter(|open| !open.sorting.is_finished()) {
            return Ok(Arc::clone(open));
        }
        let prefix = format!("{prefix}.{:032x}.", rand::random::<u128>());
        let answers = subscribe(client, format!("{prefix}*")).await?;
        let asked = Arc::default();
        let open = Arc::new(Open {
            sorting: tokio::spawn(sort(answers, prefix.clone(), Arc::clone(&asked))),
            prefix,
            asked,
        });
        Ok(Arc::clone(slot.insert(open)))
    }
}

/// Passes each answer on to its question.
async fn sort(mut answers: Subscriber, prefix: String, asked: Arc<Mutex<HashMap<u128, Question>>>) {
    while let Some(answer) = answers.next().await {
        let number = answer.subject.strip_prefix(&*prefix);
        let number = number.and_then(|number| u128::from_str_radix(number, 16).ok());
        let Some(number) = number else { continue };
        let mut asked = lock(&asked);
        let Some(question) = asked.get_mut(&number) else {
            continue;
        };
        question.take(&answer);
        if question.awaited == 0 {
            asked.remove(&number);
        }
    }
    // The connection has ended, so no answer will come.
    lock(&asked).clear();
}

impl Receivers {
    pub const fn subjects(&self) -> &[String] {
        match self {
            Self::All(subject) => std::slice::from_ref(subject),
            Self::Each(subjects) => subjects.as_slice(),
        }
    }
}

impl Question {
    fn take(&mut self, answer: &Message) {
        let nobody = answer.status == Some(StatusCode::NO_RESPONDERS);
        let reply = PeerReply::parse(&answer.payload).filter(|_| !nobody);
        if nobody || self.once && reply.is_some() {
            self.awaited = self.awaited.saturating_sub(1);
        }
        if let Some(reply) = reply {
            (self.heard)(reply);
        }
    }
}

impl Answers {
    /// Resolves when no further answer is awaited.
    pub async fn over(&mut self) {
        let _ = (&mut self.over).await;
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        lock(&self.open.asked).remove(&self.number);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.sorting.abort();
    }
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Question")
    }
}
