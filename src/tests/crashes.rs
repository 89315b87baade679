//! Actors that panic, on real servers.

use nats_elect::{Event, FailureKind, Group, MemberConfig};
use nats_elect_testing::{NatsServer, eventually};

use crate::support::bucket::{Stranger, release_of};
use crate::support::clock::Stamp;
use crate::support::instance::{failure, instance, leading_deafly, never, standing};
use crate::support::member::{GROUP, all_owned, epoch_of, group, joining, waits};
use crate::support::operator::Operator;
use crate::support::{BUCKET, ROLE, SOON, leased_for, ms, recovered, served};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_election_that_panics_ends_its_handler_alone_and_is_begun_anew() {
    let (server, journal) = served();
    // Its own record it need not wait for.
    let ttl = ms(5000);
    let a = instance("a", server.url(), &journal)
        .standing(leased_for(ttl))
        .role("metrics", leased_for(ms(10_000)))
        .start()
        .await;
    let first = journal.started(ROLE, 0).await;
    let metrics = journal.started("metrics", 0).await;
    let log = a.log();

    let fault = Stamp::now();
    a.role(ROLE).crash_election();
    let ended = journal.ended(ROLE, 0).await;
    assert!(!first.term().is_valid());
    let crashed = failure(FailureKind::ActorCrashed);
    log.wait_for("a word of it", crashed).await;
    let second = journal.started(ROLE, 1).await;
    recovered("election_panicked", ttl, fault, &second);
    assert!(ended.end() <= second.start);
    a.wait_until_leader().await;
    assert!(metrics.term().is_valid());
    assert_eq!(journal.terms("metrics").len(), 1);
    let role = a.role(ROLE);
    let token = eventually(SOON, "a living election", async || {
        role.validate().await.ok()
    })
    .await;
    assert_eq!(token, second.fencing_token);
    let stranger = Stranger::connect(&server.url()).await;
    assert_eq!(stranger.record().await["id"], "a");
    a.stop().await;
    assert!(release_of(&stranger.message().await.headers).is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_ordered_outlives_a_crash_of_the_election() {
    let (server, journal) = served();
    // Its own record it need not wait for.
    let (ttl, a_while) = (ms(3000), ms(2000));
    let a = standing("a", server.url(), &journal, leased_for(ttl)).await;
    a.wait_until_leader().await;
    let role = a.role(ROLE);
    role.pause().await.expect("it runs");
    assert!(role.is_leader(), "the term goes on");
    role.crash_election();
    journal.ended(ROLE, 0).await;
    never("it leads after its crash", a_while, || {
        journal.terms(ROLE).len() > 1
    })
    .await;
    assert!(role.status().paused);

    // Orders that find no election are followed by the next one.
    role.crash_election();
    role.resume().await.expect("it is begun anew");
    journal.started(ROLE, 1).await;
    role.crash_election();
    let cordoned = role.cordon().await.expect("it is begun anew");
    // The crash may have ended its term by then.
    assert!(cordoned.is_none_or(|ended| !ended.released));
    assert!(journal.terms(ROLE)[1].end.is_some(), "it has ended");
    never("it leads after its crash", a_while, || {
        journal.terms(ROLE).len() > 2
    })
    .await;
    let log = a.log();
    let told = log.all().into_iter().map(|(_, event)| event);
    let told: Vec<_> = told
        .filter(|event| matches!(event, Event::Paused | Event::Resumed))
        .collect();
    assert_eq!(told, [Event::Paused, Event::Resumed, Event::Paused]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_crashes_is_started_anew_and_goes_on_counting() {
    let (server, journal) = served();
    let a = standing("a", server.url(), &journal, leased_for(ms(10_000))).await;
    journal.started(ROLE, 0).await;
    let operator = Operator::of(&server).await;
    let found = operator.instance("a").await;
    operator.report(&found).await;
    let stats = format!("$SRV.STATS.nats-elect.{}", found.incarnation);
    let started = operator.ask_json(&stats).await["started"].clone();

    a.manager().crash_admin();
    // Its old subscriptions go with it: one answer to each request, from the new ones.
    eventually(SOON, "an answer of the new actor", async || {
        operator.admin.status(&found).await.ok()
    })
    .await;
    assert_eq!(operator.find(1).await, [found]);
    let after = operator.ask_json(&stats).await;
    assert_eq!(after["started"], started);
    assert!(after["endpoints"][0]["num_requests"].as_u64() >= Some(2));
    assert!(a.is_leader());
    assert_eq!(journal.terms(ROLE).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_crashes_again_and_again_is_started_anew_more_and_more_slowly() {
    let (server, journal) = served();
    let a = standing("a", server.url(), &journal, leased_for(ms(10_000))).await;
    journal.started(ROLE, 0).await;
    let operator = Operator::of(&server).await;
    let found = operator.instance("a").await;
    for wait in [ms(200), ms(400), ms(800), ms(1600)] {
        let crashed = Stamp::now();
        a.manager().crash_admin();
        // Answered after it was told to crash: from here on nobody but the next one answers.
        a.manager().probe().live().await.expect("it lives");
        eventually(SOON, "an answer of the new actor", async || {
            operator.admin.status(&found).await.ok()
        })
        .await;
        let took = Stamp::now().since(crashed);
        assert!(took >= wait, "{took:?}, not {wait:?}");
    }
    assert!(a.is_leader());
    assert_eq!(journal.terms(ROLE).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_outlives_its_crashed_election_is_a_reason_to_start_the_process_anew() {
    let server = NatsServer::start().expect("start");
    let (a, release) = leading_deafly(&server).await;
    let probe = a.manager().probe();
    a.role(ROLE).crash_election();
    eventually(SOON, "a reason that names the role", async || {
        // The thread may write the trace of the crash for longer than the probe waits for it.
        let reason = probe.live().await.err()?;
        reason.to_string().contains(ROLE).then_some(())
    })
    .await;
    release.send(()).expect("it waits");
    eventually(SOON, "health", async || probe.live().await.ok()).await;
    let overrun = |event: &Event| matches!(event, Event::HandlerOverrun { .. });
    a.log().wait_for("a word of it", overrun).await;
}

/// A member of the former bucket that is cut off may act by its lease there. Before, the actor that
/// took the place of a crashed one did not know that the bucket had been replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_crashes_in_a_replaced_bucket_waits_for_leases_of_the_former_one() {
    let server = NatsServer::start().expect("start");
    let stranger = Stranger::connect(&server.url()).await;
    let ttl = ms(3000);
    let b = joining(&server.url(), "b", Group::sharded(GROUP, 1, waits()));
    let b = b.member(MemberConfig::default().ttl(ttl)).start().await;
    let b = b.expect("start");
    all_owned(&[&b], 1).await;
    let former = epoch_of(&stranger, "b").await;
    stranger.delete_bucket().await;
    eventually(SOON, "a member of the new bucket", async || {
        // It may not be there yet.
        stranger.jetstream.get_key_value(BUCKET).await.ok()?;
        (epoch_of(&stranger, "b").await != former).then_some(())
    })
    .await;
    b.crash_member();
    never("a unit is owned", ttl * 3, || !group(&b).mine().is_empty()).await;
}
