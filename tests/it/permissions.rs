//! Permissions that are missing: said in words, by subject, and soon; and made good by granting
//! them.

use nats_elect::{
    AuthConfig, Error, Event, FailureKind, Group, GroupProblem, LastFailure, Observer, RoleConfig,
    RoleState,
};
use nats_elect_testing::{NatsServer, eventually};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::clock::Stamp;
use crate::support::credentials::Files;
use crate::support::instance::{Instance, Recorded, failure, guest, instance};
use crate::support::journal::Journal;
use crate::support::logs::record;
use crate::support::member::{GROUP, all_owned, evenly_owned, joining, stop};
use crate::support::user::{all_but, violations};
use crate::support::{BUCKET, ROLE, SOON, comes_true, configured, leased_for, logs, ms};

const CLAIM: &str = "$KV.leaders.scheduler";
const FENCE: &str = "$KV.leaders._fence.scheduler";

/// Tries again each second what does not pass by itself.
fn patient() -> RoleConfig {
    let mut config = leased_for(ms(10_000));
    config.max_backoff = ms(1000);
    config
}

/// The user `u` of a server that forbids it something.
async fn restricted(id: &str, server: &NatsServer, journal: &Journal) -> Instance {
    instance(id, server.url(), journal)
        .user("u", "p")
        .standing(patient())
        .role("metrics", patient())
        .start()
        .await
}

/// An instance whose server forbids it these subjects.
async fn without(denied: &[&str]) -> (NatsServer, Journal, Instance) {
    let (server, journal) = (configured(&all_but(denied)), Journal::default());
    let a = restricted("a", &server, &journal).await;
    (server, journal, a)
}

fn denies(subject: &str) -> impl Fn(&Event) -> bool {
    let subject = format!("\"{subject}\"");
    move |event| {
        matches!(event, Event::Failure { kind: FailureKind::PermissionDenied, detail, .. }
            if detail.contains(&subject) && detail.contains("grant it"))
    }
}

