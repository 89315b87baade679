//! `pause`, `resume`, `cordon`.

use nats_elect::admin::AdminClient;
use nats_elect_testing::NatsServer;

use crate::fleet::{SOON, json};
use crate::pair::{Fleet, answer, builder, leads, started};
use crate::{Ended, ended, nats_elect};

fn order(server: &NatsServer, arguments: &[&str]) -> Ended {
    ended(nats_elect(arguments).args(["--server", &server.url()]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_paused_leads_on_and_is_told_to_and_resumes() {
    let fleet = Fleet::new().await;
    let output = order(&fleet.server, &["pause", "node-1", "--role", "scheduler"]).with_code(0);
    output.says("takes no new term of scheduler");
    let status = |role| fleet.first.role(role).expect("a role").status();
    assert!(status("scheduler").paused && status("scheduler").is_leader);
    assert!(!status("metrics").paused);
    let mut twice = vec!["resume", "node-1"];
    twice.extend(["--role", "scheduler", "--role", "scheduler"]);
    let output = order(&fleet.server, &twice).with_code(0);
    let expected = "takes part in the elections of scheduler again";
    output.says(expected);
    assert!(!status("scheduler").paused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cordon_ends_when_every_role_is_handed_over_and_tells_to_whom() {
    let fleet = Fleet::new().await;
    let output = order(&fleet.server, &["cordon", "node-1"]).with_code(0);
    for role in ["scheduler", "metrics"] {
        assert!(
            fleet.second.role(role).expect("a role").is_leader(),
            "{}",
            output.stdout
        );
        let line = output
            .stdout
            .lines()
            .find(|line| line.starts_with(role))
            .expect("a line");
        // An heir who does not answer within 100 ms is not named, and claims what was freed.
        let handed = line.contains("handed it over, node-2 (");
        assert!(handed || line.contains("freed it, node-2 ("), "{line}");
    }
    let output = order(&fleet.server, &["cordon", "node-1", "--json"]);
    let value = json(&output.stdout);
    assert_eq!(
        (
            &value["done"],
            value["ended"].as_object().map(serde_json::Map::len)
        ),
        (&true.into(), Some(0))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn that_the_last_standby_goes_is_a_warning() {
    let fleet = Fleet::new().await;
    let pause = ["pause", "node-2", "--role", "metrics"];
    let output = order(&fleet.server, &pause).with_code(0);
    let expected = "warning: no instance that answers could take over now: metrics. `resume` ends";
    output.complains(expected);
    let resume = ["resume", "node-2"];
    assert_eq!(order(&fleet.server, &resume).stderr, "");

    let third = started(builder(fleet.server.url(), "node-3")).await;
    answer(&fleet.server, 3).await;
    let output = order(&fleet.server, &pause);
    assert_eq!((output.code, &*output.stderr), (Some(0), ""));
    let cordon = ["cordon", "node-3", "--json"];
    let output = order(&fleet.server, &cordon).with_code(0);
    let warning = json(&output.stderr);
    let warning = warning["warning"].as_str().expect("text");
    assert!(warning.contains("now: metrics. "), "{warning}");
    drop(third);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_done_to_all_by_typing_too_little() {
    let fleet = Fleet::new().await;
    for (arguments, code, expected) in [
        (&["cordon"][..], 2, "--all-instances"),
        (&["pause", "--role", "scheduler"], 2, "--all-instances"),
        (&["pause", "node-9"], 3, "node-9"),
        // A role is no instance.
        (&["pause", "scheduler"], 3, "scheduler"),
        (
            &["pause", "--all-instances", "--role", "nothing"],
            3,
            "no role nothing",
        ),
        (&["pause", "--all-instances", "node-1"], 2, "cannot be used"),
    ] {
        let output = order(&fleet.server, arguments).with_code(code);
        output.complains(expected);
    }
    for manager in [&fleet.first, &fleet.second] {
        assert!(!manager.role("scheduler").expect("a role").status().paused);
    }
    order(&fleet.server, &["pause", "--all-instances"]).assert_code(0);
    for manager in [&fleet.first, &fleet.second] {
        assert!(manager.role("metrics").expect("a role").status().paused);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_processes_of_one_id_one_is_named_by_its_incarnation() {
    let server = NatsServer::start().expect("a server");
    let first = started(builder(server.url(), "twin")).await;
    leads(&first, "scheduler").await;
    let second = started(builder(server.url(), "twin")).await;
    answer(&server, 2).await;
    let output = order(&server, &["pause", "twin"]).with_code(2);
    let admin = AdminClient::new(
        async_nats::connect(server.url()).await.expect("connect"),
        "leaders",
    )
    .expect("a name");
    let found = admin.instances(SOON).await.expect("instances");
    assert_eq!(found.len(), 2);
    for instance in &found {
        let incarnation = instance.incarnation.to_string();
        output.complains(&incarnation);
    }
    let leader = admin
        .leader("scheduler", SOON)
        .await
        .expect("a leader")
        .instance;
    let other = found.iter().find(|it| **it != leader).expect("another");
    let incarnation = other.incarnation.to_string();
    order(&server, &["pause", &incarnation]).assert_code(0);
    let paused = |manager: &nats_elect::RoleManager| {
        manager.role("scheduler").expect("a role").status().paused
    };
    assert!(paused(&second) && !paused(&first));
}
