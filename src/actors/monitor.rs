//! The connection monitor. It makes the connection, watches over the connection and the bucket, and
//! reports the link to all users.

mod looks;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State as ConnectionState;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::admin::AdminHandler;
use super::connection::{Connection, StartFailure, lasting, problem};
use super::messages::{ElectionMsg, MonitorMsg};
use super::{Link, Routes};
use crate::backoff::Backoff;
use crate::clock;
use crate::store::{self, BucketInfo, Denied, IfMissing, StoreError};
use nats_elect_core::Moment;
use nats_elect_core::name::{BucketName, RoleName};

/// The interval between looks at the connection's state. With a client of our own, events report
/// the same sooner.
const POLL_OWN: Duration = Duration::from_millis(100);
const POLL_GIVEN: Duration = Duration::from_millis(20);
/// The pause between looks at a bucket that cannot be used, and between attempts to connect.
const RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
/// The pause between new connections that are made to retry a refused subscription.
const RENEWAL: Duration = Duration::from_secs(10);

pub(crate) struct MonitorActor;

pub(crate) struct MonitorSetup {
    /// Called at each change of the link.
    pub tell: Box<dyn Fn(Link) + Send + Sync>,
    pub connection: Connection,
    pub bucket: BucketName,
    pub if_missing: IfMissing,
    pub routes: Routes,
    /// The admin service, if there is one. It takes the server's refusals that concern it.
    pub admin: Option<Arc<AdminHandler>>,
    pub start_timeout: Duration,
    /// Receives one message: that the bucket was opened, or that it cannot be.
    pub ready: Option<oneshot::Sender<Result<BucketInfo, StartFailure>>>,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct MonitorState {
    setup: MonitorSetup,
    client: Option<Client>,
    connects: u64,
    link: LinkState,
    bucket: Option<(store::Bucket, nats_elect_core::Bucket)>,
    looks: u64,
    looking: bool,
    looked_at: Option<Moment>,
    look_again: bool,
    /// Elections that ask for a look. A look in progress began before they asked.
    asking: BTreeSet<RoleName>,
    /// Elections that wait for the result of the look in progress, even if nothing is new.
    awaiting: BTreeSet<RoleName>,
    retrying: bool,
    failures: u32,
    last_problem: String,
    /// The error of a missing bucket, while the bucket is awaited.
    awaited: Option<StoreError>,
    /// The server's last refusal of an operation that a look needs. The requests themselves only
    /// time out.
    denied: Option<Denied>,
    /// The moment when the connection was last renewed for a refused subscription.
    renewed_at: Option<Moment>,
    /// Said once in each outage.
    told_refused: bool,
}

/// The last reported state of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    Down,
    Unusable,
    Up,
}

impl Actor for MonitorActor {
    type Msg = MonitorMsg;
    type State = MonitorState;
    type Arguments = MonitorSetup;

    async fn pre_start(
        &self,
        myself: ActorRef<MonitorMsg>,
        setup: MonitorSetup,
    ) -> Result<MonitorState, ActorProcessingErr> {
        if setup.ready.is_some() {
            myself.send_after(setup.start_timeout, || MonitorMsg::StartTimedOut);
        }
        let state = MonitorState {
            client: None,
            connects: 0,
            link: LinkState::Down,
            bucket: None,
            looks: 0,
            looking: false,
            looked_at: None,
            look_again: false,
            awaiting: BTreeSet::new(),
            asking: BTreeSet::new(),
            retrying: false,
            failures: 0,
            last_problem: "no answer yet".into(),
            awaited: None,
            denied: None,
            renewed_at: None,
            told_refused: false,
            setup,
        };
        state.connect(&myself);
        state.poll_later(&myself);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<MonitorMsg>,
        message: MonitorMsg,
        state: &mut MonitorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            MonitorMsg::Connected(Ok(client)) => state.connected(&myself, client),
            MonitorMsg::Connected(Err(error)) => state.not_connected(&myself, &error),
            MonitorMsg::ClientEvent(event) => state.client_event(&myself, &event),
            MonitorMsg::Poll => {
                state.look_at_connection(&myself);
                state.poll_later(&myself);
            }
            MonitorMsg::LookAtBucket => state.look_at_bucket(&myself),
            MonitorMsg::Reopen(role) => state.look_for(&myself, role),
            MonitorMsg::Looked(number, result) if number == state.looks => {
                state.looked(&myself, result);
            }
            MonitorMsg::Looked(..) => {}
            MonitorMsg::Retry => {
                state.retrying = false;
                if state.client.is_none() {
                    state.connect(&myself);
                } else if !state.reconnect() {
                    state.look_at_bucket(&myself);
                }
            }
            MonitorMsg::StartTimedOut => {
                let failure = match state.awaited.clone() {
                    Some(missing) => StartFailure::Bucket(missing),
                    None => StartFailure::Unavailable(state.last_problem.clone()),
                };
                state.start_failed(failure);
            }
        }
        Ok(())
    }
}

