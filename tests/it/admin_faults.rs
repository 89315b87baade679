//! The admin service under faults, floods and those who mean harm.

use futures::StreamExt;
use nats_elect::admin::ProblemCode;
use nats_elect_testing::eventually;
use serde_json::Value;

use crate::support::bucket::Stranger;
use crate::support::instance::{instance, standing};
use crate::support::journal::Journal;
use crate::support::operator::{Operator, refusal};
use crate::support::{BUCKET, ROLE, SOON, configured, leased_for, ms, proxied, served};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_where_a_request_says_that_an_answer_should_go() {
    let (server, journal) = served();
    let a = standing("a", server.url(), &journal, leased_for(ms(10_000))).await;
    journal.started(ROLE, 0).await;
    let operator = Operator::of(&server).await;
    let id = operator.instance("a").await.incarnation;
    let stranger = Stranger::of(operator.client.clone());
    let record = stranger.record().await;
    // An application's subject that anybody may hear.
    let mut orders = operator.client.subscribe("orders.>").await.expect("orders");
    let requests = [
        "$SRV.PING".to_owned(),
        "$SRV.INFO.nats-elect".to_owned(),
        format!("nats-elect-admin.{BUCKET}.instances"),
        format!("$SRV.STATS.nats-elect.{id}"),
        format!("nats-elect-admin.{BUCKET}.status.{id}"),
        format!("nats-elect-admin.{BUCKET}.step-down.{id}.{ROLE}"),
        format!("nats-elect-admin.{BUCKET}.cordon.{id}"),
    ];
    for subject in &requests {
        for reply in [
            "$KV.leaders.scheduler",
            "$KV.leaders._fence.scheduler",
            "$KV.leaders.nobody",
            "$JS.API.STREAM.PURGE.KV_leaders",
            "$JS.API.STREAM.DELETE.KV_leaders",
            "nats-elect.leaders.scheduler",
            "nats-elect-admin.leaders.cordon.x",
            "orders.new",
            "_INBOX.>",
        ] {
            let body = "".into();
            let asked = operator
                .client
                .publish_with_reply(subject.clone(), reply, body);
            asked.await.expect("published");
        }
    }
    // They were all received by the time that this is answered, and none of them was heeded,
    // whatever it asked for.
    operator.client.flush().await.expect("flush");
    for subject in &requests[..5] {
        operator.ask(subject, b"").await;
    }
    assert_eq!(
        stranger.record().await["incarnation"],
        record["incarnation"]
    );
    assert!(stranger.find("nobody").await.is_none());
    assert!(a.is_leader());
    assert!(!a.role(ROLE).status().paused, "the cordon was not heeded");
    // Nobody wrote to its key.
    let role = a.role(ROLE);
    eventually(SOON, "a proof", async || role.validate().await.ok()).await;
    assert_eq!(journal.terms(ROLE).len(), 1);
    operator
        .client
        .publish("orders.last", "".into())
        .await
        .expect("published");
    let heard = orders.next().await.expect("a message");
    assert_eq!(heard.subject.as_str(), "orders.last");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_request_is_refused_and_changes_nothing() {
    let (server, journal) = served();
    let a = standing("a", server.url(), &journal, leased_for(ms(10_000))).await;
    journal.started(ROLE, 0).await;
    let operator = Operator::of(&server).await;
    let id = operator.instance("a").await.incarnation;
    let step_down = format!("nats-elect-admin.{BUCKET}.step-down.{id}.{ROLE}");
    let pause = format!("nats-elect-admin.{BUCKET}.pause.{id}");
    let long = vec![b'x'; 100_000];
    let bodies: [&[u8]; 6] = [
        b"\xff\xfe",
        b"[1,2]",
        b"{",
        br#"{"expected_priority":1}"#,
        br#"{"to":7}"#,
        &long,
    ];
    for body in bodies {
        for subject in [&step_down, &pause] {
            let refused = operator.refusal(subject, body).await;
            assert_eq!(refused, ("400".to_owned(), "bad_request".to_owned()));
        }
    }
    // Nobody but a step-down goes by these; dropped, they would leave a request that means any
    // term.
    let conditions: [&[u8]; 3] = [
        br#"{"expected_fencing_token":"00000000000000010000000000000001"}"#,
        br#"{"to":"b"}"#,
        br#"{"hold_off_seconds":1}"#,
    ];
    for body in conditions {
        for verb in ["status", "pause", "resume", "cordon"] {
            for subject in [format!("{verb}.{id}"), format!("{verb}.{id}.{ROLE}")] {
                let subject = format!("nats-elect-admin.{BUCKET}.{subject}");
                let refused = operator.refusal(&subject, body).await;
                assert_eq!(refused, ("400".to_owned(), "bad_request".to_owned()));
            }
        }
    }
    assert!(a.is_leader() && !a.role(ROLE).status().paused);
    // No such verb, no such role, no role's name: nobody listens, or the answer says so.
    let odd = format!("nats-elect-admin.{BUCKET}.explode.{id}");
    let asked = operator.client.request(odd, "".into()).await;
    assert!(asked.is_err());
    let unknown = format!("nats-elect-admin.{BUCKET}.status.{id}.nothing");
    let refused = operator.refusal(&unknown, b"").await;
    assert_eq!(refused, ("404".to_owned(), "unknown_role".to_owned()));
    let report: Value = operator
        .ask_json(&format!("nats-elect-admin.{BUCKET}.status.{id}.{ROLE}"))
        .await;
    assert_eq!(report["roles"][ROLE]["state"], "leader");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_answers_again_after_a_broken_connection_and_a_restart_of_the_server() {
    let (mut server, proxy, journal) = proxied();
    let _a = standing("a", proxy.url(), &journal, leased_for(ms(3000))).await;
    journal.started(ROLE, 0).await;
    let operator = Operator::of(&server).await;
    let before = operator.instance("a").await;
    operator.report(&before).await;

    proxy.cut();
    proxy.restore();
    eventually(SOON, "an answer over the new connection", async || {
        operator.admin.status(&before).await.ok()
    })
    .await;

    server.kill();
    server.restart().expect("restart");
    eventually(SOON, "an answer of the same instance", async || {
        operator.admin.status(&before).await.ok()
    })
    .await;
    assert_eq!(operator.find(1).await, [before]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_no_message_holds_is_refused_and_costs_no_connection() {
    let config = "max_payload: 16384\n";
    let server = configured(config);
    let journal = Journal::default();
    let mut a = instance("a", server.url(), &journal);
    let names: Vec<_> = (0..40).map(|i| format!("{}{i}", "r".repeat(250))).collect();
    for name in &names {
        a = a.role(name, leased_for(ms(10_000)));
    }
    let a = a.start().await;
    let operator = Operator::of(&server).await;
    let found = operator.instance("a").await;
    let refused = operator.admin.status(&found).await;
    assert_eq!(refusal(refused), Some(ProblemCode::TooLarge));
    for name in &names {
        journal.started(name, 0).await;
        let report = operator.admin.status_of(&found, name).await;
        let report = report.expect("one role fits");
        assert!(report.roles[name].is_leader);
    }
    let ended = operator.admin.cordon(&found, None).await;
    assert_eq!(ended.expect("cordoned").len(), names.len());
    assert!(!a.role(&names[0]).is_leader());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asked_is_answered_by_an_instance_that_stops_meanwhile() {
    let (server, journal) = served();
    let operator = Operator::of(&server).await;
    let a = instance("a", server.url(), &journal)
        .working(ROLE, leased_for(ms(5000)), |term| async move {
            term.cancelled().await;
            tokio::time::sleep(ms(300)).await;
            Ok(())
        })
        .start()
        .await;
    journal.started(ROLE, 0).await;
    let found = operator.instance("a").await;
    let cordoning = async { operator.admin.cordon(&found, None).await };
    let role = a.role(ROLE);
    let stopping = async {
        let ending = async || (!role.is_leader()).then_some(());
        eventually(SOON, "the end of the term", ending).await;
        a.stop().await;
    };
    let (cordoned, ()) = tokio::join!(cordoning, stopping);
    let ended = cordoned.expect("an answer");
    assert!(ended[ROLE].released, "{ended:?}");
}