/// Another failure may have come between: an answer that was late.
async fn status_failure(a: &Instance, kind: FailureKind, subject: &str) -> LastFailure {
    eventually(SOON, "the failure in the status", async || {
        let failure = a.role(ROLE).status().last_failure;
        failure.filter(|failure| failure.kind == Some(kind) && failure.detail.contains(subject))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_is_forbidden_says_so_soon_and_others_are_led() {
    let (server, journal, a) = without(&[CLAIM]).await;
    let begin = Stamp::now();
    let (told, _) = a.log().wait_for("a word of it", denies(CLAIM)).await;
    assert!(
        told.since(begin) < ms(5000),
        "it took {:?}",
        told.since(begin)
    );
    status_failure(&a, FailureKind::PermissionDenied, CLAIM).await;
    assert!(!a.is_leader());
    journal.started("metrics", 0).await;
    comes_true("no failure of the other role", async || {
        a.role("metrics").status().last_failure.is_none()
    })
    .await;

    // It is tried again about once a second, not all the time.
    let before = violations(&server, CLAIM);
    tokio::time::sleep(ms(4000)).await;
    let tried = violations(&server, CLAIM) - before;
    assert!((2..=6).contains(&tried), "{tried} attempts");
    assert_eq!(journal.terms("metrics").len(), 1);
    assert!(journal.terms(ROLE).is_empty());
    assert_eq!(a.log_of("metrics").count(denies(CLAIM)), 0);

    // Somebody who may leads it, and the limited one follows.
    let b = guest("b", server.url(), &journal).user("all", "p");
    let _b = b.standing(patient()).start().await;
    assert_eq!(journal.started(ROLE, 0).await.instance, "b");
    a.wait_until_following("b").await;
    a.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_claim_but_not_fence_leaves_the_role_to_others() {
    let (server, journal, a) = without(&[FENCE]).await;
    a.log().wait_for("a word of it", denies(FENCE)).await;
    status_failure(&a, FailureKind::PermissionDenied, FENCE).await;
    // Each claim is given back at once, and the pause after it doubles.
    let begin = Stamp::now();
    let before = violations(&server, FENCE);
    tokio::time::sleep(ms(5000)).await;
    let tried = violations(&server, FENCE) - before;
    assert!(
        tried <= 6,
        "{tried} attempts in {:?}",
        Stamp::now().since(begin)
    );
    assert!(journal.terms(ROLE).is_empty());

    let _b = guest("b", server.url(), &journal)
        .user("all", "p")
        .standing(patient())
        .start()
        .await;
    let first = journal.started(ROLE, 0).await;
    assert_eq!(first.instance, "b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_lead_but_not_keep_data_is_told_and_loses_no_role_by_it() {
    let data = "$KV.leaders._data.scheduler.>";
    let server = configured(&all_but(&["$KV.leaders._data.>"]));
    let journal = Journal::default();
    let a = instance("a", server.url(), &journal)
        .user("u", "p")
        .standing(leased_for(ms(15_000)))
        .role("metrics", leased_for(ms(15_000)))
        .start()
        .await;
    let first = journal.started(ROLE, 0).await;
    journal.started("metrics", 0).await;
    let store = first.term().store();
    let refused = store.put("a", "1").await.expect_err("it may not");
    assert!(refused.may_have_been_written());
    let told = format!("may not publish to \"{data}\"");
    assert!(refused.to_string().contains(&told), "{refused}");
    let store = store.timeout(ms(300));
    let concerns = denies(data);
    a.log().wait_for("a word of it", &concerns).await;
    assert_eq!(a.log_of("metrics").count(&concerns), 0);

    // The refusal comes while the bucket is looked at, for heartbeats were not answered.
    server.pause().expect("pause");
    let paused = Stamp::now();
    let late = tokio::spawn(async move { store.put("a", "2").await });
    let unanswered = failure(FailureKind::Timeout);
    let log = a.log();
    log.wait_for_after(paused, "a late heartbeat", &unanswered)
        .await;
    let once = log.count(&unanswered);
    comes_true("another", async || log.count(&unanswered) > once).await;
    server.resume().expect("resume");
    log.wait_for_after(paused, "the refusal of the late write", &concerns)
        .await;
    late.await.expect("no panic").expect_err("it was refused");
    for role in [ROLE, "metrics"] {
        let proved = eventually(SOON, "an answer", async || {
            let proved = a.role(role).validate().await;
            (!proved.as_ref().is_err_and(Error::is_transient)).then_some(proved)
        });
        proved.await.expect("it leads on");
        assert_eq!(journal.terms(role).len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_may_not_write_what_groups_need_says_so_and_owns_units_when_it_may() {
    let logs = logs::install();
    for denied in [
        "$KV.leaders._groups.>",
        "$KV.leaders._groups.*.map",
        "$KV.leaders._groups.*.member.*",
    ] {
        let files = Files::new();
        files.write("users.conf", &all_but(&[denied]));
        let server = configured(&files.included("users.conf"));
        let journal = Journal::default();
        let id = format!("not-granted-{}", denied.len());
        let shards = Recorded::obedient(&id, &journal);
        let a = instance(&id, server.url(), &journal)
            .user("u", "p")
            .with(|it| it.group(Group::sharded("shards", 20, shards)))
            .standing(patient())
            .start()
            .await;
        journal.started(ROLE, 0).await;
        let told = "may not publish to \"$KV.leaders._groups.shards.>\": grant it";
        let warnings = || {
            let text = logs.text();
            let ours = |line: &&str| line.contains(told) && line.contains(&id);
            text.lines().filter(ours).count()
        };
        comes_true("a word of it", async || warnings() > 0).await;
        // It goes on trying, and says it once a minute.
        let tried = server.log().matches("Publish Violation").count();
        eventually(SOON, "more attempts", async || {
            let again = server.log().matches("Publish Violation").count();
            (again > tried + 1).then_some(())
        })
        .await;
        assert_eq!(warnings(), 1);
        assert!(a.is_leader() && journal.terms("shards/0").is_empty());

        reload(&server, &files, &all_but(&[]));
        journal.started("shards/0", 0).await;
        assert_eq!(journal.terms(ROLE).len(), 1);
        a.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_write_the_map_any_more_leaves_it_to_others_and_keeps_its_units() {
    let logs = logs::install();
    let files = Files::new();
    files.write("users.conf", &all_but(&[]));
    let server = configured(&files.included("users.conf"));
    let journal = Journal::default();
    let start = async |id: &str, user: &str| {
        let group = Group::sharded(GROUP, 4, Recorded::obedient(id, &journal));
        let member = joining(&server.url(), id, group);
        let auth = AuthConfig::default().user_and_password(user, "p");
        member.auth(auth).start().await.expect("start")
    };
    let id = "logged-aside";
    let a = start(id, "u").await;
    all_owned(&[&a], 4).await;
    reload(&server, &files, &all_but(&["$KV.leaders._groups.*.map"]));
    let b = start("b", "all").await;
    evenly_owned(&[&a, &b], 4).await;
    let went_on = (0..4).filter(|it| journal.is_in_term(&format!("{GROUP}/{it}"), 0));
    assert_eq!(went_on.count(), 2);
    record(&logs.text(), id, "this member can't write the group's map");
    let user = AuthConfig::default().user_and_password("all", "p");
    let observer = Observer::builder().servers(server.url()).bucket(BUCKET);
    let observer = observer.auth(user).start().await.expect("start");
    eventually(SOON, "a word of it", async || {
        let groups = observer.groups(ms(0)).await.ok()?;
        let problems = groups.problems_of(GROUP);
        let told = |it: &GroupProblem| matches!(it, GroupProblem::MapRefused { instance_id, .. } if instance_id == id);
        problems.iter().any(told).then_some(())
    })
    .await;
    stop(a).await;
    stop(b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_may_not_keep_data_is_told_and_owns_on() {
    let server = configured(&all_but(&["$KV.leaders._gdata.>", "$KV.leaders._guard.>"]));
    if server.version() < (2, 12, 0) {
        return;
    }
    let journal = Journal::default();
    let shards = Group::sharded("shards", 2, Recorded::obedient("a", &journal));
    let a = instance("a", server.url(), &journal)
        .user("u", "p")
        .with(|it| it.group(shards))
        .standing(patient())
        .start()
        .await;
    journal.started(ROLE, 0).await;
    let first = journal.started("shards/1", 0).await;
    let store = first.term().store();
    let refused = store.put("a", "1").await.expect_err("it may not");
    let told = "may not publish to \"$KV.leaders._gdata.shards.>\"";
    assert!(refused.to_string().contains(told), "{refused}");
    let refused = store.create("a", "1").await.expect_err("it may not");
    let told = "may not publish to \"$KV.leaders._guard.shards.>\"";
    assert!(refused.to_string().contains(told), "{refused}");
    assert!(!refused.may_have_been_written() && !refused.is_transient());
    let term = first.term();
    eventually(SOON, "a proof", async || term.validate().await.ok()).await;
    for role in [ROLE, "shards/0", "shards/1"] {
        assert_eq!(journal.terms(role).len(), 1, "{role}");
    }
    a.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conditional_write_without_its_guard_says_what_is_not_permitted() {
    let guard = "$KV.leaders._guard.scheduler";
    let server = configured(&all_but(&[guard]));
    if server.version() < (2, 12, 0) {
        return;
    }
    let journal = Journal::default();
    let a = restricted("a", &server, &journal).await;
    let store = journal.started(ROLE, 0).await.term().store();
    let error = store.create("a", "1").await.expect_err("it may not");
    assert!(!error.may_have_been_written(), "{error:?}");
    assert!(
        !error.is_transient(),
        "a permission does not come by itself: {error:?}"
    );
    let told = format!("may not publish to \"{guard}\"");
    assert!(error.to_string().contains(&told), "{error}");
    a.log().wait_for("a word of it", denies(guard)).await;
    a.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_read_the_keys_is_told_of_that() {
    let subject = "$JS.API.STREAM.MSG.GET.KV_leaders";
    let (_server, journal, a) = without(&[subject]).await;
    a.log().wait_for("a word of it", denies(subject)).await;
    status_failure(&a, FailureKind::PermissionDenied, subject).await;
    assert!(journal.terms(ROLE).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_watch_roles_are_led_all_the_same() {
    let (server, journal, a) = without(&["$JS.API.CONSUMER.>"]).await;
    journal.started(ROLE, 0).await;
    let b = restricted("b", &server, &journal).await;
    b.wait_until_following("a").await;
    a.stop().await;
    assert_eq!(journal.started(ROLE, 1).await.instance, "b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_the_callers_own_shows_it_as_a_timeout_that_names_the_subject() {
    let server = configured(&all_but(&[CLAIM]));
    let login = async_nats::ConnectOptions::with_user_and_password("u".into(), "p".into());
    let client = login.connect(server.url()).await.expect("connect");
    let journal = Journal::default();
    let a = instance("a", "nats://127.0.0.1:1", &journal)
        .with(|it| it.client(client))
        .standing(patient())
        .role("metrics", patient())
        .start()
        .await;
    journal.started("metrics", 0).await;
    let failure = status_failure(&a, FailureKind::Timeout, CLAIM).await;
    let advice = failure.detail.contains("may publish there");
    assert!(advice, "{failure:?}");
    assert!(!a.is_leader());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whose_inbox_is_elsewhere_says_where() {
    let server = configured(
        r#"authorization { users = [
            { user: u, password: p, permissions: { publish: ">", subscribe: "_MINE.elect.>" } } ] }"#,
    );
    let journal = Journal::default();
    let joining = || {
        instance("a", server.url(), &journal)
            .user("u", "p")
            .standing(patient())
    };
    let begin = Stamp::now();
    let error = joining().try_start().await.err().expect("a refusal");
    assert!(Stamp::now().since(begin) < ms(5000));
    let Error::PermissionDenied(reason) = &error else {
        panic!("{error:?}");
    };
    assert!(
        reason.contains("subscribe") && reason.contains("inbox_prefix"),
        "{reason}"
    );

    let a = joining()
        .with(|it| it.inbox_prefix("_MINE.elect"))
        .start()
        .await;
    journal.started(ROLE, 0).await;
    let role = a.role(ROLE);
    eventually(SOON, "a proof", async || role.validate().await.ok()).await;
    a.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_may_not_be_made_or_looked_at_is_told_at_the_start() {
    let create = ["the missing bucket", "nats-elect create-bucket"];
    for (verb, parts) in [("CREATE", &create[..]), ("INFO", &[])] {
        let subject = format!("$JS.API.STREAM.{verb}.KV_leaders");
        let server = configured(&all_but(&[&subject]));
        let joining = instance("a", server.url(), &Journal::default()).user("u", "p");
        let begin = Stamp::now();
        let error = joining.try_start().await.err().expect("a refusal");
        assert!(Stamp::now().since(begin) < ms(5000));
        let Error::PermissionDenied(reason) = &error else {
            panic!("{error:?}");
        };
        for part in parts.iter().chain([&&*subject]) {
            assert!(reason.contains(part), "{reason}");
        }
    }
}

/// Has the server read its configuration anew.
fn reload(server: &NatsServer, files: &Files, users: &str) {
    files.write("users.conf", users);
    let reloads = || {
        server
            .log()
            .matches("Reloaded server configuration")
            .count()
    };
    let before = reloads();
    let pid = server
        .pid()
        .and_then(|pid| Pid::from_raw(pid.cast_signed()));
    kill_process(pid.expect("it runs"), Signal::HUP).expect("tell it");
    while reloads() == before {
        std::thread::sleep(ms(5));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_granted_later_is_used_and_what_is_taken_away_ends_the_term() {
    let files = Files::new();
    files.write("users.conf", &all_but(&[CLAIM]));
    let server = configured(&files.included("users.conf"));
    let journal = Journal::default();
    let a = restricted("a", &server, &journal).await;
    a.log().wait_for("a word of it", denies(CLAIM)).await;

    reload(&server, &files, &all_but(&[]));
    journal.started(ROLE, 0).await;
    a.wait_until_leader().await;
    // A handler may run a moment before its term is told.
    comes_true("the failure to be made good", async || {
        a.role(ROLE).status().last_failure.is_none()
    })
    .await;

    let taken = Stamp::now();
    reload(&server, &files, &all_but(&[CLAIM]));
    a.log()
        .wait_for_after(taken, "a word of it", denies(CLAIM))
        .await;
    journal.ended(ROLE, 0).await;
    assert_eq!(a.role("metrics").status().state, RoleState::Leader);

    reload(&server, &files, &all_but(&[]));
    journal.started(ROLE, 1).await;
    a.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inbox_that_is_taken_away_is_told_and_back_when_it_is_granted() {
    let files = Files::new();
    let users = |subscribe: &str| {
        let may = format!("publish: \">\", subscribe: {subscribe:?}");
        format!(
            "authorization {{ users = [ {{ user: u, password: p, permissions: {{ {may} }} }} ] }}\n"
        )
    };
    files.write("users.conf", &users(">"));
    let server = configured(&files.included("users.conf"));
    let journal = Journal::default();
    let a = restricted("a", &server, &journal).await;
    journal.started(ROLE, 0).await;

    reload(&server, &files, &users("_ELSEWHERE.>"));
    journal.ended(ROLE, 0).await;
    eventually(SOON, "a word of it", async || {
        let failure = a.role(ROLE).status().last_failure?;
        let told = failure.kind == Some(FailureKind::PermissionDenied)
            && failure.detail.contains("_INBOX.>");
        told.then_some(())
    })
    .await;

    reload(&server, &files, &users(">"));
    journal.started(ROLE, 1).await;
    a.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_that_are_refused_later_are_told_and_tried_on() {
    let logs = logs::install();
    let refusals = || {
        logs.text()
            .matches("NATS refuses the credentials of user \"u\", which it had accepted before")
            .count()
    };
    let files = Files::new();
    let users = |password: &str| {
        format!("authorization {{ users = [ {{ user: u, password: {password} }} ] }}\n")
    };
    files.write("users.conf", &users("p"));
    let server = configured(&files.included("users.conf"));
    let journal = Journal::default();
    let a = restricted("a", &server, &journal).await;
    journal.started(ROLE, 0).await;

    reload(&server, &files, &users("another"));
    comes_true("a word of it", async || refusals() > 0).await;
    journal.ended(ROLE, 0).await;
    assert_eq!(refusals(), 1, "once in an outage");

    reload(&server, &files, &users("p"));
    journal.started(ROLE, 1).await;
    a.stop().await;
}
