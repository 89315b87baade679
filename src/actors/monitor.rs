//! The connection monitor. It makes the connection, watches over the connection and the bucket, and
//! reports the link to all users. It measures outages, and tells each election when one has lasted
//! for its grace period.

mod looks;
mod outage;
mod setup;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::mem::discriminant;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State as ConnectionState;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::Link;
use super::connection::{Connection, Own, lasting, problem};
use super::messages::{ElectionMsg, MonitorMsg};
use crate::backoff::Backoff;
use crate::clock;
use crate::error::Error;
use crate::repeated::{Repeated, without_random_parts};
use crate::store::{self, BucketInfo, BucketNote, Denied, Mailbox, StoreError, inbox_prefix};
use nats_elect_core::duration::exact;
use nats_elect_core::name::RoleName;
use nats_elect_core::{Input, Moment};
use outage::Outage;
pub(crate) use setup::MonitorSetup;

/// The interval between looks at the connection's state. With a client of our own, events report
/// the same sooner.
const POLL_OWN: Duration = Duration::from_millis(100);
const POLL_GIVEN: Duration = Duration::from_millis(20);
/// The pause between looks at a bucket that cannot be used, and between attempts to connect.
const RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
/// The time between looks at a bucket that is used. Its settings may change, and the server tells
/// nobody.
const NOW_AND_THEN: Backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(10));
/// The pause between new connections that are made while the subscription to answers is refused.
const RENEWAL: Duration = Duration::from_secs(10);

pub(crate) struct MonitorActor;

/// Receives one message: that the bucket was opened, or that it cannot be.
pub(crate) type Ready = oneshot::Sender<Result<(store::Bucket, BucketInfo), Error>>;

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct MonitorState {
    setup: MonitorSetup,
    ready: Option<Ready>,
    client: Option<Client>,
    mailbox: Arc<Mailbox>,
    connects: u64,
    link: Link,
    bucket: Option<(store::Bucket, nats_elect_core::Bucket)>,
    looks: u64,
    looking: bool,
    looked_at: Option<Moment>,
    /// When the bucket is looked at without being asked to.
    next_look: Moment,
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
    /// The moment when the connection was last renewed for a refused subscription.
    renewed_at: Option<Moment>,
    outage: Option<Outage>,
    /// The outages that were logged.
    lost: Repeated,
    /// What the server said last of the connection as a whole.
    farewell: Option<String>,
    /// Said once in each outage.
    told_refused: bool,
    /// The problems that were logged.
    logged: Repeated,
    /// The creation time of the bucket that was used last.
    epoch: Option<u64>,
    /// The risks of its settings that were told.
    notes: Vec<BucketNote>,
}

impl Actor for MonitorActor {
    type Msg = MonitorMsg;
    type State = MonitorState;
    type Arguments = (MonitorSetup, Option<Ready>);

    async fn pre_start(
        &self,
        myself: ActorRef<MonitorMsg>,
        (setup, ready): (MonitorSetup, Option<Ready>),
    ) -> Result<MonitorState, ActorProcessingErr> {
        if ready.is_some() {
            myself.send_after(setup.start_timeout, || MonitorMsg::StartTimedOut);
        }
        let state = MonitorState {
            client: None,
            mailbox: Arc::default(),
            connects: 0,
            link: Link::Down {
                since: clock::now(),
            },
            bucket: None,
            looks: 0,
            looking: false,
            looked_at: None,
            next_look: clock::now(),
            look_again: false,
            awaiting: BTreeSet::new(),
            asking: BTreeSet::new(),
            retrying: false,
            failures: 0,
            last_problem: "no answer yet".into(),
            awaited: None,
            renewed_at: None,
            outage: setup.lost_at.map(Outage::unlogged),
            lost: Repeated::default(),
            farewell: None,
            told_refused: false,
            logged: Repeated::default(),
            epoch: None,
            notes: Vec::new(),
            ready,
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
        let span = state.setup.span.clone();
        span.in_scope(|| state.take(&myself, message));
        Ok(())
    }
}

impl MonitorState {
    fn take(&mut self, myself: &ActorRef<MonitorMsg>, message: MonitorMsg) {
        match message {
            MonitorMsg::Connected(Ok(client)) => self.connected(myself, client),
            MonitorMsg::Connected(Err(error)) => self.not_connected(myself, &error),
            MonitorMsg::ClientEvent(event) => self.client_event(myself, &event),
            MonitorMsg::Poll => {
                self.look_at_connection(myself);
                self.enforce_grace();
                if matches!(self.link, Link::Up { .. }) && clock::now() >= self.next_look {
                    self.look_at_bucket(myself);
                }
                self.poll_later(myself);
            }
            MonitorMsg::LookAtBucket => self.look_at_bucket(myself),
            MonitorMsg::Reopen(role) => self.look_for(myself, role),
            MonitorMsg::Looked(number, result) if number == self.looks => {
                self.looked(myself, result);
            }
            MonitorMsg::Looked(..) => {}
            MonitorMsg::Retry => {
                self.retrying = false;
                if self.client.is_none() {
                    self.connect(myself);
                } else if !self.reconnect() {
                    self.look_at_bucket(myself);
                }
            }
            MonitorMsg::StartTimedOut => {
                let failure = match self.awaited.clone() {
                    Some(missing) => Error::of_bucket(missing),
                    None => Error::Unavailable {
                        after: self.setup.start_timeout,
                        reason: self.problem_and_addresses(),
                    },
                };
                self.start_failed(failure);
            }
        }
    }

