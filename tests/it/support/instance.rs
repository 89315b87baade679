//! Instances whose handlers and events are recorded.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use nats_elect::{
    AuthConfig, BoxError, EndCause, Error, Event, FailureKind, LeaderInfo, Outcome, Refusal,
    RoleConfig, RoleHandle, RoleHandler, RoleManager, RoleManagerBuilder, RoleState, StepDown,
    SteppedDown, StopOptions, Storage, Term,
};
use nats_elect_testing::{NatsServer, eventually};
use tokio::task::JoinHandle;

use super::clock::Stamp;
use super::journal::Journal;
use super::{BUCKET, ROLE, SOON, leased_for, ms};

type Work = Arc<dyn Fn(Term) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>;

/// A handler that notes in a journal when it runs.
#[derive(Clone)]
pub struct Recorded {
    instance: String,
    journal: Journal,
    work: Work,
    healthy: Arc<AtomicBool>,
    announced: Arc<Mutex<Vec<Option<LeaderInfo>>>>,
}

impl Recorded {
    /// Leads until it is told to stop.
    pub fn obedient(instance: &str, journal: &Journal) -> Self {
        Self::working(instance, journal, |term: Term| async move {
            term.cancelled().await;
            Ok(())
        })
    }

    pub fn working<F, Fut>(instance: &str, journal: &Journal, work: F) -> Self
    where
        F: Fn(Term) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        Self {
            instance: instance.to_owned(),
            journal: journal.clone(),
            work: Arc::new(move |term| work(term).boxed()),
            healthy: Arc::new(AtomicBool::new(true)),
            announced: Arc::default(),
        }
    }

    pub fn set_healthy(&self, healthy: bool) {
        self.healthy.store(healthy, Ordering::SeqCst);
    }

    /// The leaders that `on_leader_change` was told.
    pub fn announced(&self) -> Vec<Option<LeaderInfo>> {
        self.announced.lock().expect("no panic").clone()
    }
}

impl RoleHandler for Recorded {
    async fn lead(&self, term: Term) -> Result<(), BoxError> {
        let _running = self.journal.enter(&self.instance, term.clone());
        (self.work)(term).await
    }

    async fn healthy(&self) -> bool {
        self.healthy.load(Ordering::SeqCst)
    }

    async fn on_leader_change(&self, leader: Option<LeaderInfo>) {
        self.announced.lock().expect("no panic").push(leader);
    }
}

/// An instance about to start.
pub struct Joining {
    id: String,
    journal: Journal,
    builder: RoleManagerBuilder,
    roles: Vec<String>,
}

/// A running instance, and all events of its roles.
pub struct Instance {
    pub id: String,
    manager: RoleManager,
    logs: Mutex<BTreeMap<String, EventLog>>,
}

/// An instance of the bucket `leaders`, which is made if it is missing: in memory, for a busy disk
/// should cost no lease where that is not what is tested.
pub fn instance(id: &str, url: impl AsRef<str>, journal: &Journal) -> Joining {
    guest(id, url, journal).with(|builder| builder.bucket_auto_create().storage(Storage::Memory))
}

/// An instance that makes no bucket.
pub fn guest(id: &str, url: impl AsRef<str>, journal: &Journal) -> Joining {
    Joining {
        id: id.to_owned(),
        journal: journal.clone(),
        builder: RoleManager::builder()
            .servers(url)
            .bucket(BUCKET)
            .instance_id(id),
        roles: Vec::new(),
    }
}

/// An instance of the admin of `deploy/nats` makes the bucket as the library does, and leaves.
pub async fn make_bucket(server: &NatsServer) {
    let maker = guest("maker", server.url(), &Journal::default()).user("admin", "change-me");
    let maker = maker.with(RoleManagerBuilder::bucket_auto_create);
    maker.start().await.stop().await;
}

/// Starts an instance that stands for the role of most tests.
pub async fn standing(
    id: &str,
    url: impl AsRef<str>,
    journal: &Journal,
    config: RoleConfig,
) -> Instance {
    instance(id, url, journal).standing(config).start().await
}

/// Starts one whose bucket has a replica on the disk of each of three servers.
pub async fn replicated(id: &str, urls: String, journal: &Journal, config: RoleConfig) -> Instance {
    let joining = instance(id, urls, journal).standing(config);
    let joining = joining.with(|builder| builder.replicas(3).storage(Storage::File));
    joining.start().await
}

/// Starts two instances. The first leads, and the second knows it.
pub async fn first_and_second(first: Joining, second: Joining) -> (Instance, Instance) {
    let first = Box::pin(first.start()).await;
    first.wait_until_leader().await;
    let second = Box::pin(second.start()).await;
    second.wait_until_following(&first.id).await;
    (first, second)
}

