//! Where answers come in: at subjects that nobody else knows.
//!
//! Whoever names a subject may have an answer written there, and a confirmation that is forged makes a leader of nobody's making. So each
//! question is answered at a subject of its own, with 128 random bits in it, and once. They are drawn here: the client's own would be countable
//! if some other crate of the program switched on its feature `nuid`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_nats::{Client, Message, SubscribeError};
use futures::StreamExt;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Opened with the first question, for all who share a bucket's handle. It lives on through reconnects.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    open: Mutex<Option<Arc<Open>>>,
    opening: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Open {
    /// What the subjects of answers begin with, the dot included.
    prefix: String,
    waiting: Arc<Waiting>,
    sorting: JoinHandle<()>,
}

/// Who waits for an answer, by its number.
#[derive(Debug, Default)]
struct Waiting(Mutex<HashMap<u128, oneshot::Sender<Message>>>);

/// A place for one answer. Nobody waits there any more once it is dropped.
#[derive(Debug)]
pub(super) struct Awaited {
    /// Nobody waits any more.
    over: bool,
    waiting: Arc<Waiting>,
    number: u128,
    answer: oneshot::Receiver<Message>,
    /// What to name as the reply subject.
    pub subject: String,
}

impl Mailbox {
    /// Makes a place for an answer.
    pub async fn expect(&self, client: &Client) -> Result<Awaited, SubscribeError> {
        let open = self.open(client).await?;
        let number = rand::random();
        let (sender, answer) = oneshot::channel();
        open.waiting.lock().insert(number, sender);
        Ok(Awaited {
            over: false,
            waiting: Arc::clone(&open.waiting),
            number,
            answer,
            subject: format!("{}{number:032x}", open.prefix),
        })
    }

    async fn open(&self, client: &Client) -> Result<Arc<Open>, SubscribeError> {
        if let Some(open) = self.opened() {
            return Ok(open);
        }
        let _one_at_a_time = self.opening.lock().await;
        if let Some(open) = self.opened() {
            return Ok(open);
        }
        let prefix = format!("{}.{:032x}.", inbox_prefix(client), rand::random::<u128>());
        let mut answers = client.subscribe(format!("{prefix}*")).await?;
        let waiting = Arc::new(Waiting::default());
        let all = Arc::clone(&waiting);
        let begin = prefix.clone();
        let sorting = tokio::spawn(async move {
            while let Some(answer) = answers.next().await {
                let number = answer.subject.strip_prefix(&*begin);
                let number = number.and_then(|number| u128::from_str_radix(number, 16).ok());
                let sender = number.and_then(|number| all.lock().remove(&number));
                if let Some(sender) = sender {
                    // Whoever waited may have gone this very moment.
                    let _ = sender.send(answer);
                }
            }
            // The client has ended: no answer will come.
            all.lock().clear();
        });
        let open = Arc::new(Open {
            prefix,
            waiting,
            sorting,
        });
        *self.slot() = Some(Arc::clone(&open));
        Ok(open)
    }

    /// Unless the runtime that sorted its answers has ended.
    fn opened(&self) -> Option<Arc<Open>> {
        let open = self.slot().clone();
        open.filter(|open| !open.sorting.is_finished())
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Open>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many answers are waited for.
    #[cfg(all(test, unix))]
    pub fn awaited(&self) -> usize {
        let open = self.slot();
        open.as_ref().map_or(0, |open| open.waiting.lock().len())
    }
}

impl Awaited {
    /// The answer; nothing if the client has ended.
    pub async fn answer(&mut self) -> Option<Message> {
        let answer = (&mut self.answer).await.ok();
        self.over = true;
        answer
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if !self.over {
            self.waiting.lock().remove(&self.number);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.sorting.abort();
    }
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, HashMap<u128, oneshot::Sender<Message>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the inboxes of this connection begin with.
pub(super) fn inbox_prefix(client: &Client) -> String {
    let inbox = client.new_inbox();
    let prefix = inbox.rsplit_once('.').map(|(prefix, _)| prefix);
    prefix.unwrap_or("_INBOX").to_owned()
}
