//! Who may ask instances what, by the permissions in `deploy/nats`.

use nats_elect::Handoff;
use nats_elect_testing::{NatsServer, eventually};

use crate::privileges::server as deployed;
use crate::support::bucket::Stranger;
use crate::support::instance::{Instance, guest, instance, make_bucket};
use crate::support::journal::Journal;
use crate::support::operator::Operator;
use crate::support::user::{User, all_but};
use crate::support::{BUCKET, ROLE, SOON, comes_true, configured, leased_for, logs, ms};

const PASSWORD: &str = "change-me";
const ANSWERS: &str = "nats-elect-admin.leaders._answer";

struct Scene {
    server: NatsServer,
    journal: Journal,
    a: Instance,
    _b: Instance,
}

/// Two candidates by `candidate.conf`; `a` leads.
async fn scene() -> Scene {
    let server = deployed();
    let journal = Journal::default();
    make_bucket(&server).await;
    let candidate = async |id: &str| {
        guest(id, server.url(), &journal)
            .user("candidate", PASSWORD)
            .standing(leased_for(ms(10_000)))
            .start()
            .await
    };
    let a = candidate("a").await;
    journal.started(ROLE, 0).await;
    let b = candidate("b").await;
    b.wait_until_following("a").await;
    Scene {
        server,
        journal,
        a,
        _b: b,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_looks_and_acts_and_touches_no_key() {
    let scene = scene().await;
    let user = User::connect(&scene.server.url(), "operator", PASSWORD).await;
    let operator = Operator::with(user.client.clone());
    let found = operator.find(2).await;
    let [a, b] = &found[..] else {
        panic!("{found:?}");
    };
    assert!(operator.report(a).await.roles[ROLE].is_leader);
    let admin = &operator.admin;
    admin.pause(b, Some(ROLE)).await.expect("paused");
    admin.resume(b, None).await.expect("resumed");
    let down = operator.hand_over(a, "b").await;
    assert_eq!(down.handoff, Some(Handoff::Accepted));
    assert_eq!(scene.journal.started(ROLE, 1).await.instance, "b");
    admin.cordon(a, None).await.expect("cordoned");
    assert_eq!(user.denied(), [""; 0], "nothing of all that is forbidden");
    let refused = |user: &str| {
        let log = scene.server.log();
        // As older servers write it, and newer ones.
        let ways = [format!("User \"{user}\""), format!("/user:{user}\"")];
        let lines = log.lines().filter(|line| line.contains("Violation"));
        lines
            .filter(|line| ways.iter().any(|way| line.contains(way)))
            .count()
    };
    // What is refused to candidates would be found in the log, as it is for one who may not be
    // asked.
    let _silent = guest("silent", scene.server.url(), &scene.journal)
        .user("admin", PASSWORD)
        .start()
        .await;
    comes_true("a refusal in the log", async || refused("admin") > 0).await;
    assert_eq!(refused("candidate"), 0);

    for subject in [
        "$KV.leaders.scheduler",
        "$JS.API.STREAM.MSG.GET.KV_leaders",
        "$JS.API.STREAM.PURGE.KV_leaders",
        "nats-elect.leaders.scheduler.b",
        "nats-elect-admin.leaders._answer.x",
        "nats-elect-admin.others.cordon.x",
        "_INBOX.x",
    ] {
        user.may_not_publish(subject).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_is_told_everything_and_can_have_nothing_done() {
    let scene = scene().await;
    let user = User::connect(&scene.server.url(), "observer", PASSWORD).await;
    let operator = Operator::with(user.client.clone());
    operator.find(2).await;
    let leader = operator.leader(ROLE).await.instance;
    assert_eq!(leader.instance_id, "a");
    assert_eq!(user.denied(), [""; 0], "nothing of all that is forbidden");
    let id = leader.incarnation;
    for subject in [
        format!("nats-elect-admin.leaders.step-down.{id}.{ROLE}"),
        format!("nats-elect-admin.leaders.pause.{id}"),
        format!("nats-elect-admin.leaders.cordon.{id}.{ROLE}"),
        format!("nats-elect-admin.leaders.resume.{id}"),
    ] {
        user.may_not_publish(&subject).await;
    }
    assert!(scene.a.is_leader() && !scene.a.role(ROLE).status().paused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_tools_are_answered_under_the_prefix_that_is_granted_and_other_inboxes_given_up() {
    let scene = scene().await;
    let url = scene.server.url();
    let tool = User::connect_under(&url, "operator", PASSWORD, ANSWERS).await;
    let tool = Operator::with(tool.client);
    let other = User::connect(&url, "observer", PASSWORD).await.client;
    let refused = || {
        let log = scene.server.log();
        let lines = log
            .lines()
            .filter(|line| line.contains("Publish Violation"));
        lines.filter(|line| line.contains("\"_INBOX.")).count()
    };
    let ask_elsewhere = async || {
        let inbox = other.new_inbox();
        let asked = other.publish_with_reply("$SRV.PING", inbox, "".into());
        asked.await.expect("published");
        other.flush().await.expect("flush");
        let pings = tool.gather("$SRV.PING", 2).await;
        assert!(pings.iter().all(|ping| ping["name"] == "nats-elect"));
    };
    eventually(SOON, "a refusal for each of the two", async || {
        ask_elsewhere().await;
        (refused() >= 2).then_some(())
    })
    .await;
    for _ in 0..50 {
        ask_elsewhere().await;
    }
    // Of the first ones each has an inbox of its own, which may be one of few that are refused.
    assert!(refused() < 50, "they keep on asking: {}", refused());
    assert!(scene.a.is_leader());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_be_answered_keeps_nobody_else_from_being_answered() {
    let users = all_but(&["_INBOX.strange.>"]);
    let server = configured(&users);
    let journal = Journal::default();
    let a = instance("a", server.url(), &journal)
        .user("u", "p")
        .standing(leased_for(ms(10_000)))
        .start()
        .await;
    journal.started(ROLE, 0).await;
    let user = User::connect(&server.url(), "all", "p").await;
    let operator = Operator::with(user.client.clone());
    operator.instance("a").await;

    for i in 0..30 {
        let strange = format!("_INBOX.strange.{i}");
        let client = &user.client;
        let asked = client.publish_with_reply("$SRV.PING", strange, "".into());
        asked.await.expect("published");
        let ping = operator.ask_json("$SRV.PING").await;
        assert_eq!(ping["name"], "nats-elect", "after {i}");
    }
    let log = server.log();
    let refused = log
        .lines()
        .filter(|line| line.contains("\"_INBOX.strange."));
    let refused = refused.count();
    assert!((1..30).contains(&refused), "not asked again: {refused}");
    assert!(a.is_leader());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_may_not_be_asked_says_so_once_and_is_elected_all_the_same() {
    let logs = logs::install();
    let config = all_but(&[]).replace(
        "subscribe: \">\"",
        "subscribe: { allow: \">\", deny: [\"$SRV.>\", \"nats-elect-admin.leaders.cordon.>\"] }",
    );
    let mut server = configured(&config);
    let journal = Journal::default();
    let a = instance("apart-from-tools", server.url(), &journal)
        .user("u", "p")
        .standing(leased_for(ms(3000)))
        .start()
        .await;
    journal.started(ROLE, 0).await;
    let warnings = || {
        let text = logs.text();
        // Others in this process may be refused it too.
        let ours =
            |line: &&str| line.contains("switch `admin` off") && line.contains("apart-from-tools");
        text.lines()
            .filter(ours)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let told = eventually(SOON, "a warning", async || warnings().pop()).await;
    for subject in [
        "subscribe to \"$SRV.PING\"",
        "subscribe to \"$SRV.INFO.nats-elect.*\"",
        "subscribe to \"nats-elect-admin.leaders.cordon.*\"",
    ] {
        assert!(told.contains(subject), "{told}");
    }
    assert!(!told.contains("status"), "{told}");

    // What is granted works.
    let client = async_nats::ConnectOptions::with_user_and_password("all".into(), "p".into());
    let operator = Operator::with(client.connect(server.url()).await.expect("connect"));
    let leader = Stranger::of(operator.client.clone());
    let id = leader.record().await["incarnation"]
        .as_str()
        .expect("it")
        .to_owned();
    let report = operator
        .ask_json(&format!("nats-elect-admin.{BUCKET}.status.{id}"))
        .await;
    assert_eq!(report["instance_id"], "apart-from-tools");
    assert_eq!(operator.find(1).await[0].incarnation.to_string(), id);

    // After a reconnect it is refused again, and known.
    server.kill();
    server.restart().expect("restart");
    eventually(SOON, "another refusal", async || {
        let refused = server.log().matches("Subscription Violation").count();
        (refused >= 22).then_some(())
    })
    .await;
    a.wait_until_leader().await;
    assert_eq!(warnings().len(), 1);
}