/// Two instances, of which `a` leads and `b` knows it.
pub async fn leader_and_follower(
    url: impl AsRef<str>,
    journal: &Journal,
    config: RoleConfig,
) -> (Instance, Instance) {
    let join = |id| instance(id, &url, journal).standing(config.clone());
    first_and_second(join("a"), join("b")).await
}

/// Whether an event reports a failure of this kind.
pub fn failure(of: FailureKind) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Failure { kind, .. } if *kind == of)
}

/// Whether an event reports a heartbeat that was confirmed.
pub fn is_confirmed(event: &Event) -> bool {
    let confirmed = Outcome::Confirmed;
    matches!(event, Event::HeartbeatEnded { outcome, .. } if *outcome == confirmed)
}

/// Whether an event reports that a term ends for this reason.
pub fn ending(why: EndCause) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::TermEnding { cause, .. } if *cause == why)
}

impl Joining {
    /// Changes what the builder would do.
    pub fn with(mut self, change: impl FnOnce(RoleManagerBuilder) -> RoleManagerBuilder) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Logs in as this user.
    pub fn user(self, name: &str, password: &str) -> Self {
        self.with(|it| it.auth(AuthConfig::default().user_and_password(name, password)))
    }

    /// Stands for the role of most tests, with an obedient handler.
    pub fn standing(self, config: RoleConfig) -> Self {
        self.role(ROLE, config)
    }

    /// Stands for a role with an obedient handler.
    pub fn role(self, role: &str, config: RoleConfig) -> Self {
        let handler = Recorded::obedient(&self.id, &self.journal);
        self.handler(role, config, handler)
    }

    /// Stands for a role with a handler that does this.
    pub fn working<F, Fut>(self, role: &str, config: RoleConfig, work: F) -> Self
    where
        F: Fn(Term) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        let handler = Recorded::working(&self.id, &self.journal, work);
        self.handler(role, config, handler)
    }

    pub fn handler(mut self, role: &str, config: RoleConfig, handler: impl RoleHandler) -> Self {
        self.builder = self.builder.role(role, config, handler);
        self.roles.push(role.to_owned());
        self
    }

    pub async fn try_start(self) -> Result<Instance, Error> {
        let manager = self.builder.start().await?;
        let instance = Instance {
            id: self.id,
            manager,
            logs: Mutex::default(),
        };
        for role in &self.roles {
            instance.record(&instance.role(role));
        }
        Ok(instance)
    }

    pub async fn start(self) -> Instance {
        let id = self.id.clone();
        let started = self.try_start().await;
        started.unwrap_or_else(|error| panic!("instance {id} does not start: {error}"))
    }
}

impl Instance {
    pub fn manager(&self) -> &RoleManager {
        &self.manager
    }

    pub fn role(&self, name: &str) -> RoleHandle {
        self.manager.role(name).expect("a known role")
    }

    pub fn is_leader(&self) -> bool {
        self.role(ROLE).is_leader()
    }

    pub fn state(&self) -> RoleState {
        self.role(ROLE).status().state
    }

    /// Begins to record the events of a role.
    pub fn record(&self, role: &RoleHandle) {
        let log = EventLog::of(&self.id, role);
        let mut logs = self.logs.lock().expect("no panic");
        logs.insert(role.name().to_owned(), log);
    }

    /// Begins to record the events of all roles once more, on this runtime.
    pub fn record_anew(&self) {
        let roles: Vec<_> = self.manager.status().into_keys().collect();
        for role in roles {
            self.record(&self.role(&role));
        }
    }

    /// What has happened to the role of most tests.
    pub fn log(&self) -> EventLog {
        self.log_of(ROLE)
    }

    pub fn log_of(&self, role: &str) -> EventLog {
        let logs = self.logs.lock().expect("no panic");
        logs.get(role).expect("a recorded role").clone()
    }

    pub async fn wait_until_leader(&self) {
        eventually(SOON, &format!("leadership of {}", self.id), async || {
            self.is_leader().then_some(())
        })
        .await;
    }

    /// Waits until it knows that this other instance leads.
    pub async fn wait_until_following(&self, leader: &str) {
        let what = format!("{} following {leader}", self.id);
        eventually(SOON, &what, async || {
            let status = self.role(ROLE).status();
            let known = status.leader.filter(|known| known.instance_id == leader);
            (status.state == RoleState::Follower && known.is_some()).then_some(())
        })
        .await;
    }

    pub async fn stop(self) {
        self.stop_with(StopOptions::default()).await.expect("stop");
    }

    pub async fn stop_with(self, options: StopOptions) -> Result<(), Error> {
        self.manager.stop(options).await
    }
}

/// The events of one role on one instance, with the times at which they were read. When it goes it
/// checks that the states followed each other along the edges of their diagram.
#[derive(Clone)]
pub struct EventLog(Arc<Recording>);

struct Recording {
    name: String,
    events: Arc<Mutex<Vec<(Stamp, Event)>>>,
    reader: JoinHandle<()>,
}

