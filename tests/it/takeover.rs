//! Leadership by priority.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use nats_elect::{EndCause, Event, RoleConfig, Takeover};

use crate::support::instance::{
    Instance, Recorded, ending, guest, hand_over, instance, never, standing,
};
use crate::support::journal::Journal;
use crate::support::{ROLE, comes_true, configured, leased_for, ms, served};

const TAKEOVER_ROLES: usize = 20;
/// Each takes a lease.
const ROUNDS: usize = 5;
/// As long as an instance waits before it asks for the role.
const LEASE: Duration = Duration::from_secs(3);
/// Who would ask has asked by then.
const LONG: Duration = Duration::from_secs(7);

fn config(priority: i64, takeover: Takeover) -> RoleConfig {
    let config = leased_for(LEASE).heartbeat_interval(ms(200));
    let config = config.stop_budget(ms(200));
    config.priority(priority).takeover(takeover)
}

/// Joins the role with a priority above the leader's.
async fn challenge(challenger: &Instance, role: &str, priority: i64, journal: &Journal) {
    if challenger.manager().role(role).is_ok() {
        let left = challenger.manager().remove_role(role).await;
        left.expect("it stood");
    }
    let handler = Recorded::obedient(&challenger.id, journal);
    let config = config(priority, Takeover::Cooperative);
    let added = challenger.manager().add_role(role, config, handler).await;
    challenger.record(&added.expect("there is room"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cooperative_takeovers_never_overlap() {
    let (server, journal) = served();
    let a = instance("a", server.url(), &journal).start().await;
    let b = instance("b", server.url(), &journal).start().await;
    let roles: Vec<String> = (0..TAKEOVER_ROLES).map(|i| format!("r{i}")).collect();
    let rounds = roles.iter().map(async |role| {
        let mut preempted = 0;
        for round in 0..=ROUNDS {
            let (challenger, holder) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
            let priority = i64::try_from(round).expect("a few");
            challenge(challenger, role, priority, &journal).await;
            let what = format!("{} leading {role} in round {round}", challenger.id);
            let leads = challenger.role(role);
            comes_true(&what, async || leads.is_leader()).await;
            if round > 0 {
                preempted += holder.log_of(role).count(ending(EndCause::Preempted));
            }
        }
        preempted
    });
    let preempted: usize = join_all(rounds).await.into_iter().sum();
    let mut gaps = Vec::new();
    for role in &roles {
        for pair in journal.terms(role).windows(2) {
            // The journal itself checks that none overlap.
            gaps.push(pair[1].start.since(pair[0].end()));
        }
    }
    gaps.sort();
    eprintln!(
        "TAKEOVERS {preempted} by request in {} rounds, 0 overlaps, median gap {:?}",
        TAKEOVER_ROLES * ROUNDS,
        gaps[gaps.len() / 2]
    );
    // A lease may end for other reasons where the machine is slow.
    assert!(preempted >= TAKEOVER_ROLES * ROUNDS / 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_equal_priorities_nothing_changes_hands() {
    let (server, journal) = served();
    let a = standing(
        "a",
        server.url(),
        &journal,
        config(3, Takeover::Cooperative),
    )
    .await;
    a.wait_until_leader().await;
    let b = instance("b", server.url(), &journal).standing(config(3, Takeover::Cooperative));
    let c = instance("c", server.url(), &journal).standing(config(2, Takeover::Cooperative));
    let d = instance("d", server.url(), &journal).standing(config(9, Takeover::Never));
    let others = [b.start().await, c.start().await, d.start().await];
    for other in &others {
        other.wait_until_following("a").await;
    }
    never("a second term", LONG, || journal.terms(ROLE).len() != 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_keeps_failing_leaves_a_healthy_leader_alone_until_it_is_resumed() {
    let (server, journal) = served();
    let a = standing("a", server.url(), &journal, config(0, Takeover::Never)).await;
    a.wait_until_leader().await;
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = Arc::clone(&broken);
    let preferred = config(10, Takeover::Cooperative).cooldown(ms(50));
    let b = instance("b", server.url(), &journal).working(ROLE, preferred, move |term| {
        let is_broken = is_broken.load(Ordering::SeqCst);
        async move {
            if is_broken {
                return Err("it can't".into());
            }
            term.cancelled().await;
            Ok(())
        }
    });
    let b = b.start().await;
    b.log()
        .wait_for("too many failures", |event| {
            matches!(event, Event::Failing { .. })
        })
        .await;
    let failing = b.role(ROLE).status().failing.expect("it says so");
    assert!(failing > ms(200_000), "{failing:?}");
    a.wait_until_leader().await;
    let preempted = a.log().count(ending(EndCause::Preempted));
    // It may also have found the role free in between.
    assert!(preempted <= 2, "{preempted}");
    never("a healthy term ends", LONG, || {
        a.log().count(ending(EndCause::Preempted)) > preempted
    })
    .await;

    broken.store(false, Ordering::SeqCst);
    b.role(ROLE).resume().await.expect("resumed");
    b.wait_until_leader().await;
    assert_eq!(b.role(ROLE).status().failing, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_handed_over_by_name_is_not_taken_back_by_priority() {
    let (server, journal) = served();
    let preferred = config(10, Takeover::Cooperative).cooldown(ms(50));
    let a = standing("a", server.url(), &journal, preferred).await;
    a.wait_until_leader().await;
    let b = standing("b", server.url(), &journal, config(0, Takeover::Never)).await;
    b.wait_until_following("a").await;
    hand_over(&a.role(ROLE), "b").await;
    b.wait_until_leader().await;
    a.wait_until_following("b").await;
    never("it is taken back", LONG, || {
        b.log().count(ending(EndCause::Preempted)) > 0
    })
    .await;
    b.role(ROLE).resume().await.expect("resumed");
    a.wait_until_leader().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_well_does_not_take_over_until_it_is() {
    let (server, journal) = served();
    let a = standing("a", server.url(), &journal, config(0, Takeover::Never)).await;
    a.wait_until_leader().await;
    let ill = Recorded::obedient("b", &journal);
    ill.set_healthy(false);
    let joining = instance("b", server.url(), &journal);
    let joining = joining.handler(ROLE, config(1, Takeover::Cooperative), ill.clone());
    let b = joining.start().await;
    b.wait_until_following("a").await;
    never("a takeover by the sick", LONG, || {
        journal.terms(ROLE).len() != 1
    })
    .await;
    ill.set_healthy(true);
    let next = journal.started(ROLE, 1).await;
    assert_eq!(next.instance, "b");
    a.log()
        .wait_for("that it agreed", ending(EndCause::Preempted))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_highest_of_several_priorities_leads_in_the_end_and_it_stays_so() {
    let (server, journal) = served();
    let mut instances = Vec::new();
    for (id, priority) in [("a", 1), ("b", 2), ("c", 3)] {
        let joining = instance(id, server.url(), &journal);
        let joining = joining.standing(config(priority, Takeover::Cooperative));
        instances.push(joining.start().await);
    }
    let [a, b, c] = &instances[..] else {
        unreachable!("three were started")
    };
    c.wait_until_leader().await;
    a.wait_until_following("c").await;
    b.wait_until_following("c").await;
    let terms = journal.terms(ROLE).len();
    assert!(terms <= 3, "straight to the top: {terms}");
    never("ping-pong", LONG, || journal.terms(ROLE).len() != terms).await;
}

/// Users whose leader hears no requests, as a version of before would not.
const DEAF_LEADER: &str = r#"
authorization {
  users = [
    { user: deaf, password: p, permissions: { subscribe: { deny: ["nats-elect.>"] } } }
    { user: well, password: p }
  ]
}
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_ignores_requests_keeps_the_role() {
    let server = configured(DEAF_LEADER);
    let journal = Journal::default();
    let a = instance("a", server.url(), &journal)
        .user("deaf", "p")
        .standing(config(0, Takeover::Never));
    let a = a.start().await;
    a.wait_until_leader().await;
    let b = guest("b", server.url(), &journal)
        .user("well", "p")
        .standing(config(1, Takeover::Cooperative));
    let b = b.start().await;
    b.wait_until_following("a").await;
    never("a takeover", LONG, || journal.terms(ROLE).len() != 1).await;
}
