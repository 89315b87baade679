//! `create-bucket`: the bucket that a manager would make, by whoever may.

use nats_elect::StopOptions;
use nats_elect_testing::NatsServer;
use serde_json::Value;

use crate::doctor::users_of;
use crate::fleet::{client_of, json, login, output_as};
use crate::pair::{builder, leads, started};
use crate::{Ended, ended, nats_elect};
use nats_elect_testing::old_server;

fn create(server: &NatsServer, user: &str, more: &[&str]) -> Ended {
    output_as(server, user, &[&["create-bucket"], more].concat())
}

fn server() -> NatsServer {
    let users = users_of(&[
        include_str!("../../../../deploy/nats/admin.conf"),
        include_str!("../../../../deploy/nats/candidate.conf"),
        include_str!("../../../../deploy/nats/operator.conf"),
        "users = [ { user: all, password: change-me } ]",
    ]);
    let builder = NatsServer::builder().config(&users);
    builder.start().expect("a server")
}

/// The bucket's settings, without what differs each time.
async fn settings(server: &NatsServer) -> Value {
    let client = client_of(server, "all").await;
    let answer = client
        .request("$JS.API.STREAM.INFO.KV_leaders", "".into())
        .await
        .expect("an answer");
    let mut answer: Value = serde_json::from_slice(&answer.payload).expect("JSON");
    if let Some(config) = answer["config"].as_object_mut() {
        config.remove("first_seq");
    }
    answer["config"].take()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_makes_what_a_manager_would_and_a_second_time_nothing() {
    let server = server();
    let made = create(&server, "admin", &["--storage", "memory"]).with_code(0);
    made.says("created           bucket \"leaders\"");
    assert_eq!(made.stderr, "");
    let ours = settings(&server).await;

    let other = NatsServer::builder()
        .config("authorization { users = [ { user: all, password: change-me } ] }")
        .start()
        .expect("a server");
    let manager = builder(other.url(), "node-1").auth(login("all"));
    let manager = started(manager.storage(nats_elect::Storage::Memory)).await;
    assert_eq!(ours, settings(&other).await);
    manager.stop(StopOptions::default()).await.expect("stop");

    let again = create(&server, "admin", &["--json", "--storage", "file"]).with_code(0);
    assert_eq!(settings(&server).await, ours, "left as it was");
    let output = json(&again.stdout);
    let checks = output["checks"].as_array().expect("a list");
    let verdict = |name: &str| {
        let check = checks.iter().find(|it| it["check"] == name);
        check.map(|it| it["verdict"].as_str().expect("text"))
    };
    assert_eq!(verdict("created"), Some("skipped"), "{output:#}");
    assert_eq!(verdict("bucket"), Some("ok"));

    let candidate = builder(server.url(), "node-1").auth(login("candidate"));
    leads(&started(candidate).await, "scheduler").await;
}

#[test]
fn the_history_comes_with_it_whatever_instances_publish() {
    let server = server();
    let mut command = nats_elect(&["create-bucket", "--server", &server.url()]);
    command.args(["--user", "admin", "--password", "change-me"]);
    let made = ended(command.env("NATS_ELECT_EVENTS__PUBLISH", "false")).with_code(0);
    let kept = made
        .stdout
        .lines()
        .find(|line| line.contains("leader changes"));
    let kept = kept.expect("a line");
    assert!(kept.starts_with("ok "), "{kept}");
}

#[test]
fn no_bucket_is_made_on_a_server_that_is_too_old() {
    let url = old_server("2.10.26");
    let output = ended(&mut nats_elect(&["create-bucket", "--server", &url])).with_code(1);
    output.complains_all(["2.10.26", "2.11.2"]);
    assert_eq!(output.stdout, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_make_it_is_told_and_an_unfit_one_is_a_failure() {
    let server = server();
    let blind = create(&server, "operator", &[]).with_code(4);
    blind.does_not_say("created");
    let output = create(&server, "candidate", &[]).with_code(4);
    output.complains_all(["$JS.API.STREAM.CREATE.KV_leaders", "admin.conf"]);
    assert!(settings(&server).await.is_null(), "nothing was made");
    create(&server, "admin", &["--replicas", "9"]).assert_code(2);

    let client = client_of(&server, "all").await;
    let config = async_nats::jetstream::stream::Config {
        name: "KV_leaders".into(),
        subjects: vec!["$KV.leaders.>".into()],
        max_bytes: 100,
        ..Default::default()
    };
    let jetstream = async_nats::jetstream::new(client);
    jetstream.create_stream(config).await.expect("a stream");
    let unfit = create(&server, "admin", &[]).with_code(1);
    unfit.says("is unfit");
}
