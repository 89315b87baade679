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

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use async_nats::{Client, Message, SubscribeError};
use tokio::sync::oneshot;

use super::denied::Denied;
use super::sorter::{Place, Sorter};
use crate::lock::lock;

/// The mailbox of one client. The first request opens it. It survives reconnects.
#[derive(Debug, Default)]
pub struct Mailbox {
    open: Mutex<Option<Arc<Open>>>,
    opening: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Open {
    /// The requests under way.
    requests: Arc<Sorter<Request>>,
    /// The refusal of the subscription to answers: no answer comes after it.
    refused: OnceLock<Denied>,
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
    place: Place<Request>,
    answer: oneshot::Receiver<Result<Message, Denied>>,
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
        let (sender, answer) = oneshot::channel();
        let place = open.requests.place(Request {
            subject: subject.to_owned(),
            answer: sender,
        });
        // It may have been refused just before there was this place.
        if let Some(denied) = open.refused.get() {
            open.end(denied, |_| true);
        }
        Ok(Awaited { place, answer })
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
        let all = !denied.publish && denied.subject == open.requests.subscription();
        if all {
            open.refused.get_or_init(|| denied.clone());
        }
        open.end(denied, |request| {
            all || denied.publish && request.subject == denied.subject
        });
        all
    }

    /// Returns whether the subscription to answers was refused. The next request makes another one.
    pub fn is_refused(&self) -> bool {
        let open = self.slot();
        open.as_ref()
            .is_some_and(|open| open.refused.get().is_some())
    }

    async fn open(&self, client: &Client) -> Result<Arc<Open>, SubscribeError> {
        let _one_at_a_time = self.opening.lock().await;
        if let Some(open) = self.opened() {
            return Ok(open);
        }
        let open = Arc::new(Open {
            requests: Sorter::new(&inbox_prefix(client)),
            refused: OnceLock::new(),
        });
        // The subscription may be refused before this function goes on.
        *self.slot() = Some(Arc::clone(&open));
        let answers = client.subscribe(open.requests.subscription()).await?;
        open.requests.sort(answers, |request, answer| {
            // The waiting caller may have gone.
            let _ = request.remove().answer.send(Ok(answer));
        });
        Ok(open)
    }

    /// Returns the open mailbox, unless its subscription was refused, or the runtime that sorted
    /// its answers has ended.
    fn opened(&self) -> Option<Arc<Open>> {
        let open = self.slot().clone()?;
        (open.requests.sorts() && open.refused.get().is_none()).then_some(open)
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Open>>> {
        lock(&self.open)
    }

    /// Returns the number of pending answers.
    #[cfg(all(test, unix))]
    pub fn awaited(&self) -> usize {
        let open = self.slot();
        open.as_ref()
            .map_or(0, |open| open.requests.awaiting().len())
    }
}

impl Awaited {
    /// The reply subject of the request.
    pub fn reply(&self) -> &str {
        &self.place.reply
    }

    /// Returns the answer.
    pub async fn answer(&mut self) -> Received {
        (&mut self.answer).await.ok()
    }
}

impl Open {
    /// Ends these requests: the server refused them.
    fn end(&self, denied: &Denied, is_ended: impl Fn(&Request) -> bool) {
        let mut requests = self.requests.awaiting();
        for (_, request) in requests.extract_if(|_, request| is_ended(request)) {
            let _ = request.answer.send(Err(denied.clone()));
        }
    }
}

/// Returns the prefix of the inboxes of this connection.
pub fn inbox_prefix(client: &Client) -> String {
    let inbox = client.new_inbox();
    let prefix = inbox.rsplit_once('.').map(|(prefix, _)| prefix);
    prefix.unwrap_or("_INBOX").to_owned()
}
