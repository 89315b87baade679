//! The skeleton of the actors that work on the bucket while there is a link to it. Each runs a task
//! that starts with the link, and that restarts after a pause when it ends.

use std::future::Future;
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tracing::{Instrument, Span};

use super::Link;
use super::latest_task::LatestTask;
use super::messages::LinkedMsg;
use crate::store::{Bucket, StoreError};

/// The pause before a subscription is made again.
const RETRY: Duration = Duration::from_secs(1);

/// Work on the bucket.
pub(crate) trait Linked: Send + Sync + 'static {
    /// Works until the work cannot go on.
    fn run(
        self: Arc<Self>,
        bucket: Bucket,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + 'static;

    /// Takes a change of the link, whether or not the work is in progress. Returns the pause before
    /// the work begins again on a link that is up.
    fn link_changed(&self, _link: &Link, _under_way: bool) -> Duration {
        Duration::ZERO
    }

    /// Returns whether the work ends with its link. It may continue where the client resumes it by
    /// itself.
    fn ends_with_link(&self) -> bool {
        false
    }

    /// Takes the end of the work. Returns the pause before it begins again.
    fn ended(&self, error: Option<&StoreError>) -> Duration;
}

/// The actor that runs some work.
pub(crate) struct LinkedActor<W>(PhantomData<fn(W)>);

impl<W> LinkedActor<W> {
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

pub(crate) struct LinkedState<W> {
    work: Arc<W>,
    bucket: Option<Bucket>,
    task: LatestTask,
    /// The span for log records of the work.
    span: Span,
}

impl<W: Linked> Actor for LinkedActor<W> {
    type Msg = LinkedMsg;
    type State = LinkedState<W>;
    type Arguments = (Arc<W>, Link, Span);

    async fn pre_start(
        &self,
        myself: ActorRef<LinkedMsg>,
        (work, link, span): (Arc<W>, Link, Span),
    ) -> Result<LinkedState<W>, ActorProcessingErr> {
        let mut state = LinkedState {
            work,
            bucket: None,
            task: LatestTask::default(),
            span: span.clone(),
        };
        span.in_scope(|| state.link_changed(&myself, link));
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<LinkedMsg>,
        message: LinkedMsg,
        state: &mut LinkedState<W>,
    ) -> Result<(), ActorProcessingErr> {
        let span = state.span.clone();
        span.in_scope(|| state.take(&myself, message));
        Ok(())
    }
}

impl<W: Linked> LinkedState<W> {
    fn take(&mut self, myself: &ActorRef<LinkedMsg>, message: LinkedMsg) {
        match message {
            LinkedMsg::LinkChanged(link) => self.link_changed(myself, link),
            LinkedMsg::Ended { number, error } if self.task.is(number) => {
                self.task.ended();
                let wait = self.work.ended(error.as_ref());
                self.start_after(myself, wait);
            }
            LinkedMsg::Start { number } if self.task.is(number) => self.start(myself),
            LinkedMsg::Ended { .. } | LinkedMsg::Start { .. } => {}
            #[cfg(test)]
            LinkedMsg::Crash => panic!("crashed on request"),
        }
    }

    /// Restarts the work after each reconnect. The connection may be another one, and so may the
    /// bucket.
    fn link_changed(&mut self, myself: &ActorRef<LinkedMsg>, link: Link) {
        let under_way = self.task.is_under_way();
        let is_up = matches!(link, Link::Up { .. });
        if is_up || self.work.ends_with_link() {
            self.task.stop();
        }
        let wait = self.work.link_changed(&link, under_way);
        if let Link::Up { bucket, .. } = link {
            self.bucket = Some(bucket);
            if wait.is_zero() {
                self.start(myself);
            } else {
                self.start_after(myself, wait);
            }
        }
    }

    fn start_after(&self, myself: &ActorRef<LinkedMsg>, wait: Duration) {
        let number = self.task.number();
        myself.send_after(wait, move || LinkedMsg::Start { number });
    }

    fn start(&mut self, myself: &ActorRef<LinkedMsg>) {
        let Some(bucket) = self.bucket.clone() else {
            return;
        };
        let (work, myself) = (Arc::clone(&self.work), myself.clone());
        let span = self.span.clone();
        self.task.begin(async move |number| {
            let run = AssertUnwindSafe(work.run(bucket)).catch_unwind();
            let crashed = |_| Err(StoreError::Unavailable("the task has crashed".into()));
            let ended = run.instrument(span).await.unwrap_or_else(crashed);
            let error = ended.err();
            let _ = myself.send_message(LinkedMsg::Ended { number, error });
        });
    }
}

/// Takes the end of a subscription. Returns the pause before the next one.
pub(super) fn subscription_ended(what: &str, error: Option<&StoreError>) -> Duration {
    if let Some(error) = error {
        tracing::debug!(%error, "{what}");
    }
    RETRY
}
