//! Operating instances over NATS: who is there, and what they say.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_nats::service;
use nats_elect::admin::{AdminClient, AdminError};
use nats_elect::{AdminConfig, BoxError, Error, RoleHandler, RoleManager, RoleState, Term};
use nats_elect_testing::{NatsServer, eventually};

use crate::support::bucket::Stranger;
use crate::support::instance::{Instance, Recorded, guest, instance};
use crate::support::journal::Journal;
use crate::support::operator::{Operator, SEARCH};
use crate::support::{BUCKET, ROLE, SOON, comes_true, leased_for, ms, patient, served};

pub struct Fleet {
    server: NatsServer,
    pub journal: Journal,
    pub operator: Operator,
    pub a: Instance,
    pub b: Instance,
}

/// Two instances; `a` leads.
pub async fn fleet() -> Fleet {
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
