//! `history`: who led, and why it changed.

use nats_elect::{RoleConfig, RoleManager, StopOptions};
use nats_elect_testing::{NatsServer, eventually};

use crate::fleet::{
    ROLE, SOON, comes_true, hand_over, instance, is_fit_for_a_terminal, led, lines, obedient,
    output,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terms_are_told_with_their_causes_and_the_gaps_between_them() {
    let (server, a) = led().await;
    let b = instance(&server, "node-2").start().await.expect("start");
    let standing = b.role(ROLE).expect("it");
    let follows = async || {
        standing
            .status()
            .leader
            .filter(|it| it.instance_id == "node-1")
    };
    eventually(SOON, "a follower", follows).await;
    let leading = a.role(ROLE).expect("it");
    hand_over(&leading, "node-2").await;
    let json = eventually(SOON, "three events", async || {
        let json = lines(&output(&server, &["history", "--json"]));
        (json.len() == 3).then_some(json)
    })
    .await;
    let events: Vec<_> = json.iter().map(|it| it["event"].as_str()).collect();
    let expected = [
        Some("term_started"),
        Some("term_ended"),
        Some("term_started"),
    ];
    assert_eq!(events, expected);
    assert_eq!(
        (&json[1]["cause"], &json[2]["vacancy"]),
        (&"stepped_down".into(), &"handed_over".into())
    );
    assert!(
        json[0]["gap_seconds"].is_null() && json[2]["gap_seconds"].is_number(),
        "{json:?}"
    );
    assert!(json[0]["fencing_token"].as_str() < json[2]["fencing_token"].as_str());

    let table = output(&server, &["history", ROLE]);
    is_fit_for_a_terminal(&table);
    table.says_all([
        "leads: no earlier leader",
        "ended: stepped down after ",
        "leads: handed over by node-1",
    ]);
    let last = lines(&output(&server, &["history", "-n", "1", "--json"]));
    assert_eq!(last[0]["instance_id"], "node-2");
    assert_eq!(
        lines(&output(&server, &["history", "--since", "1h", "--json"])).len(),
        3
    );
    let later = output(&server, &["history", "--since", "9000-01-01T00:00:00Z"]);
    assert_eq!((later.code, &*later.stdout), (Some(0), ""));
    later.complains("no such event");
    let of_other = output(&server, &["history", "zz"]);
    assert_eq!((of_other.code, &*of_other.stdout), (Some(0), ""));
    of_other.complains("no such event");
    output(&server, &["history", "--since", "yesterday"]).assert_code(2);
}

#[tokio::test]
async fn without_a_history_it_is_told_what_to_set() {
    let server = NatsServer::start().expect("start");
    let none = output(&server, &["history", ROLE]).with_code(3);
    none.complains("`nats-elect create-bucket` makes it");
}

/// A bucket and a fleet that are there already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_line_that_is_told_keeps_what_changes_from_then_on() {
    let server = NatsServer::start().expect("start");
    let client = async_nats::connect(server.url()).await.expect("connect");
    let bucket = async_nats::jetstream::kv::Config {
        bucket: "leaders".into(),
        ..Default::default()
    };
    let context = async_nats::jetstream::new(client);
    context.create_key_value(bucket).await.expect("a bucket");

    let builder = RoleManager::builder().servers(server.url());
    let builder = builder.role(ROLE, RoleConfig::default(), obedient());
    let a = builder.start().await.expect("start");
    let role = a.role(ROLE).expect("it");
    comes_true("a term", async || role.is_leader()).await;
    output(&server, &["history", ROLE]).assert_code(3);

    let made = output(&server, &["create-bucket"]);
    let kept = "leader changes    a stream keeps them";
    made.says(kept);
    a.stop(StopOptions::default()).await.expect("a stop");
    let told = output(&server, &["history", ROLE]).stdout;
    assert!(told.contains("ended: stopped"), "{told}");
}