/// Returns whether the refused request concerns the bucket's stream. The published events may have
/// another stream.
fn is_about(denied: &Denied, bucket: &BucketName) -> bool {
    let stream = denied.subject.strip_prefix("$JS.API.STREAM.");
    stream.is_some_and(|rest| rest.ends_with(&format!(".KV_{bucket}")))
}

impl MonitorState {
    fn connect(&self, myself: &ActorRef<MonitorMsg>) {
        match self.setup.connection.clone() {
            Connection::Given(client) => {
                let _ = myself.send_message(MonitorMsg::Connected(Ok(client)));
            }
            Connection::Own { servers, options } => {
                let events = myself.clone();
                let options = options.event_callback(move |event| {
                    let _ = events.send_message(MonitorMsg::ClientEvent(event));
                    std::future::ready(())
                });
                let myself = myself.clone();
                tokio::spawn(async move {
                    let connected = options.connect(servers).await;
                    let _ = myself.send_message(MonitorMsg::Connected(connected));
                });
            }
        }
    }

    fn connected(&mut self, myself: &ActorRef<MonitorMsg>, client: Client) {
        self.client = Some(client);
        self.failures = 0;
        self.look_at_connection(myself);
    }

    /// Makes a new client, because this one has ended. A client ends when it receives headers that
    /// it cannot read.
    fn connect_anew(&mut self, myself: &ActorRef<MonitorMsg>) {
        tracing::error!("the connection to NATS has ended for good: making a new one");
        self.client = None;
        self.bucket = None;
        self.looked_at = None;
        self.connects = 0;
        self.tell(LinkState::Down, Link::Down);
        self.connect(myself);
    }

    fn not_connected(&mut self, myself: &ActorRef<MonitorMsg>, error: &async_nats::ConnectError) {
        self.last_problem = problem(error);
        if let Some(failure) = lasting(error) {
            self.start_failed(failure);
        }
        self.retry_later(myself);
    }

    fn client_event(&mut self, myself: &ActorRef<MonitorMsg>, event: &async_nats::Event) {
        tracing::debug!(%event, "connection");
        match event {
            async_nats::Event::ServerError(error) => {
                if let Some(denied) = Denied::parse(&error.to_string()) {
                    self.denied(myself, denied);
                }
            }
            // The client's error from an attempt to reconnect.
            async_nats::Event::ClientError(error) => self.not_reconnected(&error.to_string()),
            async_nats::Event::Disconnected => self.tell(LinkState::Down, Link::Down),
            _ => self.look_at_connection(myself),
        }
    }

    /// Reports a failed attempt to reconnect. The client retries forever, because a refused login
    /// may be granted again. The operator must know about it.
    fn not_reconnected(&mut self, problem: &str) {
        let refused =
            problem.contains("authorization violation") || problem.contains("failed signing nonce");
        if refused && !std::mem::replace(&mut self.told_refused, true) {
            tracing::error!(
                "NATS refuses the credentials of a connection that it had accepted before, or they can't be read any more: trying on"
            );
        }
    }

    /// Renews the connection, if the subscription to answers was refused. Only another connection
    /// retries it. Returns whether the connection is renewed.
    fn reconnect(&mut self) -> bool {
        let refused = self.denied.as_ref().is_some_and(|denied| !denied.publish);
        let own = matches!(self.setup.connection, Connection::Own { .. });
        let lately = self
            .renewed_at
            .is_some_and(|at| clock::now() < at + RENEWAL);
        let Some(client) = self.client.clone().filter(|_| refused && own) else {
            return false;
        };
        if lately {
            return false;
        }
        self.renewed_at = Some(clock::now());
        // The client's events, or the next poll, report the result.
        tokio::spawn(async move { client.force_reconnect().await });
        true
    }

