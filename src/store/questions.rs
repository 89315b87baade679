//! The questions of this instance that other instances may still answer.
//!
//! One subscription receives the answers to all of them: a subscription for each would take 6 KiB,
//! and an instance that leads a thousand roles asks about each of them. Its prefix is not that of the
//! [mailbox](super::mailbox): who receives a question must not learn where confirmations go.

use std::sync::Arc;

use async_nats::{Client, Message, StatusCode};
use tokio::sync::oneshot;

use super::asking::subscribe;
use super::error::StoreError;
use super::sorter::{Place, Sorter};
use nats_elect_core::peer::PeerReply;

/// The questions on one connection. The first one subscribes to the answers.
#[derive(Debug, Default)]
pub(super) struct Questions(tokio::sync::Mutex<Option<Arc<Sorter<Question>>>>);

pub(super) struct Question {
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
    place: Place<Question>,
    over: oneshot::Receiver<()>,
}

impl Questions {
    /// Makes a place for the answers to a question that is about to be sent. Reply subjects begin
    /// with this prefix.
    pub async fn expect(
        &self,
        client: &Client,
        prefix: &str,
        to: &[String],
        once: bool,
        heard: impl FnMut(PeerReply) + Send + 'static,
    ) -> Result<Answers, StoreError> {
        let (sender, over) = oneshot::channel();
        let question = Question {
            heard: Box::new(heard),
            awaited: to.len(),
            once,
            _open: sender,
        };
        let place = self.open(client, prefix).await?.place(question);
        Ok(Answers { place, over })
    }

    async fn open(
        &self,
        client: &Client,
        prefix: &str,
    ) -> Result<Arc<Sorter<Question>>, StoreError> {
        let mut slot = self.0.lock().await;
        // The runtime that sorted the answers may have ended.
        if let Some(open) = slot.as_ref().filter(|open| open.sorts()) {
            return Ok(Arc::clone(open));
        }
        let open: Arc<Sorter<Question>> = Sorter::new(prefix);
        let answers = subscribe(client, open.subscription()).await?;
        open.sort(answers, |mut question, answer| {
            question.get_mut().take(&answer);
            if question.get().awaited == 0 {
                question.remove();
            }
        });
        Ok(Arc::clone(slot.insert(open)))
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
    /// The reply subject of the question.
    pub fn reply(&self) -> &str {
        &self.place.reply
    }

    /// Resolves when no further answer is awaited.
    pub async fn over(&mut self) {
        let _ = (&mut self.over).await;
    }
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Question")
    }
}