    fn connect(&self, myself: &ActorRef<MonitorMsg>) {
        match self.setup.connection.clone() {
            Connection::Given(client) => {
                let _ = myself.send_message(MonitorMsg::Connected(Ok(client)));
            }
            Connection::Own(Own {
                servers, options, ..
            }) => {
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
        // The log of the outage names the server, so the old client is still needed.
        self.disconnected();
        self.client = None;
        self.mailbox = Arc::default();
        self.bucket = None;
        self.looked_at = None;
        self.connects = 0;
        self.connect(myself);
    }

    fn not_connected(&mut self, myself: &ActorRef<MonitorMsg>, error: &async_nats::ConnectError) {
        self.last_problem = problem(error);
        if let Some(failure) = lasting(error, &self.setup.connection.target()) {
            self.start_failed(failure);
        } else {
            let problem = self.problem_and_addresses();
            self.log_problem(&problem);
        }
        self.retry_later(myself);
    }

    fn client_event(&mut self, myself: &ActorRef<MonitorMsg>, event: &async_nats::Event) {
        tracing::debug!(%event, "connection");
        match event {
            async_nats::Event::ServerError(_) => {
                if let Some(denied) = Denied::of(event) {
                    self.denied(myself, denied);
                } else {
                    let told = event.to_string();
                    let concerns_login = told.to_lowercase().contains("auth");
                    self.farewell = concerns_login.then_some(told).or(self.farewell.take());
                }
            }
            // The client's error from an attempt to reconnect.
            async_nats::Event::ClientError(error) => self.not_reconnected(error.to_string()),
            async_nats::Event::Disconnected => self.disconnected(),
            _ => self.look_at_connection(myself),
        }
    }

    /// Reports a failed attempt to reconnect. The client retries forever, because a refused login
    /// may be granted again. The operator must know about it.
    fn not_reconnected(&mut self, problem: String) {
        let refused =
            problem.contains("authorization violation") || problem.contains("failed signing nonce");
        if refused && !std::mem::replace(&mut self.told_refused, true) {
            let login = self.setup.connection.target().login;
            let login = login.as_deref().unwrap_or("the given client");
            // What the server said when it ended the connection tells more.
            let reason = self.farewell.take();
            let reason = reason.as_deref().unwrap_or(&problem);
            tracing::error!(
                reason,
                "NATS refuses the credentials of {login}, which it had accepted before, or they can't be read any more: trying on; check whether they were replaced or revoked, or have expired"
            );
        }
        if let Some(outage) = &mut self.outage {
            outage.failed(problem);
        }
    }

    /// Renews the connection, if the subscription to answers is refused. A new connection may have
    /// new credentials. Returns whether the connection is renewed.
    fn reconnect(&mut self) -> bool {
        let own = matches!(self.setup.connection, Connection::Own(_));
        let lately = self
            .renewed_at
            .is_some_and(|at| clock::now() < at + RENEWAL);
        let refused = own && !lately && self.mailbox.is_refused();
        let Some(client) = self.client.clone().filter(|_| refused) else {
            return false;
        };
        self.renewed_at = Some(clock::now());
        // The client's events, or the next poll, report the result.
        tokio::spawn(async move { client.force_reconnect().await });
        true
    }

    /// Takes a refusal of the server. It ends the requests that it concerns, some of which may have
    /// been given up before.
    fn denied(&mut self, myself: &ActorRef<MonitorMsg>, denied: Denied) {
        let unanswered = self.mailbox.denied(&denied);
        let inbox = self.client.as_ref().map(inbox_prefix);
        if let (Some(admin), Some(inbox)) = (&self.setup.admin, inbox)
            && admin.denied(&denied, &inbox)
        {
            return;
        }
        let text = without_random_parts(&denied.to_string());
        if denied.is_reported(&self.setup.bucket) {
            tracing::debug!("{text}");
        } else if let Some(repeats) = self.logged.is_due(&text, clock::now()) {
            let repeats = (repeats > 0).then_some(repeats);
            tracing::warn!(repeats, "{text}: grant it");
        }
        if let Some(role) = denied.data_of(&self.setup.bucket) {
            // The election makes no such request.
            let message = ElectionMsg::DataDenied(denied);
            self.setup.routes.send(&role, message);
        } else if denied.is_of_group(&self.setup.bucket) {
            // The write itself has failed with it, and the bucket can be used all the same.
        } else if unanswered && !self.looking && !self.retrying {
            self.look_at_bucket(myself);
        }
    }

    fn poll_later(&self, myself: &ActorRef<MonitorMsg>) {
        let poll = if matches!(self.setup.connection, Connection::Given(_)) {
            POLL_GIVEN
        } else {
            POLL_OWN
        };
        let next = self.next_grace_over();
        let wait = next.map_or(poll, |at| at.since(clock::now()).min(poll));
        myself.send_after(wait, || MonitorMsg::Poll);
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
            self.disconnected();
            if let Some(outage) = &mut self.outage {
                outage.lasts(clock::now());
            }
            return;
        }
        let is_down = matches!(self.link, Link::Down { .. });
        if !flapped && !is_down && self.outage.is_none() {
            return;
        }
        self.connects = connects;
        self.told_refused = false;
        self.farewell = None;
        if flapped && !is_down {
            self.disconnected();
        }
        if let Some(outage) = self.outage.take() {
            outage.ended(&self.server(), clock::now());
        }
        // Sequences of such a bucket are never used twice. A compare-and-set shows whether it is
        // still the same bucket.
        if let Some((bucket, info)) = self
            .bucket
            .clone()
            .filter(|(_, info)| info.unique_sequences)
        {
            self.tell(Link::Up { bucket, info });
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

    /// Returns the connected server, or the last one.
    fn server(&self) -> String {
        let client = self.client.as_ref();
        client.map_or_else(String::new, store::server_of)
    }

    /// Describes why there is no connection yet, and to which servers.
    fn problem_and_addresses(&self) -> String {
        match self.setup.connection.target().addresses {
            Some(addresses) => format!("{} (tried {addresses})", self.last_problem),
            None => self.last_problem.clone(),
        }
    }

    /// Logs why NATS or the bucket can't be used yet.
    fn log_problem(&mut self, problem: &str) {
        let Some(repeats) = self.logged.is_due(problem, clock::now()) else {
            return;
        };
        let repeats = (repeats > 0).then_some(repeats);
        if self.ready.is_some() {
            let timeout = exact(self.setup.start_timeout);
            tracing::warn!(repeats, "{problem}: trying for {timeout}");
        } else {
            tracing::warn!(repeats, "{problem}: trying on");
        }
    }

    fn start_failed(&mut self, failure: Error) {
        if let Some(ready) = self.ready.take() {
            let _ = ready.send(Err(failure));
        }
    }

    /// Reports that the connection is lost, if there was one.
    fn disconnected(&mut self) {
        if self.outage.is_none() && self.connects > 0 {
            let server = self.server();
            self.outage = Some(Outage::began(server, &mut self.lost, clock::now()));
        }
        if let Some(outage) = &self.outage {
            let since = outage.since;
            self.tell(Link::Down { since });
        }
    }

    /// Tells each election whose grace period has passed within this outage, once.
    fn enforce_grace(&mut self) {
        let Some(outage) = &mut self.outage else {
            return;
        };
        let since = outage.since;
        let passed = outage.passed(clock::now());
        for (role, grace) in self.setup.routes.graces() {
            if passed.contains(&grace) {
                tracing::debug!(%role, ?grace, "the grace period is over");
                let message = ElectionMsg::Input(Input::GraceOver { since });
                self.setup.routes.send(&role, message);
            }
        }
    }

    /// When the next grace period passes, if this outage lasts.
    fn next_grace_over(&self) -> Option<Moment> {
        let outage = self.outage.as_ref()?;
        let graces = self.setup.routes.graces().into_iter();
        let ends = graces.filter_map(|(_, grace)| outage.next(grace));
        ends.min()
    }

    fn tell(&mut self, link: Link) {
        if discriminant(&self.link) != discriminant(&link) {
            self.link = link.clone();
            (self.setup.tell)(link);
        }
    }
}
