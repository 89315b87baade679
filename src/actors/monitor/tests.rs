//! The monitor on a real server, with elections that only note what they are told.

use nats_elect_testing::{NatsServer, TcpProxy, eventually};
use tokio::sync::mpsc;

use super::*;
use crate::actors::Routes;
use crate::actors::connection::tuned;
use crate::support::{BUCKET, SOON, ms};
use nats_elect_core::name::BucketName;

/// An election that passes on what it is told of grace periods.
struct Listener;

struct Told {
    role: RoleName,
    since: Moment,
    at: Moment,
}

impl Actor for Listener {
    type Msg = ElectionMsg;
    type State = (RoleName, mpsc::UnboundedSender<Told>);
    type Arguments = Self::State;

    async fn pre_start(
        &self,
        _: ActorRef<ElectionMsg>,
        state: Self::State,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(state)
    }

    async fn handle(
        &self,
        _: ActorRef<ElectionMsg>,
        message: ElectionMsg,
        (role, told): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let ElectionMsg::Input(Input::GraceOver { since }) = message {
            let (role, at) = (role.clone(), clock::now());
            let _ = told.send(Told { role, since, at });
        }
        Ok(())
    }
}

/// A monitor whose server is reached through a proxy, and what it tells.
struct Scene {
    proxy: TcpProxy,
    links: mpsc::UnboundedReceiver<Link>,
    told: mpsc::UnboundedReceiver<Told>,
    monitor: ActorRef<MonitorMsg>,
    /// When the monitor was started.
    since: Moment,
    _server: NatsServer,
}

const SHORT: Duration = ms(400);
const LONG: Duration = ms(900);

fn role(name: &str) -> RoleName {
    RoleName::new(name).expect("a name")
}

impl Scene {
    /// With `is_lost` the proxy is cut already, and the monitor counts from `since`.
    async fn new(is_lost: bool) -> Self {
        let server = NatsServer::start().expect("start a server");
        let proxy = TcpProxy::start(server.url()).expect("start a proxy");
        let client = tuned(async_nats::ConnectOptions::new(), "monitored")
            .connect(proxy.url())
            .await
            .expect("connect");
        if is_lost {
            proxy.cut();
            let down = async || {
                let state = client.connection_state();
                (state != ConnectionState::Connected).then_some(())
            };
            eventually(SOON, "an outage", down).await;
        }
        let routes = Routes::default();
        let (tell, told) = mpsc::unbounded_channel();
        for (name, grace) in [("short", Some(SHORT)), ("long", Some(LONG)), ("none", None)] {
            let listening = Actor::spawn(None, Listener, (role(name), tell.clone())).await;
            let (listener, _) = listening.expect("a listener");
            routes.set(role(name), listener, grace);
        }
        let (tell, links) = mpsc::unbounded_channel();
        let connection = Connection::Given(client);
        let bucket = BucketName::new(BUCKET).expect("a name");
        let tell = move |link| {
            let _ = tell.send(link);
        };
        let since = clock::now();
        let setup = MonitorSetup {
            routes,
            lost_at: is_lost.then_some(since),
            ..MonitorSetup::without_elections(connection, bucket, SOON, tell)
        };
        let spawned = Actor::spawn(None, MonitorActor, (setup, None)).await;
        let (monitor, _) = spawned.expect("a monitor");
        Self {
            proxy,
            links,
            told,
            monitor,
            since,
            _server: server,
        }
    }

    /// Returns since when the connection is lost, when that is told.
    async fn lost(&mut self) -> Moment {
        loop {
            if let Link::Down { since } = self.links.recv().await.expect("a link") {
                return since;
            }
        }
    }

    /// Awaits a link that is not down.
    async fn back(&mut self) {
        while let Link::Down { .. } = self.links.recv().await.expect("a link") {}
    }

    async fn hears(&mut self, name: &str, since: Moment, grace: Duration) {
        let told = self.told.recv().await.expect("a word");
        assert_eq!((told.role, told.since), (role(name), since));
        assert!(told.at >= since + grace, "{grace:?}");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.monitor.stop(None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_election_hears_once_an_outage_that_its_own_grace_period_has_passed() {
    let mut scene = Scene::new(false).await;
    scene.back().await;
    let mut before = Moment::default();
    for _ in 0..2 {
        scene.proxy.cut();
        let since = scene.lost().await;
        assert!(since > before, "another outage");
        before = since;
        scene.hears("short", since, SHORT).await;
        scene.hears("long", since, LONG).await;
        scene.proxy.restore();
        scene.back().await;
    }
    // What was told of the first outage came before the second, and nothing came twice.
    assert!(scene.told.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_monitor_that_takes_the_place_of_another_counts_on() {
    let mut scene = Scene::new(true).await;
    let since = scene.since;
    scene.hears("short", since, SHORT).await;
    scene.hears("long", since, LONG).await;
}
