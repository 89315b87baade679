//! Operating instances over NATS: what they do when they are told to.

use async_nats::jetstream::kv;
use nats_elect::admin::ProblemCode;
use nats_elect::{FencingToken, Handoff, StepDown};
use serde_json::json;

use crate::admin::fleet;
use crate::support::bucket::Stranger;
use crate::support::clock::Stamp;
use crate::support::instance::{guest, never};
use crate::support::operator::{Operator, refusal};
use crate::support::{BUCKET, ROLE, leased_for, ms, recovered, served};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_steps_down_in_the_term_that_was_meant_and_in_no_other() {
    let fleet = fleet().await;
    let admin = &fleet.operator.admin;
    let leader = fleet.operator.leader(ROLE).await;
    let other = FencingToken {
        sequence: leader.fencing_token.sequence + 1,
        ..leader.fencing_token
    };
    let refused = admin
        .step_down(&leader.instance, ROLE, StepDown::any().expecting(other))
        .await;
    assert_eq!(refusal(refused), Some(ProblemCode::UnexpectedTerm));
    let b = fleet.operator.instance("b").await;
    let refused = admin.step_down(&b, ROLE, StepDown::any()).await;
    assert_eq!(refusal(refused), Some(ProblemCode::NotLeader));
    assert!(fleet.a.is_leader());
    assert_eq!(fleet.journal.terms(ROLE).len(), 1);

    // As a script sends back what it read.
    let id = leader.instance.incarnation;
    let subject = |verb| format!("nats-elect-admin.{BUCKET}.{verb}.{id}.{ROLE}");
    let status = fleet.operator.ask_json(&subject("status")).await;
    let token = &status["roles"][ROLE]["fencing_token"];
    assert_eq!(*token, leader.fencing_token.to_string());
    for odd in [
        json!({"epoch": 1, "sequence": 2}),
        json!(7),
        json!("1.2"),
        json!("x"),
    ] {
        let body = json!({ "expected_fencing_token": odd }).to_string();
        let subject = subject("step-down");
        let refused = fleet.operator.refusal(&subject, body.as_bytes());
        assert_eq!(refused.await, ("400".to_owned(), "bad_request".to_owned()));
    }

    let how = StepDown::any().expecting(token.as_str().expect("text").parse().expect("a token"));
    let down = admin.step_down(&leader.instance, ROLE, how).await;
    assert!(down.expect("its term").released);
    let next = fleet.journal.started(ROLE, 1).await;
    assert_eq!(next.instance, "b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_found_steps_down_by_one_request_in_the_term_that_was_found() {
    let fleet = fleet().await;
    let (operator, admin) = (&fleet.operator, &fleet.operator.admin);
    let leader = operator.leader(ROLE).await;
    assert_eq!(leader.role, ROLE);
    assert!(leader.report.is_leader);
    let subject = format!("$SRV.STATS.nats-elect.{}", leader.instance.incarnation);
    let questions = async || {
        let stats = operator.ask_json(&subject).await;
        let endpoints = stats["endpoints"].as_array().expect("endpoints").iter();
        let of_status = endpoints.filter(|it| it["name"] == "status");
        let asked = of_status.map(|it| it["num_requests"].as_u64().expect("a number"));
        asked.sum::<u64>()
    };
    let before = questions().await;
    assert!(before > 0);
    let down = admin.step_down_leader(&leader, StepDown::any()).await;
    assert!(down.expect("its term").released);
    assert_eq!(questions().await, before);

    fleet.journal.started(ROLE, 1).await;
    let mut next = operator.leader(ROLE).await;
    next.fencing_token = leader.fencing_token;
    let late = admin.step_down_leader(&next, StepDown::any()).await;
    assert_eq!(refusal(late), Some(ProblemCode::UnexpectedTerm));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_is_handed_to_the_instance_that_is_named_or_to_nobody() {
    let fleet = fleet().await;
    let admin = &fleet.operator.admin;
    let a = fleet.operator.instance("a").await;
    let absent = admin.step_down(&a, ROLE, StepDown::to("nobody")).await;
    assert_eq!(refusal(absent), Some(ProblemCode::SuccessorAbsent));
    assert!(fleet.a.is_leader(), "it leads on");
    let unknown = admin.step_down(&a, "nothing", StepDown::any()).await;
    assert_eq!(refusal(unknown), Some(ProblemCode::UnknownRole));

    let down = fleet.operator.hand_over(&a, "b").await;
    assert_eq!(down.handoff, Some(Handoff::Accepted));
    assert_eq!(fleet.journal.started(ROLE, 1).await.instance, "b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_is_paused_cordoned_and_resumed_from_elsewhere() {
    let fleet = fleet().await;
    let admin = &fleet.operator.admin;
    let [a, b] = [
        fleet.operator.instance("a").await,
        fleet.operator.instance("b").await,
    ];
    admin.pause(&b, None).await.expect("paused");
    let paused = fleet.operator.report(&b).await.roles;
    assert!(paused.values().all(|role| role.paused), "{paused:?}");
    let refused = admin.step_down(&a, ROLE, StepDown::to("b")).await;
    assert_eq!(refusal(refused), Some(ProblemCode::SuccessorRefused));

    admin.resume(&b, Some(ROLE)).await.expect("resumed");
    let roles = fleet.operator.report(&b).await.roles;
    assert!(!roles[ROLE].paused && roles["metrics"].paused, "{roles:?}");

    let ended = admin.cordon(&a, None).await.expect("cordoned");
    assert_eq!(ended.keys().collect::<Vec<_>>(), ["metrics", ROLE]);
    assert_eq!(ended[ROLE].handoff, Some(Handoff::Accepted));
    assert!(ended["metrics"].released, "freed, though nobody is ready");
    assert_eq!(fleet.journal.started(ROLE, 1).await.instance, "b");
    never("a role led by who is paused", ms(500), || {
        fleet.journal.terms("metrics").len() > 1
    })
    .await;
    admin.resume(&a, None).await.expect("resumed");
    assert_eq!(fleet.journal.started("metrics", 1).await.instance, "a");
    let unknown = admin.pause(&a, Some("nothing")).await;
    assert_eq!(refusal(unknown), Some(ProblemCode::UnknownRole));
    drop(fleet.b);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_nobody_holds_ends_when_an_operator_says_so() {
    let (server, journal) = served();
    let stranger = Stranger::connect(&server.url()).await;
    let made = stranger.make_bucket(kv::Config::default()).await;
    let stray = br#"{"id":"x","ttl_ms":3600000}"#;
    let revision = made.put(ROLE, stray.as_slice().into()).await.expect("put");
    let ttl = ms(60_000);
    let a = guest("a", server.url(), &journal).standing(leased_for(ttl));
    let a = a.start().await;
    a.wait_until_following("x").await;
    let operator = Operator::of(&server).await;
    let found = operator.instance("a").await;
    let admin = &operator.admin;

    let other = admin.end_lease(&found, ROLE, revision + 1).await;
    assert_eq!(refusal(other), Some(ProblemCode::Changed));
    let unknown = admin.end_lease(&found, "nothing", revision).await;
    assert_eq!(refusal(unknown), Some(ProblemCode::UnknownRole));
    let subject = |verb| {
        format!(
            "nats-elect-admin.{BUCKET}.{verb}.{}.{ROLE}",
            found.incarnation
        )
    };
    for (verb, body) in [
        ("end-lease", &b""[..]),
        ("end-lease", br#"{"revision":1,"hold_off_seconds":1}"#),
        ("end-lease", br#"{"revision":-1}"#),
        ("step-down", br#"{"revision":1}"#),
        ("cordon", br#"{"revision":1}"#),
    ] {
        let refused = operator.refusal(&subject(verb), body).await;
        assert_eq!(refused, ("400".to_owned(), "bad_request".to_owned()));
    }
    never("a claim over a lease that lasts", ms(1000), || {
        a.is_leader()
    })
    .await;

    let said = Stamp::now();
    admin
        .end_lease(&found, ROLE, revision)
        .await
        .expect("noted");
    let term = journal.started(ROLE, 0).await;
    recovered("stray_lease_ended_by_hand", ttl, said, &term);
    assert!(term.start.since(said) < ttl / 4, "it waited all the same");

    // Who leads is not talked out of it.
    let own = stranger.message().await.sequence;
    let leads = admin.end_lease(&found, ROLE, own).await;
    assert_eq!(refusal(leads), Some(ProblemCode::Changed));
    assert!(a.is_leader() && term.term().is_valid());
}
