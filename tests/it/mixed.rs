//! Candidates of the Go library and ours on one key. What holds, and what does not, is in
//! `docs/mixed-fleets.md`.
//!
//! Each handover prints a line `MIXED <what> lease=<ms> …`.

use std::time::Duration;

use nats_elect::{EndCause, Event};
use serde_json::json;

use crate::support::bucket::Stranger;
use crate::support::clock::Stamp;
use crate::support::foreign::POLL;
use crate::support::instance::{ending, first_and_second, instance, never};
use crate::support::stage::{
    FOREIGN_DELAY, FOREIGN_HEARTBEAT, FOREIGN_LOOK, LEASE, SLACK, Stage, candidate, is_ours, tell,
};
use crate::support::{ROLE, comes_true, leased_for, ms, served};

/// How soon, at the earliest, the lease of a leader ends that stopped renewing it, be it ours or a
/// foreign one.
const LAPSE: Duration = ms(2400);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_leader_is_known_and_respected_for_the_buckets_max_age() {
    let stage = Stage::set().await;
    let go = candidate("go")
        .priority(1)
        .field("version", json!({"of": ["the", "future"]}));
    let go = stage.foreign(go).await;
    go.reigned(0).await;
    // Its lease counts, not our shorter one; and a higher priority is no reason to take over.
    let a = stage
        .ours("a")
        .standing(leased_for(LEASE / 3).priority(10))
        .start()
        .await;
    a.wait_until_following("go").await;
    let leader = a.role(ROLE).leader().expect("a leader");
    assert_eq!(
        (leader.priority, leader.incarnation, leader.is_self),
        (1, None, false)
    );
    let claimed = || stage.tape.all().iter().any(is_ours);
    never("a claim", LEASE * 2, || claimed() || !go.believes()).await;

    let fault = go.crash();
    let first = stage.journal.started(ROLE, 0).await;
    let after = first.start.since(fault);
    tell("foreign-crash-to-ours", &[("after", after)]);
    stage.assert_a_lease_was_watched(first.start);
    assert!(after <= LEASE * 2 + SLACK, "{after:?}");
    assert_eq!(stage.overlap(&go), Duration::ZERO);
    stage.assert_no_blind_write_of_ours();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_candidate_understands_our_record_and_takes_over_after_a_crash() {
    let stage = Stage::set().await;
    let config = leased_for(LEASE).priority(7).meta("region", "eu-west-1");
    let a = stage.ours("a").standing(config).start().await;
    let first = stage.journal.started(ROLE, 0).await;
    let go = stage.foreign(candidate("go")).await;
    let record = go.wait_until_following("a").await;
    assert_eq!(record.priority, Some(7));
    assert_eq!(record.meta.expect("meta")["region"], "eu-west-1");
    assert_eq!(
        record.token,
        first.term().lease_token().expose().to_string()
    );
    never("a claim", LEASE * 2, || go.believes() || !a.is_leader()).await;

    let fault = Stamp::now();
    drop(a);
    let reign = go.reigned(0).await;
    let after = reign.start.since(fault);
    tell("our-crash-to-foreign", &[("after", after)]);
    assert!(after <= LEASE + FOREIGN_DELAY + SLACK, "{after:?}");
    assert!(!first.term().is_valid());
    assert_eq!(stage.overlap(&go), Duration::ZERO);
    stage.assert_no_blind_write_of_ours();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recreated_bucket_is_claimed_by_a_foreign_candidate_while_our_lease_lasts_until_our_next_heartbeat()
 {
    let stage = Stage::set().await;
    let heartbeat = ms(500);
    let config = leased_for(LEASE).heartbeat_interval(heartbeat);
    let a = stage.ours("a").standing(config).start().await;
    stage.journal.started(ROLE, 0).await;
    // So that its next look comes after one of our heartbeats, and well before the one after that.
    never("a change", heartbeat / 2, || !a.is_leader()).await;
    let go = stage.foreign(candidate("go")).await;
    go.wait_until_following("a").await;
    never("a change", POLL * 4 / 5, || !a.is_leader()).await;

    let fault = Stamp::now();
    stage.stranger.replace_bucket().await;
    let reign = go.reigned(0).await;
    let first = stage.journal.ended(ROLE, 0).await;
    let overlap = stage.overlap(&go);
    tell(
        "recreated-bucket-to-foreign",
        &[("after", reign.start.since(fault)), ("overlap", overlap)],
    );
    assert!(
        overlap < LEASE / 2,
        "not at our next heartbeat: {overlap:?}"
    );
    // It did not wait for the lease; ours, which knew the old bucket, does.
    assert!(reign.start.since(fault) <= FOREIGN_LOOK + SLACK);
    a.wait_until_following("go").await;
    assert!(!first.term().is_valid());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ours_stops_as_soon_as_a_foreign_candidate_of_higher_priority_takes_over() {
    let stage = Stage::set().await;
    let join = |id| stage.ours(id).standing(leased_for(LEASE).priority(5));
    let (a, b) = first_and_second(join("a"), join("b")).await;

    let go = stage.foreign(candidate("go").priority(10)).await;
    let reign = go.reigned(0).await;
    let first = stage.journal.ended(ROLE, 0).await;
    let overlap = stage.overlap(&go);
    tell("foreign-takeover-of-ours", &[("overlap", overlap)]);
    assert!(overlap < LEASE / 2, "not at the sight of it: {overlap:?}");
    let superseded = ending(EndCause::Superseded);
    a.log().wait_for("its end", superseded).await;
    // It is left in peace, and keeps its lead for as long as it renews.
    for one in [&a, &b] {
        one.wait_until_following("go").await;
    }
    assert!(!a.is_leader() && !first.term().is_valid());
    let back = || stage.journal.terms(ROLE).len() > 1 || go.reigns().len() > 1;
    never("another change", LEASE * 2, || back() || !go.believes()).await;

    go.stop().await;
    let second = stage.journal.started(ROLE, 1).await;
    assert!(second.start > reign.start && second.fencing_token > first.fencing_token);
    stage.assert_no_blind_write_of_ours();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_candidate_of_equal_or_lower_priority_leaves_ours_alone() {
    let stage = Stage::set().await;
    let a = stage
        .ours("a")
        .standing(leased_for(LEASE).priority(5))
        .start()
        .await;
    stage.journal.started(ROLE, 0).await;
    let equal = stage.foreign(candidate("equal").priority(5)).await;
    let lower = stage.foreign(candidate("lower").priority(4)).await;
    for one in [&equal, &lower] {
        one.wait_until_following("a").await;
    }
    never("a change", LEASE * 2, || {
        !a.is_leader() || equal.believes() || lower.believes()
    })
    .await;
    assert!(stage.tape.all().iter().all(is_ours));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_delete_while_we_lead_is_a_forced_failover() {
    let stage = Stage::set().await;
    let join = |id| stage.ours(id).standing(leased_for(LEASE));
    let (a, _b) = first_and_second(join("a"), join("b")).await;
    let go = stage.foreign(candidate("go")).await;
    go.wait_until_following("a").await;

    let fault = Stamp::now();
    go.delete_key().await;
    let first = stage.journal.ended(ROLE, 0).await;
    assert!(
        first.end().since(fault) < LEASE / 2,
        "not at the sight of it"
    );
    let why = |event: &Event| match event {
        Event::TermEnding { cause, .. } => {
            matches!(cause, EndCause::Deleted | EndCause::Superseded)
        }
        _ => false,
    };
    a.log().wait_for("its end", why).await;
    let ours = || stage.journal.terms(ROLE).len() > 1;
    comes_true("another leader", async || go.believes() || ours()).await;
    let to = if go.believes() { "foreign" } else { "ours" };
    let overlap = stage.overlap(&go);
    tell(
        &format!("foreign-delete-of-ours-to-{to}"),
        &[("overlap", overlap)],
    );
    assert!(overlap < LEASE / 2, "{overlap:?}");
    stage.assert_no_blind_write_of_ours();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_leader_that_slept_past_its_lease_does_not_disturb_ours() {
    let stage = Stage::set().await;
    let go = stage.foreign(candidate("go")).await;
    go.reigned(0).await;
    let a = stage.ours("a").standing(leased_for(LEASE)).start().await;
    a.wait_until_following("go").await;

    go.freeze();
    let first = stage.journal.started(ROLE, 0).await;
    assert!(go.believes());
    let thawed = Stamp::now();
    go.thaw();
    comes_true("its insight", async || !go.believes()).await;
    let end = go.reigns()[0].end.expect("an end");
    tell(
        "foreign-slept",
        &[("believed-on-after-waking", end.since(thawed))],
    );
    assert!(stage.overlap(&go) > FOREIGN_HEARTBEAT, "it noticed at once");
    go.wait_until_following("a").await;
    never("an end of our term", LEASE, || !a.is_leader()).await;
    let since = stage
        .tape
        .all()
        .into_iter()
        .skip_while(|piece| !is_ours(piece));
    assert!(
        since.into_iter().all(|piece| is_ours(&piece)),
        "it wrote over ours"
    );
    assert!(first.term().is_valid());
    stage.assert_no_blind_write_of_ours();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_role_goes_back_and_forth_without_two_leaders() {
    let stage = Stage::set().await;
    let mut go = stage.foreign(candidate("go-0")).await;
    for round in 0..6 {
        let reign = go.reigned(0).await;
        let id = format!("ours-{round}");
        let ours = stage.ours(&id).standing(leased_for(LEASE)).start().await;
        let idle = stage.ours("idle").standing(leased_for(LEASE)).start().await;
        ours.wait_until_following(&format!("go-{round}")).await;
        // Each of the four ways in turn.
        let begin = if round % 2 == 0 {
            go.stop().await
        } else {
            go.crash()
        };
        let term = stage.journal.started(ROLE, round).await;
        stage.assert_a_lease_was_watched(term.start);
        // Whoever deletes a key may not be who led: that is waited for as for a lease.
        let after = term.start.since(begin);
        assert!(round % 2 == 1 || after >= LEASE, "too early: {after:?}");
        assert!(after <= LEASE * 2 + SLACK, "{after:?}");
        let next = stage.foreign(candidate(&format!("go-{}", round + 1))).await;
        next.wait_until_following(&term.instance).await;
        let (leader, other) = if term.instance == id {
            (ours, idle)
        } else {
            (idle, ours)
        };
        other.stop().await;
        let middle = Stamp::now();
        if round % 4 < 2 {
            leader.stop().await;
        } else {
            drop(leader);
        }
        let back = next.reigned(0).await;
        // What is released is taken at the next look at the key.
        let bound = if round % 4 < 2 {
            FOREIGN_LOOK
        } else {
            LEASE + FOREIGN_DELAY
        };
        let after = back.start.since(middle);
        assert!(after <= bound + SLACK, "{after:?}");
        tell(
            &format!("round-{round}"),
            &[
                ("to-ours", term.start.since(begin)),
                ("to-foreign", back.start.since(middle)),
            ],
        );
        assert!(reign.start < term.start && term.start < back.start);
        assert_eq!(stage.overlap(&go) + stage.overlap(&next), Duration::ZERO);
        go = next;
    }
    stage.assert_no_blind_write_of_ours();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_is_migrated_one_instance_after_the_other() {
    let stage = Stage::set().await;
    let (first, second) = (candidate("go-1"), candidate("go-2"));
    let leader = stage.foreign(first).await;
    leader.reigned(0).await;
    let follower = stage.foreign(second).await;
    follower.wait_until_following("go-1").await;

    follower.crash(); // stopped, without `DeleteKey`
    let a = stage.ours("a").standing(leased_for(LEASE)).start().await;
    a.wait_until_following("go-1").await;
    assert!(leader.believes() && stage.journal.terms(ROLE).is_empty());
    let b = stage.ours("b").standing(leased_for(LEASE)).start().await;
    b.wait_until_following("go-1").await;
    let stopped = leader.crash();
    let first = stage.journal.started(ROLE, 0).await;
    stage.assert_a_lease_was_watched(first.start);
    tell(
        "migration",
        &[("without-a-leader", first.start.since(stopped))],
    );
    assert_eq!(stage.overlap(&leader), Duration::ZERO);

    // From now on a deploy costs no lease.
    let (leading, other) = if first.instance == "a" {
        (a, b)
    } else {
        (b, a)
    };
    // Of two that found the role free at once, the one that came too late waits for a lease.
    comes_true("a successor", async || {
        stage.stranger.record().await["heirs"][0].is_string()
    })
    .await;
    let fault = Stamp::now();
    leading.stop().await;
    let next = stage.journal.started(ROLE, 1).await;
    assert_eq!(next.instance, other.id);
    assert!(next.start.since(fault) < LAPSE, "not at once");
    stage.assert_no_blind_write_of_ours();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_bucket_of_ours_a_foreign_candidate_takes_over_what_is_released_alone() {
    let (server, journal) = served();
    let join = |id| instance(id, server.url(), &journal).standing(leased_for(LEASE));
    let a = join("a").start().await;
    journal.started(ROLE, 0).await;
    let stranger = Stranger::connect(&server.url()).await;
    let stream = stranger.stream().await;
    let config = &stream.cached_info().config;
    assert_eq!(
        (config.max_age, config.subject_delete_marker_ttl),
        (Duration::ZERO, None)
    );
    let tape = stranger.tape(ROLE).await;
    let go = candidate("go").start(&stranger).await;
    go.wait_until_following("a").await;
    a.stop().await;
    go.reigned(0).await;
    // Its lease is ours here, for its record tells none.
    let b = join("b").start().await;
    b.wait_until_following("go").await;
    go.crash();
    let second = journal.started(ROLE, 1).await;
    let mut records = tape.all().into_iter();
    let last = records.rfind(|piece| piece.value["id"] == "go");
    let since = second.start.since(last.expect("its last record").at);
    // The tape may be read later than by the claimant.
    assert!(since + FOREIGN_HEARTBEAT >= LEASE, "too early: {since:?}");

    // Nothing expires, so it waits for ever where one of ours crashed. Another of ours does not.
    let other = candidate("other").start(&stranger).await;
    other.wait_until_following("b").await;
    drop(b);
    never("its leadership", LEASE * 2, || other.believes()).await;
    let _c = join("c").start().await;
    journal.started(ROLE, 2).await;
    assert_eq!(go.overlap(&journal.terms(ROLE)), Duration::ZERO);
}
