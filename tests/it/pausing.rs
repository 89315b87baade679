//! Instances that are paused, cordoned and resumed, as for maintenance.

use nats_elect::{
    EndCause, Error, Event, FencingToken, Handoff, Refusal, RoleConfig, RoleState, StepDown,
    StopOptions,
};
use nats_elect_testing::{NatsServer, TcpProxy, eventually};

use crate::support::clock::Stamp;
use crate::support::instance::{Instance, hand_over, instance, never, standing};
use crate::support::journal::Journal;
use crate::support::member::waits;
use crate::support::{ROLE, SOON, comes_true, leased_for, ms, served};

/// Instances of these names, of which the first leads.
async fn fleet<const N: usize>(
    server: &NatsServer,
    journal: &Journal,
    ids: [&str; N],
    config: &RoleConfig,
) -> Vec<Instance> {
    let mut fleet: Vec<Instance> = Vec::new();
    for id in ids {
        let joining = instance(id, server.url(), journal).standing(config.clone());
        let joined = joining.start().await;
        match fleet.first() {
            None => joined.wait_until_leader().await,
            Some(leader) => joined.wait_until_following(&leader.id).await,
        }
        fleet.push(joined);
    }
    fleet
}

fn is_paused(instance: &Instance) -> bool {
    instance.role(ROLE).status().paused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_follower_leaves_the_role_to_the_third_until_it_is_resumed() {
    let (server, journal) = served();
    let fleet = fleet(&server, &journal, ["a", "b", "c"], &leased_for(ms(3000))).await;
    let [a, b, c] = &fleet[..] else { panic!() };
    b.role(ROLE).pause().await.expect("it runs");
    assert!(is_paused(b));
    (b.log()
        .wait_for("a word of it", |event| *event == Event::Paused))
    .await;

    a.role(ROLE).step_down(StepDown::any()).await.expect("led");
    assert_eq!(journal.started(ROLE, 1).await.instance, "c");
    b.wait_until_following("c").await;
    let refused = c.role(ROLE).step_down(StepDown::to("b")).await;
    let (successor, reason) = ("b".to_owned(), Refusal::Paused);
    assert_eq!(refused, Err(Error::SuccessorRefused { successor, reason }));
    assert!(c.is_leader());

    b.role(ROLE).resume().await.expect("it runs");
    assert!(!is_paused(b));
    let down = hand_over(&c.role(ROLE), "b").await;
    assert_eq!(down.handoff, Some(Handoff::Accepted));
    assert_eq!(journal.started(ROLE, 2).await.instance, "b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_leads_while_all_who_are_left_are_paused() {
    let (server, journal) = served();
    let ttl = ms(2000);
    let mut fleet = fleet(&server, &journal, ["a", "b"], &leased_for(ttl)).await;
    let b = fleet.pop().expect("two");
    b.role(ROLE).pause().await.expect("it runs");
    let a = fleet.pop().expect("two");
    // Its record is left to run out.
    let options = StopOptions::default().release(nats_elect::Release::Keep);
    a.stop_with(options).await.expect("stopped");
    never("a paused instance leads", ttl * 3, || {
        journal.terms(ROLE).len() > 1
    })
    .await;
    let status = b.role(ROLE).status();
    assert_eq!((status.state, status.leader), (RoleState::Candidate, None));

    let resumed = Stamp::now();
    b.role(ROLE).resume().await.expect("it runs");
    let next = journal.started(ROLE, 1).await;
    assert!(next.start.since(resumed) < ttl, "at once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cordoned_leader_hands_over_and_goes_on_telling_who_leads() {
    let (server, journal) = served();
    // A cordon is a wish of its own: the role is freed all the same.
    let config = leased_for(ms(15_000)).delete_on_stop(false);
    // An heir that does not answer within a tenth of this is not waited for.
    let config = config.heartbeat_interval(ms(4900)).cooldown(ms(6000));
    let fleet = fleet(&server, &journal, ["a", "b", "c"], &config).await;
    let a = &fleet[0];
    let down = a.role(ROLE).cordon().await.expect("it runs");
    let down = down.expect("it led");
    assert!(journal.terms(ROLE)[0].end.is_some(), "it has ended");
    assert!(down.released);
    assert_eq!(down.handoff, Some(Handoff::Accepted));
    let next = journal.started(ROLE, 1).await;
    a.wait_until_following(&next.instance).await;
    let cordoned = |event: &Event| {
        matches!(
            event,
            Event::TermEnded {
                cause: EndCause::Cordoned,
                released: true,
                ..
            }
        )
    };
    a.log().wait_for("the end of its term", cordoned).await;

    // It is kept out by more than its cool-down.
    assert_eq!(a.role(ROLE).cordon().await, Ok(None), "asked again");
    let leader = fleet.iter().find(|one| one.id == next.instance);
    let refused = leader.expect("one of them").role(ROLE);
    let refused = refused.step_down(StepDown::to("a")).await;
    let (successor, reason) = ("a".to_owned(), Refusal::Paused);
    assert_eq!(
        refused,
        Err(Error::SuccessorRefused {
            successor: successor.clone(),
            reason
        })
    );
    a.role(ROLE).resume().await.expect("it runs");
    let leader = leader.expect("one of them").role(ROLE);
    let back = hand_over(&leader, "a").await;
    assert_eq!(back.handoff, Some(Handoff::Accepted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cordoned_while_it_is_cut_off_lets_its_lease_run_out() {
    let (server, journal) = served();
    let proxy = TcpProxy::start(server.url()).expect("a proxy");
    let a = standing("a", proxy.url(), &journal, leased_for(ms(1500))).await;
    a.wait_until_leader().await;
    let b = standing("b", server.url(), &journal, leased_for(ms(1500))).await;
    b.wait_until_following("a").await;
    proxy.black_hole();
    let down = a.role(ROLE).cordon().await.expect("it runs");
    assert!(!down.expect("it led").released);
    // The journal checks that they do not overlap.
    assert_eq!(journal.started(ROLE, 1).await.instance, "b");
    proxy.restore();
    a.wait_until_following("b").await;
    assert!(is_paused(&a));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_manager_pauses_roles_that_come_later_and_the_last_order_counts() {
    let (server, journal) = served();
    let config = leased_for(ms(3000));
    let a = instance("a", server.url(), &journal)
        .role("first", config.clone())
        .role("second", config.clone())
        .start()
        .await;
    journal.started("first", 0).await;
    journal.started("second", 0).await;
    let ended = a.manager().cordon().await.expect("it runs");
    assert_eq!(ended.len(), 2);
    assert!(ended.values().all(|ended| ended.released), "{ended:?}");
    let paused = |role: &str| a.role(role).status().paused;
    assert!(paused("first") && paused("second"));

    let later = a.manager().add_role("later", config, waits()).await;
    let later = later.expect("added");
    assert!(later.status().paused);
    a.role("second").resume().await.expect("it runs");
    journal.started("second", 1).await;
    never("a paused role is led", ms(1500), || {
        later.is_leader() || a.role("first").is_leader()
    })
    .await;

    a.manager().resume().await.expect("it runs");
    journal.started("first", 1).await;
    comes_true("the later role", async || later.is_leader()).await;
    a.manager().pause().await.expect("it runs");
    assert!(later.is_leader(), "terms go on");
    assert!(later.status().paused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_to_a_role_that_was_removed_say_so() {
    let (server, journal) = served();
    let fleet = fleet(&server, &journal, ["a"], &leased_for(ms(1000))).await;
    let role = fleet[0].role(ROLE);
    fleet[0].manager().remove_role(ROLE).await.expect("removed");
    assert_eq!(role.pause().await, Err(Error::Stopped));
    assert_eq!(role.resume().await, Err(Error::Stopped));
    assert_eq!(role.cordon().await, Err(Error::Stopped));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_down_ends_no_other_term_than_the_one_that_it_expects() {
    let (server, journal) = served();
    let fleet = fleet(&server, &journal, ["a", "b"], &leased_for(ms(5000))).await;
    let role = fleet[0].role(ROLE);
    let term = journal.started(ROLE, 0).await.fencing_token;
    let earlier = FencingToken {
        sequence: term.sequence - 1,
        ..term
    };
    for how in [StepDown::any(), StepDown::to("b")] {
        let refused = role.step_down(how.expecting(earlier)).await;
        let fencing_token = term;
        assert_eq!(refused, Err(Error::UnexpectedTerm { fencing_token }));
        assert!(role.is_leader());
    }
    // It may follow before it has read the keys, and is not ready then.
    let down = eventually(SOON, "a handoff", async || {
        let how = StepDown::to("b").expecting(term);
        role.step_down(how).await.ok()
    })
    .await;
    assert_eq!(down.handoff, Some(Handoff::Accepted));
}
