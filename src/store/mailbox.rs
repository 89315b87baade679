//! The mailbox: receives answers at subjects that no other client knows.
//!
//! A client can name any subject that it knows as a reply subject, and an answer is then written
//! there. With a forged confirmation an instance would lead without a stored claim. So each request
//! has a reply subject of its own, with 128 random bits in it, and uses it once. The bits are drawn
//! here, because the client's own subjects would be countable if another crate of the program
//! enabled its feature `nuid`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_nats::{Client, Message, SubscribeError};
use futures::StreamExt;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The mailbox of all clones of a bucket's handle. The first request opens it. It survives
/// reconnects.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    open: Mutex<Option<Arc<Open>>>,
    opening: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Open {
    /// The prefix of the subjects of answers, with the trailing dot.
    prefix: String,
    waiting: Arc<Waiting>,
    sorting: JoinHandle<()>,
}

/// The callers that wait for an answer, by its number.
#[derive(Debug, Default)]
struct Waiting(Mutex<HashMap<u128, oneshot::Sender<Message>>>);

/// A place for one answer. The wait ends when it is dropped.
#[derive(Debug)]
pub(super) struct Awaited {
    /// Whether the wait is over.
    over: bool,
    waiting: Arc<Waiting>,
    number: u128,
    answer: oneshot::Receiver<Message>,
    /// The reply subject of the request.
    pub subject: String,
}

impl Mailbox {
    /// Creates a place for an answer.
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
                    // The waiting caller may have gone.
                    let _ = sender.send(answer);
                }
            }
            // The client has ended, so no answer will come.
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

    /// Returns the open mailbox, unless the runtime that sorted its answers has ended.
    fn opened(&self) -> Option<Arc<Open>> {
        let open = self.slot().clone();
        open.filter(|open| !open.sorting.is_finished())
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Open>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of pending answers.
    #[cfg(all(test, unix))]
    pub fn awaited(&self) -> usize {
        let open = self.slot();
        open.as_ref().map_or(0, |open| open.waiting.lock().len())
    }
}

impl Awaited {
    /// Returns the answer, or nothing if the client has ended.
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

/// Returns the prefix of the inboxes of this connection.
pub(super) fn inbox_prefix(client: &Client) -> String {
    let inbox = client.new_inbox();
    let prefix = inbox.rsplit_once('.').map(|(prefix, _)| prefix);
    prefix.unwrap_or("_INBOX").to_owned()
}
