//! The permissions in `deploy/nats`: enough for whom they are made, and no more.

use std::time::Duration;

use async_nats::jetstream::kv;
use futures::StreamExt;
use nats_elect::{
    AuthConfig, Event, EventsConfig, FailureKind, Group, GroupHandle, Handoff, History,
    RoleManager, StopOptions,
};
use nats_elect_testing::{NatsServer, eventually};

use crate::support::bucket::Stranger;
use crate::support::clock::Stamp;
use crate::support::instance::{Instance, Recorded, guest, hand_over, make_bucket};
use crate::support::journal::Journal;
use crate::support::user::{User, users_of};
use crate::support::{BUCKET, ROLE, SOON, comes_true, configured, leased_for, ms, recovered};

const FILES: [&str; 5] = [
    include_str!("../../deploy/nats/candidate.conf"),
    include_str!("../../deploy/nats/observer.conf"),
    include_str!("../../deploy/nats/admin.conf"),
    include_str!("../../deploy/nats/operator.conf"),
    include_str!("../../deploy/nats/retire.conf"),
];
const PASSWORD: &str = "change-me";

/// A server with the users of `deploy/nats`.
pub fn server() -> NatsServer {
    configured(&users_of(&FILES))
}

/// A server and its bucket, which a candidate uses.
async fn led() -> (NatsServer, Journal, Instance) {
    let (server, journal) = (server(), Journal::default());
    make_bucket(&server).await;
    let a = candidate("a", &server, &journal).await;
    (server, journal, a)
}

async fn candidate(id: &str, server: &NatsServer, journal: &Journal) -> Instance {
    let ttl = ms(10_000);
    guest(id, server.url(), journal)
        .user("candidate", PASSWORD)
        .standing(leased_for(ttl))
        .role("metrics", leased_for(ttl))
        .role("network", leased_for(ttl))
        .start()
        .await
}

/// It leads. A single heartbeat may be answered late.
async fn is_proven(leader: &Instance) {
    let role = leader.role(ROLE);
    eventually(SOON, "a proof", async || role.validate().await.ok()).await;
}

