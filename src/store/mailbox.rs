//! The mailbox: receives answers at subjects that no other client knows.
//!
//! A client can name any subject that it knows as a reply subject, and an answer is then written
//! there. With a forged confirmation an instance would lead without a stored claim. So each request
//! has a reply subject of its own, with 128 random bits in it, and uses it once. The bits are drawn
//! here, because the client's own subjects would be countable if another crate of the program
//! enabled its feature `nuid`.
//!
//! The server reports a missing permission on the side, as an event of the connection. It names the
//! subject and no request. So the mailbox knows the subject of each request under way, and ends the
//! requests that a refusal concerns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use async_nats::{Client, Message, SubscribeError};
use futures::StreamExt;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::denied::Denied;
use crate::lock::lock;

/// The mailbox of one client. The first request opens it. It survives reconnects.
#[derive(Debug, Default)]
pub struct Mailbox {
    open: Mutex<Option<Arc<Open>>>,
    opening: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Open {
    /// The prefix of the subjects of answers, with the trailing dot.
    prefix: String,
    /// The requests under way, by the numbers of their answers. Or the refusal of the subscription
    /// to answers: no answer comes after it.
    requests: Mutex<Result<HashMap<u128, Request>, Denied>>,
    /// Set once the subscription was sent.
    sorting: OnceLock<JoinHandle<()>>,
}

#[derive(Debug)]
struct Request {
    /// The subject that it is published to.
    subject: String,
    answer: oneshot::Sender<Result<Message, Denied>>,
}

/// The answer, or the server's refusal, or nothing if the client has ended.
pub(super) type Received = Option<Result<Message, Denied>>;

/// A place for one answer. The wait ends when it is dropped.
#[derive(Debug)]
pub(super) struct Awaited {
    /// Whether the wait is over.
    over: bool,
    open: Arc<Open>,
    number: u128,
    answer: oneshot::Receiver<Result<Message, Denied>>,
    /// The reply subject of the request.
    pub reply: String,
}

impl Mailbox {
    /// Creates a place for the answer to a request that is about to be published to a subject.
    pub(super) async fn expect(
        &self,
        client: &Client,
        subject: &str,
    ) -> Result<Awaited, SubscribeError> {
        let open = match self.opened() {
            Some(open) => open,
            // In a box: each request would reserve the room for it.
            None => Box::pin(self.open(client)).await?,
        };
        let number = rand::random();
        let (sender, answer) = oneshot::channel();
        let request = Request {
            subject: subject.to_owned(),
            answer: sender,
        };
        match &mut *open.requests() {
            Ok(requests) => drop(requests.insert(number, request)),
            Err(denied) => drop(request.answer.send(Err(denied.clone()))),
        }
        Ok(Awaited {
            over: false,
            reply: format!("{}{number:032x}", open.prefix),
            open,
            number,
            answer,
        })
    }

    /// Ends the requests that a refusal of the server concerns. Their answers will not come.
    ///
    /// These are all requests to its subject. Some of them may have been carried out, so the
    /// refusal proves nothing about a write. Returns whether the subscription to answers was
    /// refused, which ends all requests.
    pub fn denied(&self, denied: &Denied) -> bool {
        let Some(open) = self.slot().clone() else {
            return false;
        };
        let all = !denied.publish && denied.subject == open.subscription();
        let mut requests = open.requests();
        if let Ok(requests) = &mut *requests {
            let is_ended = |request: &Request| denied.publish && request.subject == denied.subject;
            for (_, request) in requests.extract_if(|_, request| all || is_ended(request)) {
                let _ = request.answer.send(Err(denied.clone()));
            }
        }
        if all {
            *requests = Err(denied.clone());
        }
        all
    }

    /// Returns whether the subscription to answers was refused. The next request makes another one.
    pub fn is_refused(&self) -> bool {
        let open = self.slot();
        open.as_ref().is_some_and(|open| open.requests().is_err())
    }

    async fn open(&self, client: &Client) -> Result<Arc<Open>, SubscribeError> {
        let _one_at_a_time = self.opening.lock().await;
        if let Some(open) = self.opened() {
            return Ok(open);
        }
        let prefix = format!("{}.{:032x}.", inbox_prefix(client), rand::random::<u128>());
        let open = Arc::new(Open {
            prefix,
            requests: Mutex::new(Ok(HashMap::new())),
            sorting: OnceLock::new(),
        });
        // The subscription may be refused before this function goes on.
        *self.slot() = Some(Arc::clone(&open));
        let mut answers = client.subscribe(open.subscription()).await?;
        let all = Arc::downgrade(&open);
        let sorting = tokio::spawn(async move {
            while let Some(answer) = answers.next().await {
                let Some(open) = all.upgrade() else { return };
                let number = answer.subject.strip_prefix(&*open.prefix);
                let number = number.and_then(|number| u128::from_str_radix(number, 16).ok());
                if let Some(request) = number.and_then(|number| open.remove(number)) {
                    // The waiting caller may have gone.
                    let _ = request.answer.send(Ok(answer));
                }
            }
            // The client has ended, so no answer will come.
            if let Some(open) = all.upgrade() {
                *open.requests() = Ok(HashMap::new());
            }
        });
        open.sorting.get_or_init(|| sorting);
        Ok(open)
    }

    /// Returns the open mailbox, unless its subscription was refused, or the runtime that sorted
    /// its answers has ended.
    fn opened(&self) -> Option<Arc<Open>> {
        let open = self.slot().clone()?;
        let sorts = open.sorting.get().is_some_and(|it| !it.is_finished());
        let accepted = open.requests().is_ok();
        (sorts && accepted).then_some(open)
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Open>>> {
        lock(&self.open)
    }

    /// Returns the number of pending answers.
    #[cfg(all(test, unix))]
    pub fn awaited(&self) -> usize {
        let open = self.slot();
        let awaited = |open: &Arc<Open>| open.requests().as_ref().map_or(0, HashMap::len);
        open.as_ref().map_or(0, awaited)
    }
}

impl Awaited {
    /// Returns the answer.
    pub async fn answer(&mut self) -> Received {
        let answer = (&mut self.answer).await.ok();
        self.over = true;
        answer
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if !self.over {
            self.open.remove(self.number);
        }
    }
}

impl Open {
    /// Returns the subject of the subscription to answers.
    fn subscription(&self) -> String {
        format!("{}*", self.prefix)
    }

    fn remove(&self, number: u128) -> Option<Request> {
        self.requests().as_mut().ok()?.remove(&number)
    }

    fn requests(&self) -> MutexGuard<'_, Result<HashMap<u128, Request>, Denied>> {
        lock(&self.requests)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(sorting) = self.sorting.get() {
            sorting.abort();
        }
    }
}

/// Returns the prefix of the inboxes of this connection.
pub fn inbox_prefix(client: &Client) -> String {
    let inbox = client.new_inbox();
    let prefix = inbox.rsplit_once('.').map(|(prefix, _)| prefix);
    prefix.unwrap_or("_INBOX").to_owned()
}
