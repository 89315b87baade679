//! Applications and agents that die, stand still, or lose one another.

use nats_elect_testing::{NatsServer, eventually};
use rustix::process::Signal;

use crate::agent::languages::Language;
use crate::agent::running::Agent;
use crate::agent::worker::{History, Worker};
use crate::fleet::SOON;

const STEP_DOWN: &str = "/v1/roles/worker/step-down";

/// Two agents, each with a worker. The first one works.
struct Fleet {
    _server: NatsServer,
    first: Agent,
    second: Agent,
    leader: Worker,
    follower: Worker,
    history: History,
}

impl Fleet {
    async fn start(ttl: &str) -> Self {
        Self::start_in(&Language::python(), ttl).await
    }

    /// With a leader in this language.
    async fn start_in(language: &Language, ttl: &str) -> Self {
        Self::of(language, &format!("[roles.worker]\nttl = {ttl:?}\n")).await
    }

    async fn of(language: &Language, config: &str) -> Self {
        let server = NatsServer::start().expect("a server");
        let first = Agent::start_with(&server, "first", config, &[]).await;
        let second = Agent::start_with(&server, "second", config, &[]).await;
        let history = History::new();
        let leader = Worker::start_in(language, &first, "leader", &history);
        history.works(leader.name(), &[]).await;
        let follower = Worker::start(&second, "follower", &history);
        let fleet = Self {
            _server: server,
            first,
            second,
            leader,
            follower,
            history,
        };
        fleet.stands_by().await;
        fleet
    }

    /// Waits until the first agent leads and the second one follows. On a busy machine a short lease
    /// may have been lost.
    async fn stands_by(&self) {
        self.give_back().await;
        self.second.follows().await;
    }

    /// The second agent hands the role to the first one, as soon as that can take it. An agent that
    /// has just been woken up may not have noticed that its term is over, but `is_leader` asks the clock.
    async fn give_back(&self) {
        eventually(SOON, "a first agent that leads", async || {
            let leads = self.first.status()?["is_leader"] == true;
            if !leads {
                let to = r#"{"to": "first"}"#;
                let _ = self
                    .second
                    .client()
                    .try_ask("POST", STEP_DOWN, &[], to.as_bytes());
            }
            leads.then_some(())
        })
        .await;
    }

    /// Waits for the follower's first work. Returns the time since the leader's last.
    async fn follower_works(&self) -> f64 {
        let run = self.history.works(self.follower.name(), &[]).await;
        let runs = self.history.runs();
        let before = runs.iter().rev().find(|it| it.worker == self.leader.name());
        run.first - before.expect("the leader worked").last
    }
}

#[tokio::test]
async fn a_paused_application_loses_its_role_and_does_not_act_when_it_wakes_up() {
    let fleet = Fleet::start("10m").await;
    let known = fleet.history.runs();
    fleet.leader.process.signal(Signal::STOP);
    // The longest stop budget by default is three seconds.
    let gap = fleet.follower_works().await;
    assert!(gap > 1.0, "its promise was over first: {gap}");
    fleet.leader.process.signal(Signal::CONT);
    // It is back in the election, and leads again when the other one goes.
    let status = eventually(SOON, "a follower again", async || {
        let status = fleet.first.status()?;
        (status["state"] == "follower").then_some(status)
    });
    assert_eq!(status.await["leader"]["instance_id"], "second");
    let mut fleet = fleet;
    fleet.follower.process.kill();
    fleet.history.works(fleet.leader.name(), &known).await;
    fleet.history.judge();
}

#[tokio::test]
async fn an_application_whose_agent_is_paused_stops_before_the_next_one_acts() {
    let fleet = Fleet::start("3s").await;
    fleet.first.process.signal(Signal::STOP);
    fleet.follower_works().await;
    fleet.first.process.signal(Signal::CONT);
    let known = fleet.history.runs();
    // The first one takes part again.
    let mut fleet = fleet;
    fleet.follower.process.kill();
    fleet.history.works(fleet.leader.name(), &known).await;
    fleet.history.judge();
}

