//! The event publisher. It publishes leader changes in order, and repeats each until the server has
//! it or it is too old.

mod line;

use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use self::line::Line;
use super::Link;
use super::latest_task::LatestTask;
use super::messages::PublisherMsg;
use crate::model::config::{EventsConfig, Storage};
use crate::model::leader_event::LeaderEvent;
use crate::store::{self, StoreError, events_stream};

/// The maximum time of one attempt.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The pause before another attempt.
const RETRY: Duration = Duration::from_secs(1);

pub(super) struct PublisherActor;

/// The published events, and the place where they are kept.
#[derive(Clone)]
pub(crate) struct PublisherSetup {
    pub events: EventsConfig,
    pub replicas: usize,
    pub storage: Storage,
}

pub(super) struct PublisherState {
    setup: PublisherSetup,
    bucket: Option<store::Bucket>,
    news: Line,
    /// The attempt in progress, or the pause before the next.
    task: LatestTask,
    complained: bool,
    /// Whether the stream took an event since the connection was made.
    stream_made: bool,
    /// Notified when everything is published.
    finishing: Option<oneshot::Sender<()>>,
}

impl Actor for PublisherActor {
    type Msg = PublisherMsg;
    type State = PublisherState;
    type Arguments = (PublisherSetup, Link);

    async fn pre_start(
        &self,
        myself: ActorRef<PublisherMsg>,
        (setup, link): (PublisherSetup, Link),
    ) -> Result<PublisherState, ActorProcessingErr> {
        let mut state = PublisherState {
            setup,
            bucket: None,
            news: Line::default(),
            task: LatestTask::default(),
            complained: false,
            stream_made: false,
            finishing: None,
        };
        state.link_changed(&myself, link);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<PublisherMsg>,
        message: PublisherMsg,
        state: &mut PublisherState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            PublisherMsg::LinkChanged(link) => state.link_changed(&myself, link),
            PublisherMsg::Tell(event) => {
                state.news.join(event);
                if !state.task.is_under_way() {
                    state.go_on(&myself);
                }
            }
            PublisherMsg::Told { number, outcome } if state.task.is(number) => {
                state.told(&myself, outcome);
            }
            PublisherMsg::Retry { number } if state.task.is(number) => state.go_on(&myself),
            PublisherMsg::Told { .. } | PublisherMsg::Retry { .. } => {}
            PublisherMsg::Finish(done) => {
                state.finishing = Some(done);
                state.end_if_done();
            }
        }
        Ok(())
    }
}

impl PublisherState {
    fn link_changed(&mut self, myself: &ActorRef<PublisherMsg>, link: Link) {
        match link {
            Link::Up { bucket, .. } => {
                self.bucket = Some(bucket);
                self.go_on(myself);
            }
            // A disconnected client sends its messages whenever it is connected again.
            Link::Down | Link::Unusable(_) => {
                self.bucket = None;
                // The next server may be another one.
                self.stream_made = false;
            }
        }
    }

    /// Publishes the first event of the line. Creates the stream even if there is no event yet.
    fn go_on(&mut self, myself: &ActorRef<PublisherMsg>) {
        self.task.stop();
        let Some(bucket) = self.bucket.clone() else {
            return;
        };
        let event = self.news.tell();
        if event.is_none() && self.is_prepared() {
            return;
        }
        let (setup, stream_made) = (self.setup.clone(), self.stream_made);
        let myself = myself.clone();
        self.task.begin(async move |number| {
            let outcome = publish(&bucket, &setup, event.as_ref(), stream_made).await;
            let _ = myself.send_message(PublisherMsg::Told { number, outcome });
        });
    }

    fn told(&mut self, myself: &ActorRef<PublisherMsg>, outcome: Result<(), StoreError>) {
        match outcome {
            Ok(()) => {
                self.news.told();
                self.complained = false;
                self.stream_made = true;
                self.go_on(myself);
                self.end_if_done();
            }
            Err(error) => {
                self.stream_made = false;
                if !std::mem::replace(&mut self.complained, true) {
                    tracing::warn!(%error, "a leader change could not be published: trying again");
                }
                let myself = myself.clone();
                self.task.begin(async move |number| {
                    tokio::time::sleep(RETRY).await;
                    let _ = myself.send_message(PublisherMsg::Retry { number });
                });
            }
        }
    }

    /// Returns whether the stream exists, if one is configured.
    const fn is_prepared(&self) -> bool {
        self.stream_made || self.setup.events.keep.is_none()
    }

    fn end_if_done(&mut self) {
        if self.news.is_empty()
            && self.is_prepared()
            && let Some(done) = self.finishing.take()
        {
            let _ = done.send(());
        }
    }
}

/// Creates the stream, if need be, and publishes the event, if there is one.
async fn publish(
    bucket: &store::Bucket,
    setup: &PublisherSetup,
    event: Option<&LeaderEvent>,
    stream_made: bool,
) -> Result<(), StoreError> {
    let prefix = &setup.events.subject_prefix;
    let news = event.map(|event| {
        let subject = format!("{prefix}.{}.{}", bucket.name(), event.role);
        let id = format!("{}.{}", event.correlation_id, event.name());
        (subject, event.to_json(), id)
    });
    let made = match setup.events.keep {
        Some(keep) if !stream_made => {
            let (replicas, storage) = (setup.replicas, setup.storage);
            bucket
                .create_events_stream(prefix, keep, replicas, storage, TIMEOUT)
                .await
        }
        _ => Ok(()),
    };
    match news {
        None => made,
        Some((subject, payload, _)) if setup.events.keep.is_none() => {
            bucket.publish_event(subject, payload).await
        }
        Some((subject, payload, id)) => {
            // Another client may have created the stream that this user may not create.
            let kept = bucket.keep_event(subject, payload, &id, TIMEOUT).await;
            let stream = kept.map_err(|error| made.err().unwrap_or(error))?;
            if !stream_made && stream != events_stream(bucket.name()) {
                tracing::warn!(
                    stream,
                    "another stream keeps the leader changes: the history does not find them there"
                );
            }
            Ok(())
        }
    }
}