#[tokio::test]
async fn each_file_is_a_configuration_that_the_server_takes() {
    for file in FILES {
        configured(file);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_may_do_what_it_must_for_its_roles_and_for_them_alone() {
    let (server, journal, a) = led().await;
    let first = journal.started(ROLE, 0).await;
    journal.started("metrics", 0).await;
    if server.version() >= (2, 12, 0) {
        let store = first.term().store();
        store.put("cursor", "1").await.expect("a put");
        store.create("jobs.1", "x").await.expect("a create");
        assert_eq!(store.list().await.expect("a list"), ["cursor", "jobs.1"]);
    }
    let b = candidate("b", &server, &journal).await;
    b.wait_until_following("a").await;

    // Each role of b finds out for itself who leads.
    let down = hand_over(&a.role("metrics"), "b").await;
    assert_eq!(down.handoff, Some(Handoff::Accepted));

    let stop = Stamp::now();
    a.stop().await;
    let next = journal.started(ROLE, 1).await;
    recovered("least_privileges", ms(10_000), stop, &next);
    assert_eq!(next.instance, "b");
    assert!(
        next.start.since(stop) < ms(5000),
        "the watch told of the release"
    );

    let denied = |event: &Event| {
        matches!(event, Event::Failure { kind: FailureKind::PermissionDenied, detail, .. }
            if detail.contains("$KV.leaders.network"))
    };
    b.log_of("network")
        .wait_for("a word of what it may not do", denied)
        .await;
    assert!(journal.terms("network").is_empty());
    let user = User::connect(&server.url(), "candidate", PASSWORD).await;
    for subject in [
        "$KV.leaders._fence.network",
        "$JS.API.STREAM.DELETE.KV_leaders",
        "$JS.API.STREAM.PURGE.KV_leaders",
        "$JS.API.STREAM.UPDATE.KV_leaders",
        "$JS.API.DIRECT.GET.KV_leaders",
        "_INBOX.x",
        "nats-elect-admin.leaders.step-down.x.scheduler",
        "nats-elect-admin.leaders.cordon.x",
    ] {
        user.may_not_publish(subject).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_may_do_what_it_must_for_its_groups_and_for_them_alone() {
    let server = server();
    make_bucket(&server).await;
    let journal = Journal::default();
    let member = async |id: &str| {
        let recorded = Recorded::obedient(id, &journal);
        let builder = RoleManager::builder()
            .servers(server.url())
            .bucket(BUCKET)
            .instance_id(id)
            .auth(AuthConfig::default().user_and_password("candidate", PASSWORD))
            .group(Group::sharded("partitions", 4, recorded.clone()))
            .group(Group::sharded("others", 1, recorded));
        builder.start().await.expect("start")
    };
    let a = member("a").await;
    let first = journal.started("partitions/0", 0).await;
    if server.version() >= (2, 12, 0) {
        let store = first.term().store();
        store.put("cursor", "1").await.expect("a put");
        store.create("jobs.1", "x").await.expect("a create");
        assert_eq!(store.list().await.expect("a list"), ["cursor", "jobs.1"]);
    }
    let b = member("b").await;
    let joining = b.group("partitions").expect("a group");
    joining.wait_until(GroupHandle::has_joined).await;
    a.stop(StopOptions::default()).await.expect("stop");
    assert_eq!(journal.started("partitions/0", 1).await.instance, "b");
    assert!(journal.terms("others/0").is_empty());
    b.stop(StopOptions::default()).await.expect("stop");
    let user = User::connect(&server.url(), "candidate", PASSWORD).await;
    for key in [
        "_groups.others.map",
        "_groups.others.member.AAAAAAAAAAAAAAAAAAAAAA",
        "_gfence.others.1.0",
        "_gdata.others.1.0.a",
        "_guard.others.1.0",
        "_guard.network",
    ] {
        user.may_not_publish(&format!("$KV.leaders.{key}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_or_permitted_where_a_question_says_that_an_answer_should_go() {
    let (server, journal, a) = led().await;
    journal.started(ROLE, 0).await;
    let b = candidate("b", &server, &journal).await;
    b.wait_until_following("a").await;
    let user = User::connect(&server.url(), "candidate", PASSWORD).await;
    let questions = format!("nats-elect.{BUCKET}.{ROLE}.b");
    let inbox = format!("nats-elect.{BUCKET}._answer.x");
    let mut answers = user.client.subscribe(inbox.clone()).await.expect("inbox");
    let places = [
        "$KV.leaders.nobody",
        "$KV.leaders._fence.nobody",
        "$JS.API.STREAM.PURGE.KV_leaders",
    ];
    let ask = async |reply: &str| {
        let question = br#"{"ask":"ready","to":"b"}"#.as_slice();
        let (subject, reply) = (questions.clone(), reply.to_owned());
        let asked = user
            .client
            .publish_with_reply(subject, reply, question.into());
        asked.await.expect("published");
    };
    // It may follow before it has read the keys, and is not ready then.
    eventually(SOON, "an answer that it is ready", async || {
        ask(inbox.as_str()).await;
        let answer = answers.next().await?.payload;
        answer.starts_with(br#"{"answer":"ready""#).then_some(())
    })
    .await;
    for place in places {
        ask(place).await;
    }
    // The last question of all is answered after those.
    ask(inbox.as_str()).await;
    let answer = tokio::time::timeout(SOON, answers.next()).await;
    answer.expect("an answer").expect("an answer");
    for place in places {
        user.may_not_publish(place).await;
    }
    let admin = User::connect(&server.url(), "admin", PASSWORD).await;
    let watcher = Stranger::of(admin.client.clone());
    for key in ["nobody", "_fence.nobody"] {
        assert!(watcher.find(key).await.is_none(), "{key}");
    }
    assert_eq!(watcher.record().await["id"], "a");
    assert!(a.is_leader());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_sees_everything_and_writes_nothing() {
    let (server, journal, a) = led().await;
    journal.started(ROLE, 0).await;

    let user = User::connect(&server.url(), "observer", PASSWORD).await;
    let observer = Stranger::of(user.client.clone());
    // The stream's settings, and keys from its leader.
    assert_eq!(observer.record().await["id"], "a");
    observer.fence_sequence(ROLE).await;
    // What Key-Value clients do.
    let store = observer.store().await;
    store.get(ROLE).await.expect("get").expect("a record");
    let mut keys = store.keys().await.expect("keys");
    keys.next().await.expect("a key").expect("a key");
    let mut watch = store.watch_with_history(ROLE).await.expect("watch");
    let first = watch.next().await.expect("an entry").expect("an entry");
    let second = watch.next().await.expect("an entry").expect("an entry");
    assert!(second.revision > first.revision, "a heartbeat");
    assert_eq!(user.denied(), [""; 0], "nothing of all that is forbidden");

    for subject in [
        "$KV.leaders.scheduler",
        "$KV.leaders._fence.scheduler",
        "$KV.leaders.anything",
        "$JS.API.STREAM.UPDATE.KV_leaders",
        "$JS.API.STREAM.PURGE.KV_leaders",
        "$JS.API.STREAM.MSG.DELETE.KV_leaders",
        "$JS.API.STREAM.DELETE.KV_leaders",
        "$JS.API.STREAM.CREATE.KV_others",
        "$JS.API.DIRECT.GET.KV_leaders",
        "$JS.API.DIRECT.GET.KV_leaders.$KV.leaders.scheduler",
        "$JS.API.DIRECT.GET.nats-elect-events-leaders",
    ] {
        user.may_not_publish(subject).await;
    }

    // An instance with these permissions follows, and knows who leads.
    let b = guest("b", server.url(), &journal)
        .user("observer", PASSWORD)
        .standing(leased_for(ms(10_000)))
        .start()
        .await;
    b.wait_until_following("a").await;
    // Its watch shows each heartbeat; it has no reason to read.
    let revision = b.role(ROLE).status().revision;
    comes_true("a later heartbeat", async || {
        b.role(ROLE).status().revision > revision
    })
    .await;
    is_proven(&a).await;
    assert_eq!(journal.terms(ROLE).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_changes_are_kept_by_those_who_may_and_read_by_an_observer() {
    let server = server();
    let kept = EventsConfig::default().keep(Duration::from_secs(3600));
    let maker = guest("maker", server.url(), &Journal::default())
        .user("admin", PASSWORD)
        .with(|it| it.bucket_auto_create().events(kept.clone()));
    let maker = maker.start().await;
    let observer = User::connect(&server.url(), "observer", PASSWORD).await;
    // Nobody else may make the stream.
    eventually(SOON, "a stream for the history", async || {
        History::open(observer.client.clone(), BUCKET).await.ok()
    })
    .await;
    maker.stop().await;
    let a = guest("a", server.url(), &Journal::default())
        .user("candidate", PASSWORD)
        .with(|it| it.events(kept))
        .standing(leased_for(ms(1000)));
    let a = a.start().await;
    a.wait_until_leader().await;
    let told = eventually(SOON, "the history", async || {
        let history = History::open(observer.client.clone(), BUCKET).await;
        let told = history.expect("kept").of_role(ROLE, 10).await;
        let told = told.expect("permitted");
        (!told.is_empty()).then_some(told)
    })
    .await;
    assert_eq!(told[0].instance_id, "a");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admin_makes_and_edits_the_bucket_and_forces_a_failover() {
    let server = server();
    let user = User::connect(&server.url(), "admin", PASSWORD).await;
    let admin = Stranger::of(user.client.clone());
    let store = admin.make_bucket(kv::Config::default()).await;
    let mut config = admin.stream().await.cached_info().config.clone();
    config.description = Some("who leads".into());
    let edited = admin.jetstream.update_stream(&config).await;
    assert_eq!(edited.expect("edit").config.description, config.description);

    let journal = Journal::default();
    let a = candidate("a", &server, &journal).await;
    let b = candidate("b", &server, &journal).await;
    let first = journal.started(ROLE, 0).await;
    assert_eq!(admin.record().await["id"], *first.instance);
    store.delete(ROLE).await.expect("delete");
    let next = journal.started(ROLE, 1).await;
    assert!(next.fencing_token > first.fencing_token);
    assert_eq!(user.denied(), [""; 0], "nothing of all that is forbidden");

    for subject in [
        format!("$KV.{BUCKET}._fence.{ROLE}"),
        format!("$JS.API.STREAM.DELETE.KV_{BUCKET}"),
        format!("$JS.API.STREAM.PURGE.KV_{BUCKET}"),
        format!("$JS.API.DIRECT.GET.KV_{BUCKET}"),
        format!("$JS.API.DIRECT.GET.KV_{BUCKET}.$KV.{BUCKET}.{ROLE}"),
        "$JS.API.DIRECT.GET.nats-elect-events-leaders".to_owned(),
    ] {
        user.may_not_publish(&subject).await;
    }
    drop((a, b));
}