#[tokio::test]
async fn a_role_moves_as_soon_as_its_application_says_that_it_has_stopped() {
    let patient = "[roles.worker]\nttl = \"10m\"\nstop_budget = \"40s\"\n";
    let fleet = Fleet::of(&Language::python(), patient).await;
    let stepped = fleet.first.client().post("/v1/roles/worker/step-down", "");
    assert_eq!(stepped.status, 200, "{}", stepped.json());
    assert_eq!(stepped.json()["released"], true);
    let gap = fleet.follower_works().await;
    // Without a word of the application it takes three quarters of the stop budget.
    assert!(gap < 15.0, "{gap}");
    fleet.history.judge();
}

#[tokio::test]
async fn an_agent_that_is_stopped_lets_its_application_stop_first() {
    let mut fleet = Fleet::start("10m").await;
    fleet.first.process.signal(Signal::TERM);
    fleet.follower_works().await;
    assert_eq!(fleet.first.process.exited().await.code(), Some(0));
    fleet.leader.process.exited().await;
    let status = fleet.second.client().get("/v1/roles/worker");
    assert_eq!(status.json()["is_leader"], true);
    fleet.history.judge();
}

/// As Kubernetes ends a pod with a sidecar, and systemd two units: first the application, then the
/// agent.
#[tokio::test]
async fn an_application_that_is_told_to_end_gives_its_role_up_and_then_its_agent_ends() {
    let languages = [Some(Language::python()), Language::typescript()];
    for language in languages.into_iter().flatten() {
        let mut fleet = Fleet::start_in(&language, "10m").await;
        fleet.leader.process.signal(Signal::TERM);
        // It has a handler, without which the first process of a container would not end.
        assert_eq!(fleet.leader.process.exited().await.code(), Some(0));
        fleet.follower_works().await;
        fleet.first.process.signal(Signal::TERM);
        assert_eq!(fleet.first.process.exited().await.code(), Some(0));
        fleet.history.judge();
    }
}

/// As the kubelet does it on a node without memory: it grants no time.
#[tokio::test]
async fn an_application_that_is_killed_together_with_its_agent_costs_a_lease() {
    let mut fleet = Fleet::start("3s").await;
    fleet.first.process.signal(Signal::KILL);
    fleet.leader.process.kill();
    let gap = fleet.follower_works().await;
    assert!(gap > 1.0, "nobody freed the role: {gap}");
    fleet.history.judge();
}

#[tokio::test]
async fn an_agent_that_is_killed_and_started_again_serves_at_the_same_place() {
    let mut fleet = Fleet::start("3s").await;
    fleet.first.restart().await;
    fleet.leader.process.exited().await;
    let again = Worker::start(&fleet.first, "again", &fleet.history);
    fleet.follower_works().await;
    fleet.first.follows().await;
    let known = fleet.history.runs();
    fleet.follower.process.kill();
    fleet.history.works(again.name(), &known).await;
    fleet.history.judge();
}

/// An example that works has this happen to it. It works again, unless that was its end.
async fn goes_through(language: &Language, fault: &str) {
    let fleet = Fleet::start_in(language, "3s").await;
    let known = fleet.history.runs();
    match fault {
        "pause" => fleet.leader.process.signal(Signal::STOP),
        "pause of its agent" => fleet.first.process.signal(Signal::STOP),
        "end" => fleet.leader.process.signal(Signal::KILL),
        _ => drop(fleet.first.client().try_ask("POST", STEP_DOWN, &[], b"")),
    }
    fleet.history.works(fleet.follower.name(), &known).await;
    if fault != "end" {
        fleet.leader.process.signal(Signal::CONT);
        fleet.first.process.signal(Signal::CONT);
        fleet.give_back().await;
        fleet.history.works(fleet.leader.name(), &known).await;
    }
    fleet.history.judge();
}

#[tokio::test]
async fn the_examples_in_go_and_typescript_never_act_beside_another() {
    let languages = [Language::go(), Language::typescript()];
    let faults = ["step-down", "pause", "pause of its agent", "end"];
    let tried = languages
        .iter()
        .flatten()
        .flat_map(|language| faults.map(|fault| goes_through(language, fault)));
    futures::future::join_all(tried).await;
}