    fn denied(&mut self, myself: &ActorRef<MonitorMsg>, denied: Denied) {
        if let Some(admin) = self.setup.admin.as_ref()
            && self.is_admins(admin, &denied)
        {
            admin.denied(&denied);
            return;
        }
        tracing::warn!("{denied}: grant it");
        let bucket = &self.setup.bucket;
        if let Some(role) = denied.data_of(bucket) {
            // No election and no look waits for it.
            self.setup
                .routes
                .send(&role, ElectionMsg::DataDenied(denied));
            return;
        }
        let key = denied.subject.strip_prefix(&format!("$KV.{bucket}."));
        let key = key.filter(|_| denied.publish);
        let role = key.map(|key| key.strip_prefix("_fence.").unwrap_or(key));
        if let Some(role) = role.and_then(|role| RoleName::new(role).ok()) {
            self.setup.routes.send(&role, ElectionMsg::Denied(denied));
        } else if denied.subject.starts_with("$JS.API.STREAM.MSG.GET.") {
            // Every role reads its keys.
            for election in self.setup.routes.all() {
                let _ = election.send_message(ElectionMsg::Denied(denied.clone()));
            }
        } else if !denied.publish {
            if self.is_inbox(&denied.subject) {
                // No request will receive an answer.
                self.not_looked(myself, denied);
            }
        } else if key.is_some() || is_about(&denied, bucket) {
            if self.looking {
                self.not_looked(myself, denied);
            } else {
                self.denied = Some(denied);
            }
        }
    }

    /// Returns whether the refusal concerns the admin service. No other part publishes to inboxes,
    /// or subscribes to the subjects of services.
    fn is_admins(&self, admin: &AdminHandler, denied: &Denied) -> bool {
        let Denied { publish, subject } = denied;
        let elsewhere = if *publish {
            subject.starts_with("_INBOX.") || self.is_inbox(subject)
        } else {
            subject.starts_with("$SRV.")
        };
        elsewhere || admin.subjects().include(subject)
    }

    fn is_inbox(&self, subject: &str) -> bool {
        let inbox = self.client.as_ref().map(Client::new_inbox);
        let prefix = inbox.as_deref().and_then(|inbox| inbox.rsplit_once('.'));
        prefix.is_some_and(|(prefix, _)| subject.starts_with(prefix))
    }

    /// Takes a refusal that prevents a look at the bucket. The answer to a look will not come.
    fn not_looked(&mut self, myself: &ActorRef<MonitorMsg>, denied: Denied) {
        self.denied = Some(denied);
        self.looks += 1;
        self.looking = false;
        let subject = String::new();
        self.look_failed(myself, &StoreError::Timeout { subject });
    }

    fn poll_later(&self, myself: &ActorRef<MonitorMsg>) {
        let poll = if matches!(self.setup.connection, Connection::Given(_)) {
            POLL_GIVEN
        } else {
            POLL_OWN
        };
        myself.send_after(poll, || MonitorMsg::Poll);
    }

    fn retry_later(&mut self, myself: &ActorRef<MonitorMsg>) {
        if std::mem::replace(&mut self.retrying, true) {
            return;
        }
        let wait = RETRY.spread_after(self.failures);
        self.failures += 1;
        myself.send_after(wait, || MonitorMsg::Retry);
    }

    fn look_at_connection(&mut self, myself: &ActorRef<MonitorMsg>) {
        let Some(client) = &self.client else { return };
        let connects = client.statistics().connects.load(Ordering::Relaxed);
        let flapped = connects != self.connects;
        if client.connection_state() != ConnectionState::Connected {
            self.tell(LinkState::Down, Link::Down);
            return;
        }
        if !flapped && self.link != LinkState::Down {
            return;
        }
        self.connects = connects;
        self.denied = None;
        self.told_refused = false;
        if flapped && self.link != LinkState::Down {
            self.tell(LinkState::Down, Link::Down);
        }
        // Sequences of such a bucket are never used twice. A compare-and-set shows whether it is
        // still the same bucket.
        if let Some((bucket, info)) = self
            .bucket
            .clone()
            .filter(|(_, info)| info.unique_sequences)
        {
            self.tell(LinkState::Up, Link::Up { bucket, info });
        }
        if flapped {
            // A look from before the reconnect says nothing about the present state.
            self.looking = false;
            self.looked_at = None;
        } else if self.retrying {
            return;
        }
        self.look_at_bucket(myself);
    }

    fn start_failed(&mut self, failure: StartFailure) {
        if let Some(ready) = self.setup.ready.take() {
            let _ = ready.send(Err(failure));
        }
    }

    fn tell(&mut self, standing: LinkState, link: Link) {
        if self.link != standing {
            self.link = standing;
            (self.setup.tell)(link);
        }
    }
}
