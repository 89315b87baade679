//! What the log says of what NATS refuses: a permission, or room.

use async_nats::jetstream::stream;
use nats_elect::{AuthConfig, Group};
use nats_elect_testing::eventually;

use crate::support::bucket::Stranger;
use crate::support::instance::{Recorded, guest, instance};
use crate::support::journal::Journal;
use crate::support::logs::{self, has_all, record, records};
use crate::support::member::{GROUP, joining, stop};
use crate::support::user::{all_but, violations};
use crate::support::{BUCKET, ROLE, SOON, comes_true, configured, leased_for, ms};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_permission_is_logged_once_until_it_is_granted() {
    let logs = logs::install();
    let id = "logged-denied";
    let denied = all_but(&["$KV.leaders.scheduler"]);
    let server = configured(&denied);
    let mut config = leased_for(ms(3000));
    config.max_backoff = ms(300);
    let journal = Journal::default();
    let a = instance(id, server.url(), &journal)
        .user("u", "p")
        .standing(config)
        .start()
        .await;
    comes_true("several attempts", async || {
        violations(&server, "$KV.leaders.scheduler") >= 5
    })
    .await;
    let log = logs.text();
    let failure = record(&log, id, "grant it");
    has_all(
        &failure,
        &["ERROR", "role=scheduler", "grant it", "permission_denied"],
    );
    for text in ["succeed again", "in a row"] {
        assert_eq!(records(&log, id, text), [""; 0], "{text}");
    }
    a.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_not_make_the_stream_of_the_history_is_not_told_to_grant_that() {
    let logs = logs::install();
    let id = "logged-no-history";
    let subject = "$JS.API.STREAM.CREATE.nats-elect-events-leaders";
    let server = configured(&all_but(&[subject]));
    let journal = Journal::default();
    let a = instance(id, server.url(), &journal)
        .user("u", "p")
        .standing(leased_for(ms(3000)))
        .start()
        .await;
    journal.started(ROLE, 0).await;
    let told = eventually(SOON, "a word on the history", async || {
        let mut told = records(&logs.text(), id, "the stream of the history");
        told.pop()
    })
    .await;
    has_all(&told, &[" INFO ", subject, "nats-elect create-bucket"]);
    assert_eq!(records(&logs.text(), id, "grant it"), [""; 0]);
    a.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_may_not_watch_does_not_say_that_a_healthy_leader_is_none() {
    let logs = logs::install();
    let id = "logged-unwatching";
    let denied = all_but(&["$JS.API.CONSUMER.CREATE.>"]);
    let server = configured(&denied);
    let journal = Journal::default();
    let joining = instance("watched", server.url(), &journal).standing(leased_for(ms(3000)));
    let a = joining.user("all", "p").start().await;
    journal.started(ROLE, 0).await;
    let joining = guest(id, server.url(), &journal).standing(leased_for(ms(1000)));
    let b = joining.user("u", "p").start().await;
    eventually(SOON, "a lease without a heartbeat", async || {
        let told = records(&logs.text(), id, "no leader known: no heartbeat was seen");
        (!told.is_empty()).then_some(())
    })
    .await;
    assert_eq!(records(&logs.text(), id, "no leader:"), [""; 0]);
    assert_eq!(journal.terms(ROLE).len(), 1);
    b.stop().await;
    a.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_may_not_join_says_so_once_with_the_reason() {
    let logs = logs::install();
    let id = "logged-outside";
    let denied = all_but(&["$KV.leaders._groups.partitions.>"]);
    let server = configured(&denied);
    let handler = Recorded::obedient(id, &Journal::default());
    let member = joining(&server.url(), id, Group::sharded(GROUP, 1, handler))
        .auth(AuthConfig::default().user_and_password("u", "p"))
        .start()
        .await
        .expect("start");
    eventually(SOON, "several attempts", async || {
        let log = server.log();
        let refused = log.lines().filter(|line| {
            line.contains("Publish Violation") && line.contains("$KV.leaders._groups.")
        });
        (refused.count() >= 3).then_some(())
    })
    .await;
    // A busy machine may add a timeout.
    let trouble = r#"the member's lease is in trouble kind="permission_denied""#;
    let trouble = record(&logs.text(), id, trouble);
    has_all(&trouble, &[" WARN ", "_groups."]);
    stop(member).await;
}

/// Before, no line told why there was no leader any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_can_not_be_made_again_in_a_full_account_is_told_of() {
    let logs = logs::install();
    let limits = "accounts { A { jetstream: { max_streams: 1 }, users: [ { user: a, password: a } ] } }\n\
        no_auth_user: a";
    let server = configured(limits);
    let journal = Journal::default();
    let a = instance("logged-in-full-account", server.url(), &journal);
    let a = a.standing(leased_for(ms(5000))).start().await;
    a.wait_until_leader().await;
    let stranger = Stranger::connect(&server.url()).await;
    let filler = || stream::Config {
        name: "filler".into(),
        ..stream::Config::default()
    };
    // The instance may make the bucket again first.
    eventually(SOON, "a full account", async || {
        stranger.jetstream.delete_key_value(BUCKET).await.ok()?;
        stranger.jetstream.create_stream(filler()).await.ok()
    })
    .await;
    eventually(SOON, "a word of it", async || {
        let told = "there is no room in the bucket";
        let log = logs.text();
        let mut log = log
            .lines()
            .filter(|line| line.contains("logged-in-full-account"));
        log.any(|line| line.contains(told) && line.ends_with("trying on"))
            .then_some(())
    })
    .await;
}
