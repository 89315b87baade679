//! Operating instances over NATS: who is there, what they say, and what they do when they are
//! asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_nats::jetstream::kv;
use async_nats::service;
use nats_elect::admin::{AdminClient, AdminError, ProblemCode};
use nats_elect::{
    AdminConfig, BoxError, Error, FencingToken, Handoff, RoleHandler, RoleManager, RoleState,
    StepDown, Term,
};
use nats_elect_testing::{NatsServer, eventually};
use serde_json::json;

use crate::support::bucket::Stranger;
use crate::support::clock::Stamp;
use crate::support::instance::{Instance, Recorded, guest, instance, never};
use crate::support::journal::Journal;
use crate::support::operator::{Operator, SEARCH};
use crate::support::{BUCKET, ROLE, SOON, comes_true, leased_for, ms, patient, recovered, served};

struct Fleet {
    server: NatsServer,
    journal: Journal,
    operator: Operator,
    a: Instance,
    b: Instance,
}

/// Two instances; `a` leads.
async fn fleet() -> Fleet {
    let (server, journal) = served();
    // A cordon asks for a fifth of a request's time who could lead next.
    let config = || patient().ttl(ms(10_000));
    let a = instance("a", server.url(), &journal)
        .standing(config().priority(3))
        .role("metrics", config())
        .start()
        .await;
    journal.started(ROLE, 0).await;
    journal.started("metrics", 0).await;
    let b = guest("b", server.url(), &journal)
        .standing(config())
        .role("metrics", config())
        .start()
        .await;
    b.wait_until_following("a").await;
    let operator = Operator::of(&server).await;
    operator.find(2).await;
    Fleet {
        server,
        journal,
        operator,
        a,
        b,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_finds_every_instance_and_what_it_does() {
    let fleet = fleet().await;
    // Who is late by a moment is not listed.
    let members = eventually(SOON, "the fleet", async || {
        let members = fleet.operator.admin.fleet(SEARCH).await.ok()?;
        (members.len() == 2).then_some(members)
    })
    .await;
    let ids: Vec<_> = members
        .iter()
        .map(|(instance, _)| &instance.instance_id)
        .collect();
    assert_eq!(ids, ["a", "b"]);
    let reports: Vec<_> = members
        .iter()
        .map(|(_, report)| report.as_ref().expect("a report"))
        .collect();
    for report in &reports {
        assert_eq!(report.bucket, BUCKET);
        assert_eq!(report.version, env!("CARGO_PKG_VERSION"));
        assert_eq!(report.trouble, None);
        assert_eq!(report.roles.keys().collect::<Vec<_>>(), ["metrics", ROLE]);
    }
    let (leading, following) = (&reports[0].roles[ROLE], &reports[1].roles[ROLE]);
    assert_eq!(leading.state, Some(RoleState::Leader));
    assert!(leading.is_leader && !following.is_leader);
    assert_eq!(leading.priority, 3);
    assert_eq!(leading.ttl, ms(10_000));
    assert_eq!(leading.healthy, Some(true));
    assert_eq!(following.healthy, Some(true));
    assert!(leading.lease_remaining.expect("a lease") <= ms(10_000));
    let token = fleet.journal.terms(ROLE)[0].fencing_token;
    assert_eq!(leading.fencing_token, Some(token));
    assert_eq!(following.state, Some(RoleState::Follower));
    assert_eq!(following.fencing_token, None);
    assert_eq!(following.heartbeat_took, None);
    let leader = following.leader.as_ref().expect("a leader");
    assert_eq!(leader.instance_id, "a");
    assert_eq!(leader.incarnation, Some(members[0].0.incarnation));

    let found = fleet.operator.leader(ROLE).await;
    assert_eq!(found.instance, members[0].0);
    assert_eq!(found.fencing_token, token);
    let nobody = fleet.operator.admin.leader("nothing", SEARCH).await;
    assert_eq!(nobody, Err(AdminError::NoLeader("nothing".into())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_tells_its_metadata_in_its_report_and_beneath_that_of_its_roles() {
    let (server, journal) = served();
    let config = leased_for(ms(10_000)).meta("zone", "of the role");
    let a = instance("a", server.url(), &journal)
        .with(|builder| builder.meta("zone", "eu-1").meta("version", "3"))
        .standing(config)
        .start()
        .await;
    let leader = a.role(ROLE).wait_for_leader().await.expect("a leader");
    let texts = |meta: &[(&str, &str)]| {
        let texts = meta
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()));
        texts.collect::<std::collections::BTreeMap<_, _>>()
    };
    let merged = texts(&[("version", "3"), ("zone", "of the role")]);
    assert_eq!(leader.meta, merged);
    let stranger = Stranger::connect(&server.url()).await;
    assert_eq!(stranger.record().await["meta"], serde_json::json!(merged));
    let operator = Operator::of(&server).await;
    let found = operator.instance("a").await;
    let report = operator.report(&found).await;
    assert_eq!(report.meta, texts(&[("version", "3"), ("zone", "eu-1")]));

    let large = "x".repeat(2100);
    let config = leased_for(ms(10_000)).meta("a", &large);
    let start = RoleManager::builder()
        .servers(server.url())
        .meta("b", &large)
        .role(ROLE, config, Recorded::obedient("b", &journal))
        .start()
        .await;
    assert!(
        matches!(&start, Err(Error::RoleConfig { error, .. }) if error.field == "meta"),
        "together they have a limit: {start:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_holds_no_lease_token() {
    let fleet = fleet().await;
    let stranger = Stranger::connect(&fleet.server.url()).await;
    let token = stranger.record().await["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let a = fleet.operator.instance("a").await;
    let subject = format!("nats-elect-admin.{BUCKET}.status.{}", a.incarnation);
    let report = fleet.operator.ask(&subject, b"").await.payload;
    let report = String::from_utf8(report.to_vec()).expect("text");
    assert!(report.contains("fencing_token"), "{report}");
    assert!(!report.contains(&token), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_for_nats_services_find_the_fleet() {
    let fleet = fleet().await;
    let operator = &fleet.operator;
    let a = operator.instance("a").await;
    let id = a.incarnation.to_string();
    for (subject, count) in [
        ("$SRV.PING".to_owned(), 2),
        ("$SRV.PING.nats-elect".to_owned(), 2),
        (format!("$SRV.PING.nats-elect.{id}"), 1),
    ] {
        for ping in operator.gather(&subject, count).await {
            assert_eq!(ping["type"], "io.nats.micro.v1.ping_response");
            let ping: service::PingResponse = serde_json::from_value(ping).expect("a ping");
            assert_eq!(ping.name, "nats-elect");
            assert_eq!(ping.version, env!("CARGO_PKG_VERSION"));
            assert_eq!(ping.metadata["bucket"], BUCKET);
        }
    }
    let info = operator
        .ask_json(&format!("$SRV.INFO.nats-elect.{id}"))
        .await;
    assert_eq!(info["type"], "io.nats.micro.v1.info_response");
    let info: service::Info = serde_json::from_value(info).expect("an info");
    assert_eq!(info.id, id);
    assert_eq!(info.metadata["instance_id"], "a");
    assert_eq!(info.metadata["incarnation"], id);
    assert!(!info.description.is_empty());
    let subjects: BTreeSet<_> = info.endpoints.iter().map(|it| &*it.subject).collect();
    let status = format!("nats-elect-admin.leaders.status.{id}");
    for subject in [
        status.clone(),
        format!("{status}.*"),
        format!("nats-elect-admin.leaders.step-down.{id}.*"),
        format!("nats-elect-admin.leaders.cordon.{id}"),
        format!("nats-elect-admin.leaders.end-lease.{id}.*"),
    ] {
        assert!(subjects.contains(subject.as_str()), "{subjects:?}");
    }

    operator.report(&a).await;
    let lead = format!("nats-elect-admin.leaders.step-down.{id}.nothing");
    operator.refusal(&lead, b"").await;
    let counts = operator
        .ask_json(&format!("$SRV.STATS.nats-elect.{id}"))
        .await;
    assert_eq!(counts["type"], "io.nats.micro.v1.stats_response");
    let counts: service::Stats = serde_json::from_value(counts).expect("stats");
    assert_eq!(counts.endpoints.len(), info.endpoints.len());
    let of = |subject: &str| {
        let found = counts.endpoints.iter().find(|it| it.subject == subject);
        found.expect("an endpoint")
    };
    let asked = of(&status);
    assert_eq!((asked.requests, asked.errors), (1, 0));
    assert!(asked.processing_time.as_nanos() > 0);
    let refused = of(&format!("nats-elect-admin.leaders.step-down.{id}.*"));
    assert_eq!((refused.requests, refused.errors), (1, 1));
    assert_eq!(refused.last_error.as_ref().expect("an error").code, 404);
}

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
    let code = refused.expect_err("another term").refusal();
    assert_eq!(code, Some(ProblemCode::UnexpectedTerm));
    let b = fleet.operator.instance("b").await;
    let refused = admin.step_down(&b, ROLE, StepDown::any()).await;
    let code = refused.expect_err("no leader").refusal();
    assert_eq!(code, Some(ProblemCode::NotLeader));
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
    let code = late.expect_err("another term").refusal();
    assert_eq!(code, Some(ProblemCode::UnexpectedTerm));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_is_handed_to_the_instance_that_is_named_or_to_nobody() {
    let fleet = fleet().await;
    let admin = &fleet.operator.admin;
    let a = fleet.operator.instance("a").await;
    let absent = admin.step_down(&a, ROLE, StepDown::to("nobody")).await;
    let code = absent.expect_err("nobody").refusal();
    assert_eq!(code, Some(ProblemCode::SuccessorAbsent));
    assert!(fleet.a.is_leader(), "it leads on");
    let unknown = admin.step_down(&a, "nothing", StepDown::any()).await;
    let code = unknown.expect_err("no role").refusal();
    assert_eq!(code, Some(ProblemCode::UnknownRole));

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
    let code = refused.expect_err("paused").refusal();
    assert_eq!(code, Some(ProblemCode::SuccessorRefused));

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
    let code = unknown.expect_err("no role").refusal();
    assert_eq!(code, Some(ProblemCode::UnknownRole));
    drop(fleet.b);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_may_answer_nobody_or_under_another_prefix() {
    let (server, journal) = served();
    let _silent = instance("silent", server.url(), &journal)
        .with(|it| it.admin(AdminConfig::off()))
        .standing(leased_for(ms(3000)))
        .start()
        .await;
    journal.started(ROLE, 0).await;
    let operator = Operator::of(&server).await;
    assert_eq!(operator.admin.instances(SEARCH).await, Ok(vec![]));
    let asked = operator.client.request("$SRV.PING", "".into()).await;
    let error = asked.expect_err("nobody");
    assert_eq!(
        error.kind(),
        async_nats::client::RequestErrorKind::NoResponders
    );

    let apart = guest("apart", server.url(), &journal)
        .with(|it| it.admin(AdminConfig::under("ops.elect")))
        .standing(leased_for(ms(3000)))
        .start()
        .await;
    apart.wait_until_following("silent").await;
    let admin = AdminClient::under(operator.client.clone(), BUCKET, "ops.elect");
    let admin = admin.expect("a prefix");
    let found = eventually(SOON, "the instance", async || {
        admin.instance("apart", SEARCH).await.ok()
    })
    .await;
    let report = admin.status(&found).await.expect("a report");
    assert_eq!(
        report.roles[ROLE].leader.as_ref().unwrap().instance_id,
        "silent"
    );
    // It is there, and not under the usual prefix.
    assert_eq!(operator.admin.instances(SEARCH).await, Ok(vec![]));
    let asked = operator.admin.status(&found).await;
    assert!(
        matches!(asked, Err(AdminError::NoSuchInstance(_))),
        "{asked:?}"
    );
    let odd = AdminClient::under(operator.client.clone(), BUCKET, "$SRV");
    assert!(matches!(odd, Err(AdminError::Config(_))), "{odd:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_of_one_id_are_told_apart() {
    let fleet = fleet().await;
    let _twin = guest("b", fleet.server.url(), &fleet.journal)
        .standing(leased_for(ms(10_000)))
        .start()
        .await;
    let all = fleet.operator.find(3).await;
    let twins: Vec<_> = all.into_iter().filter(|it| it.instance_id == "b").collect();
    let admin = &fleet.operator.admin;
    // One of them alone may answer in time.
    let (error, found) = eventually(SOON, "both of one id", async || {
        let error = admin.instance("b", SEARCH).await.err()?;
        match &error {
            AdminError::Ambiguous { found, .. } => Some((error.clone(), found.clone())),
            _ => None,
        }
    })
    .await;
    assert_eq!(found, twins);
    for twin in &twins {
        let incarnation = twin.incarnation.to_string();
        assert!(error.to_string().contains(&incarnation), "{error}");
        assert_eq!(fleet.operator.instance(&incarnation).await, *twin);
        let report = admin.status(twin).await.expect("a report");
        assert_eq!(report.incarnation, twin.incarnation);
    }
    let nobody = admin.instance("c", SEARCH).await;
    assert_eq!(nobody, Err(AdminError::NoSuchInstance("c".into())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_was_started_anew_is_another_one() {
    let fleet = fleet().await;
    let b = fleet.operator.instance("b").await;
    fleet.b.stop().await;
    // The server may see a moment later that its connection has gone.
    eventually(SOON, "the end of b", async || {
        let gone = fleet.operator.admin.status(&b).await;
        (gone == Err(AdminError::NoSuchInstance(b.to_string()))).then_some(())
    })
    .await;
    let _again = guest("b", fleet.server.url(), &fleet.journal)
        .standing(leased_for(ms(10_000)))
        .start()
        .await;
    let again = fleet.operator.instance("b").await;
    assert_ne!(again.incarnation, b.incarnation);
    let gone = fleet.operator.admin.cordon(&b, None).await;
    assert_eq!(gone, Err(AdminError::NoSuchInstance(b.to_string())));
    assert!(fleet.a.is_leader());
}

/// Its first check takes longer than a status waits, and says that it is well; later ones say at
/// once that it is not.
#[derive(Default)]
struct Ailing {
    asked: AtomicUsize,
    answered: Arc<AtomicUsize>,
}

impl RoleHandler for Ailing {
    async fn lead(&self, term: Term) -> Result<(), BoxError> {
        term.cancelled().await;
        Ok(())
    }

    async fn healthy(&self) -> bool {
        let first = self.asked.fetch_add(1, Ordering::SeqCst) == 0;
        if first {
            tokio::time::sleep(ms(2500)).await;
        }
        self.answered.fetch_add(1, Ordering::SeqCst);
        first
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_that_nobody_waited_for_is_no_later_answer() {
    let server = NatsServer::start().expect("start");
    let handler = Ailing::default();
    let answered = Arc::clone(&handler.answered);
    // Its own checks are far between.
    let config = leased_for(ms(60_000));
    let _a = instance("a", server.url(), &Journal::default())
        .handler(ROLE, config, handler)
        .start()
        .await;
    let operator = Operator::of(&server).await;
    let a = operator.instance("a").await;
    let report = operator.report(&a).await;
    assert_eq!(report.roles[ROLE].healthy, None, "no answer yet");
    comes_true("the late answer", async || {
        answered.load(Ordering::SeqCst) == 1
    })
    .await;
    // It has returned, but may not have ended yet: until then a report would share it. Nothing
    // outside can see the end.
    tokio::time::sleep(ms(500)).await;
    let healthy = async || operator.report(&a).await.roles[ROLE].healthy;
    assert_eq!(healthy().await, Some(false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_nobody_holds_ends_when_an_operator_says_so() {
    let server = NatsServer::start().expect("start");
    let stranger = Stranger::connect(&server.url()).await;
    let made = stranger.make_bucket(kv::Config::default()).await;
    let stray = br#"{"id":"x","ttl_ms":3600000}"#;
    let revision = made.put(ROLE, stray.as_slice().into()).await.expect("put");
    let journal = Journal::default();
    let ttl = ms(60_000);
    let a = guest("a", server.url(), &journal).standing(leased_for(ttl));
    let a = a.start().await;
    a.wait_until_following("x").await;
    let operator = Operator::of(&server).await;
    let found = operator.instance("a").await;
    let admin = &operator.admin;

    let other = admin.end_lease(&found, ROLE, revision + 1).await;
    let refusal = other.expect_err("another message").refusal();
    assert_eq!(refusal, Some(ProblemCode::Changed));
    let unknown = admin.end_lease(&found, "nothing", revision).await;
    let refusal = unknown.expect_err("no such role").refusal();
    assert_eq!(refusal, Some(ProblemCode::UnknownRole));
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
    let refusal = leads.expect_err("a leader").refusal();
    assert_eq!(refusal, Some(ProblemCode::Changed));
    assert!(a.is_leader() && term.term().is_valid());
}