impl EventLog {
    fn of(id: &str, role: &RoleHandle) -> Self {
        let events = Arc::new(Mutex::new(Vec::new()));
        let (mut stream, pages) = (role.events(), Arc::clone(&events));
        let reader = tokio::spawn(async move {
            while let Some(event) = stream.next().await {
                pages.lock().expect("no panic").push((Stamp::now(), event));
            }
        });
        Self(Arc::new(Recording {
            name: format!("{id}/{}", role.name()),
            events,
            reader,
        }))
    }

    pub fn all(&self) -> Vec<(Stamp, Event)> {
        self.0.events.lock().expect("no panic").clone()
    }

    /// Why the terms ended, as they began to end.
    pub fn endings(&self) -> Vec<EndCause> {
        let events = self.all().into_iter();
        let causes = events.filter_map(|(_, event)| match event {
            Event::TermEnding { cause, .. } => Some(cause),
            _ => None,
        });
        causes.collect()
    }

    pub fn count(&self, is_it: impl Fn(&Event) -> bool) -> usize {
        self.all().iter().filter(|(_, event)| is_it(event)).count()
    }

    /// Waits for an event, in the past or the future.
    pub async fn wait_for(&self, what: &str, is_it: impl Fn(&Event) -> bool) -> (Stamp, Event) {
        eventually(SOON, what, async || {
            self.all().into_iter().find(|(_, event)| is_it(event))
        })
        .await
    }

    /// Waits for an event after that time.
    pub async fn wait_for_after(
        &self,
        time: Stamp,
        what: &str,
        is_it: impl Fn(&Event) -> bool,
    ) -> (Stamp, Event) {
        eventually(SOON, what, async || {
            self.all()
                .into_iter()
                .find(|(at, event)| *at >= time && is_it(event))
        })
        .await
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.reader.abort();
        if std::thread::panicking() {
            let beats = |event: &Event| matches!(event, Event::HeartbeatEnded { .. });
            for (at, event) in self.events.lock().expect("no panic").iter() {
                if !beats(event) {
                    eprintln!("{:>20} {} {event:?}", at.as_nanos(), self.name);
                }
            }
            return;
        }
        let mut last = None;
        for (_, event) in self.events.lock().expect("no panic").iter() {
            match event {
                Event::StateChanged { from, to } => {
                    assert!(from.may_become(*to), "{from} became {to}");
                    // A crashed election begins its life anew.
                    let reborn = last == Some(RoleState::Stopped) && *from == RoleState::Init;
                    assert!(
                        reborn || last.is_none_or(|last| last == *from),
                        "{last:?} was followed by a change from {from}"
                    );
                    last = Some(*to);
                }
                Event::Lagged { .. } => last = None,
                _ => {}
            }
        }
    }
}

/// Asserts for a while that nothing happens: what must not be can't be waited for.
pub async fn never(what: &str, window: Duration, mut happens: impl FnMut() -> bool) {
    let begin = Stamp::now();
    while Stamp::now().since(begin) < window {
        assert!(!happens(), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Has it step down in favour of anybody.
pub async fn step_down(role: &RoleHandle) {
    let down = role.step_down(StepDown::any()).await;
    assert!(down.expect("a leader").released);
}

/// Hands the role over by name, as soon as the successor is ready. At first it may not have read the
/// keys, or its watch may have left out the release of the term before.
pub async fn hand_over(role: &RoleHandle, to: &str) -> SteppedDown {
    let passes = |reason| {
        matches!(
            reason,
            Refusal::CoolingDown | Refusal::Behind | Refusal::Disconnected
        )
    };
    // A step down that is not waited for happens all the same: each is waited for.
    let handing = async {
        loop {
            match role.step_down(StepDown::to(to)).await {
                Ok(down) => break down,
                Err(Error::SuccessorAbsent { .. }) => {}
                Err(Error::SuccessorRefused { reason, .. }) => assert!(passes(reason), "{reason}"),
                Err(error) => panic!("{error}"),
            }
            tokio::time::sleep(ms(50)).await;
        }
    };
    let handed = tokio::time::timeout(SOON, handing).await;
    handed.unwrap_or_else(|_| panic!("no handoff to {to} in time"))
}

/// Leads, and blocks its thread until it is told to end: nothing in this process can end it sooner.
#[cfg_attr(
    not(feature = "health"),
    allow(dead_code, reason = "tests of the probes use it")
)]
pub async fn leading_deafly(server: &NatsServer) -> (Instance, Sender<()>) {
    let journal = Journal::default();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let a = instance("a", server.url(), &journal)
        .working(ROLE, leased_for(ms(3000)), move |_term| {
            let held = held.clone();
            async move {
                let _ = held.lock().expect("alone").recv();
                Ok(())
            }
        })
        .start()
        .await;
    a.wait_until_leader().await;
    (a, release)
}
