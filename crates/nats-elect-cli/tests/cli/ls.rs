//! `ls`: who leads what.

use nats_elect::{AuthConfig, Group};
use nats_elect_signing::{SigningBuilder, SigningKey};
use nats_elect_testing::{NatsServer, eventually};
use serde_json::{Value, json};

use crate::ended;
use crate::fleet::{
    ROLE, SOON, at, bucket, comes_true, harms_no_terminal, has, instance, is_fit_for_a_terminal,
    led, lines, login, obedient, output, output_as, with_observer,
};

const OTHER: &str = "UCFIRY65OQE7DFP5KLNS2PF2LVZMUZYJX4OZIEQ36N2IQANUB5XVZ45L";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_living_leader_is_listed_as_confirmed_with_its_lease_and_token() {
    let (server, a) = led().await;
    let token = a.role(ROLE).expect("it").status().fencing_token;
    let token = token.expect("a term").to_string();

    // It ends with the first heartbeat.
    let patient = ["ls", "--wait", "30s"];
    let table = output(&server, &patient).with_code(0);
    is_fit_for_a_terminal(&table);
    let row = table.stdout.lines().nth(1).expect("a row");
    for expected in [ROLE, "confirmed", "node-1", "█", &token[24..]] {
        assert!(row.contains(expected), "{expected}: {row}");
    }
    let json = [&patient[..], &["--json", "--role", ROLE]].concat();
    let json = &lines(&output(&server, &json))[0];
    assert_eq!(json["leader"]["instance_id"], "node-1");
    assert_eq!(json["leader"]["meta"]["region"], "eu");
    assert_eq!(json["fencing_token"], *token);
    has(json, &json!({ "confirmed": true, "ttl_seconds": 3 }));
    assert_eq!(json["standing"], "led");
    let since = json["since"].as_str().expect("a time");
    let since = humantime::parse_rfc3339(since).expect("RFC 3339");
    assert!(
        since.elapsed().is_ok_and(|led_for| led_for < SOON),
        "{json}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_nobody_leads_is_told_with_its_reason_and_ends_scripts_with_3() {
    let (server, a) = led().await;
    a.stop(nats_elect::StopOptions::default())
        .await
        .expect("a stop");
    let all = output(&server, &["ls"]).with_code(0);
    all.says("free");
    all.says("its leader freed it");
    let named = output(&server, &["ls", "--role", ROLE, "--role", "backup"]).with_code(3);
    named.says("never led");
    named.complains("without a leader: backup, scheduler");
}

#[tokio::test]
async fn nothing_to_list_is_said_in_words_and_no_bucket_with_advice() {
    let server = NatsServer::start().expect("start");
    for command in [&["ls"][..], &["watch"], &["inspect", ROLE]] {
        let missing = output(&server, command).with_code(3);
        missing.complains("bucket \"leaders\" does not exist");
        missing.complains("--bucket");
    }
    bucket(&server).await;
    let empty = output(&server, &["ls"]);
    assert_eq!((empty.code, &*empty.stdout), (Some(0), ""));
    empty.complains("no role was ever led");
    let json = output(&server, &["ls", "--json"]);
    assert_eq!((json.code, &*json.stdout, &*json.stderr), (Some(0), "", ""));
}

#[tokio::test]
async fn records_of_strangers_are_unconfirmed_and_can_do_nothing_to_a_terminal() {
    let server = NatsServer::start().expect("start");
    let bucket = bucket(&server).await;
    let garbage = "\u{1b}]0;owned\u{7}\u{9b}2J\r\n";
    let named = json!({ "id": "a\u{1b}[31mb\u{202e}\u{9b}", "ttl_ms": 60_000 });
    let records = [("garbage", garbage.to_owned()), ("odd", named.to_string())];
    for (key, value) in records {
        bucket.put(key, value.into()).await.expect("put");
    }
    let table = output(&server, &["ls", "--wait", "0s"]).with_code(0);
    is_fit_for_a_terminal(&table);
    table.says("(no name)");
    table.complains("2 unconfirmed");
    table.does_not_complain("\\u{");
    let json = output(&server, &["ls", "--json", "--wait", "0s"]);
    harms_no_terminal(&json);
    assert!(!json.stdout.contains('\u{202e}'), "{}", json.stdout);
    let json = lines(&json);
    has(&json[0], &json!({ "role": "garbage", "readable": false }));
    has(&json[1], &json!({ "standing": "led", "confirmed": false }));
    assert_eq!(json[1]["fencing_token"], Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_only_look_as_deploy_nats_grants_it_can_use_all_that_looks() {
    let server = with_observer();
    let a = instance(&server, "node-1").auth(login("all"));
    let a = a.group(Group::sharded("partitions", 2, obedient()));
    let a = a.start().await.expect("start");
    comes_true("its units", async || {
        a.group("partitions").expect("it").mine().len() == 2
    })
    .await;
    for command in [
        &["watch", ROLE, "--until-leader", "--within", "20s"][..],
        &["ls", "--role", ROLE],
        &["inspect", ROLE],
        &["candidates", ROLE],
        &["history", ROLE],
        &["group", "show", "partitions"],
        &["group", "explain", "partitions", "1"],
    ] {
        let looks = output_as(&server, "observer", command).with_code(0);
        looks.says("node-1");
        let wrong = [("NATS_USER", "observer"), ("NATS_PASSWORD", "wr0ng")];
        let refused = ended(at(&server, command).envs(wrong)).with_code(4);
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_keys_only_who_signed_is_told_to_lead() {
    let server = NatsServer::start().expect("start");
    let seed = nkeys::KeyPair::new_user().seed().expect("a seed");
    let key = SigningKey::from_seed(&seed).expect("a key");
    let public = key.public_key().to_string();
    let a = instance(&server, "node-1").signing_key(key).start().await;
    let _a = a.expect("start");
    let bucket = bucket(&server).await;
    eventually(SOON, "a proof", async || {
        let record = bucket.get(ROLE).await.ok()??;
        String::from_utf8_lossy(&record)
            .contains("proof")
            .then_some(())
    })
    .await;
    let good = output(&server, &["ls", "--json", "--role", ROLE, "--key", &public]).with_code(0);
    assert_eq!(lines(&good)[0]["leader"]["signer"], *public);
    let bad = output(&server, &["ls", "--role", ROLE, "--key", OTHER]).with_code(3);
    bad.says("untrusted");
    let inspected = output(&server, &["inspect", ROLE, "--key", &public]);
    inspected.says("valid, by U");
}

#[tokio::test]
async fn a_long_name_widens_no_row_and_is_whole_for_programs() {
    let server = NatsServer::start().expect("start");
    let bucket = bucket(&server).await;
    let (key, id) = ("k".repeat(200), "i".repeat(300));
    let record = json!({ "id": id, "ttl_ms": 60_000 }).to_string();
    bucket.put(&key, record.into()).await.expect("put");
    let table = output(&server, &["ls", "--wait", "0s"]).with_code(0);
    for line in table.stdout.lines() {
        assert!(line.chars().count() <= 200, "{line}");
    }
    let shown = format!("{}…", "k".repeat(47));
    table.says(&shown);
    let json = &lines(&output(&server, &["ls", "--json", "--wait", "0s"]))[0];
    assert_eq!(json["role"], *key);
}

/// A user with all permissions but this one.
fn all_but(verb: &str, denied: &str) -> NatsServer {
    let config = format!(
        "authorization {{ users: [ {{ user: all, password: change-me }}
           {{ user: some, password: change-me, permissions: {{ {verb}: {{ allow: \">\", deny: \"{denied}\" }} }} }} ] }}"
    );
    NatsServer::builder()
        .config(&config)
        .start()
        .expect("start")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permission_that_is_missing_ends_all_that_looks_with_4_and_says_what_to_grant() {
    let looks: [&[&str]; 4] = [
        &["ls"],
        &["inspect", ROLE],
        &["watch", ROLE, "--until-leader"],
        &["top", "--once"],
    ];
    let all = [&looks[..], &[&["history"]]].concat();
    for (verb, denied, commands) in [
        ("publish", "$JS.API.CONSUMER.>", &looks[..]),
        ("publish", "$JS.API.STREAM.INFO.>", &all),
        ("publish", "nats-elect-admin.>", &[&["candidates"]]),
        ("subscribe", "_INBOX.>", &all),
    ] {
        let server = all_but(verb, denied);
        let a = instance(&server, "node-1").auth(login("all"));
        let _a = a.start().await.expect("start");
        for command in commands {
            let refused = output_as(&server, "some", command).with_code(4);
            let subject = denied.trim_end_matches('>');
            refused.complains(subject);
            refused.does_not_complain("check the address");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_is_refused_is_not_laid_to_the_address() {
    let limits =
        "accounts { A { jetstream: { max_consumers: 1 }, users: [ { user: a, password: a } ] } }";
    let server = NatsServer::builder().config(limits).start().expect("start");
    let a = instance(&server, "node-1").auth(AuthConfig::default().user_and_password("a", "a"));
    let a = a.events(nats_elect::EventsConfig::off());
    let _a = a.start().await.expect("start");
    let login = [("NATS_USER", "a"), ("NATS_PASSWORD", "a")];
    let refused = ended(at(&server, &["ls"]).envs(login)).with_code(5);
    refused.complains("consumers");
    refused.does_not_complain("check the address");
}

#[tokio::test]
async fn jetstream_that_is_off_is_told_alike_by_all() {
    let server = NatsServer::builder()
        .without_jetstream()
        .start()
        .expect("start");
    for command in [
        &["ls"][..],
        &["history"],
        &["candidates"],
        &["step-down", ROLE],
        &["group", "ls"],
        &["group", "show", "shards"],
        &["group", "explain", "shards", "0"],
        &["group", "explain", "shards"],
        &["group", "move", "shards", "0", "node-1"],
        &["group", "drain", "node-1"],
        &["group", "grow", "shards", "8", "--yes"],
    ] {
        let off = output(&server, command).with_code(1);
        let expected = "JetStream is not enabled (the server does not offer it)";
        off.complains(expected);
    }
}

/// That is how it is found out whether a user may watch, while nothing else is in doubt.
#[tokio::test]
async fn no_server_makes_a_watch_of_a_request_for_nothing() {
    let server = NatsServer::start().expect("start");
    bucket(&server).await;
    let subject = "$JS.API.CONSUMER.CREATE.KV_leaders.elect-look";
    let asked = crate::fleet::client(&server).await;
    let answer = asked
        .request(subject, "{}".into())
        .await
        .expect("an answer");
    let answer: Value = serde_json::from_slice(&answer.payload).expect("JSON");
    assert!(answer["error"]["code"].is_u64(), "{answer}");
}
