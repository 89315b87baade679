//! Roles and managers that come and go.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use nats_elect::{
    BoxHandler, EndCause, Error, Event, Handoff, Release, RoleHandler, RoleState, StepDown,
    StopOptions, Term, try_handler_fn,
};
use nats_elect_testing::{NatsServer, eventually};

use crate::support::apart::Apart;
use crate::support::bucket::{Stranger, marker_of, release_of};
use crate::support::clock::Stamp;
use crate::support::instance::{
    Instance, Recorded, ending, first_and_second, hand_over, instance, never, standing, step_down,
};
use crate::support::journal::Journal;
use crate::support::logs::{self, records};
use crate::support::{ROLE, SOON, comes_true, leased_for, ms, recovered, served};

/// A server with a leader `a` and a follower `b`.
async fn a_leads_b_follows(ttl: Duration) -> (NatsServer, Journal, Instance, Instance) {
    let (server, journal) = served();
    let join = |id| instance(id, server.url(), &journal).standing(leased_for(ttl));
    let (a, b) = first_and_second(join("a"), join("b")).await;
    (server, journal, a, b)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_steps_down_is_replaced_at_once_and_stands_again() {
    let ttl = ms(10_000);
    let (server, journal, a, b) = a_leads_b_follows(ttl).await;
    let refused = b.role(ROLE).step_down(StepDown::any()).await;
    assert_eq!(refused, Err(Error::NotLeader));

    let fault = Stamp::now();
    step_down(&a.role(ROLE)).await;
    let second = journal.started(ROLE, 1).await;
    recovered("step_down", ttl, fault, &second);
    assert_eq!(second.instance, "b");
    assert!(second.start.since(fault) < ttl / 2, "not at once");
    a.wait_until_following("b").await;
    step_down(&b.role(ROLE)).await;
    let third = journal.started(ROLE, 2).await;
    assert_eq!(third.instance, "a");
    let stranger = Stranger::connect(&server.url()).await;
    assert_eq!(stranger.record().await["id"], "a");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_manager_cancels_its_handlers_and_frees_nothing() {
    let ttl = ms(5000);
    let (server, journal, a, _b) = a_leads_b_follows(ttl).await;
    let stranger = Stranger::connect(&server.url()).await;
    let tape = stranger.tape(ROLE).await;
    let log = a.log();

    let fault = Stamp::now();
    drop(a);
    let first = journal.ended(ROLE, 0).await;
    assert!(first.term().is_cancelled());
    let abandoned = ending(EndCause::Abandoned);
    log.wait_for("its end", abandoned).await;
    let second = journal.started(ROLE, 1).await;
    recovered("dropped_manager", ttl, fault, &second);
    assert_eq!(second.instance, "b");
    let claim = tape
        .wait_for("b's claim", |piece| piece.value["id"] == "b")
        .await;
    let markers = tape
        .all()
        .into_iter()
        .filter(|piece| piece.sequence < claim.sequence && marker_of(&piece.headers).is_some());
    assert_eq!(markers.count(), 0, "something was released");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_told_to_keep_its_record_leaves_it_to_run_out() {
    let ttl = ms(3000);
    let (server, journal, a, _b) = a_leads_b_follows(ttl).await;
    let stranger = Stranger::connect(&server.url()).await;
    let stop = StopOptions::default().release(Release::Keep);
    let fault = Stamp::now();
    a.stop_with(stop).await.expect("stop");
    let first = journal.ended(ROLE, 0).await;
    assert_eq!(stranger.record().await["id"], "a");
    let second = journal.started(ROLE, 1).await;
    recovered("stop_without_release", ttl, fault, &second);
    assert!(first.end() <= second.start);
    // Its last heartbeat was one interval before, or a little more.
    assert!(second.start.since(fault) > ttl / 2, "it was released");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_that_times_out_names_the_role_whose_handler_still_runs() {
    let (server, journal) = served();
    let ttl = ms(2000);
    let apart = Apart::new();
    let (end, blocked) = mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(blocked));
    let a = instance("a", server.url(), &journal)
        .role("metrics", leased_for(ttl))
        .working(ROLE, leased_for(ttl), move |term: Term| {
            let blocked = Arc::clone(&blocked);
            async move {
                term.cancelled().await;
                // Blocks its thread, for as long as the test wants.
                let _ = blocked.lock().expect("no panic").recv();
                Ok(())
            }
        });
    let a = apart.start(a).await;
    journal.started(ROLE, 0).await;
    journal.started("metrics", 0).await;
    // Enough for the other role to be left.
    let timeout = ms(2000);
    let stop = StopOptions::default().timeout(timeout);
    let stopped = a.stop_with(stop).await;
    let Err(Error::StopTimedOut { after, roles }) = stopped else {
        panic!("{stopped:?}");
    };
    assert_eq!((after, roles), (timeout, vec![ROLE.to_owned()]));
    let stranger = Stranger::connect(&server.url()).await;
    let metrics = stranger.find("metrics").await.expect("a message");
    assert!(release_of(&metrics.headers).is_some());
    assert_eq!(stranger.record().await["id"], "a", "its lease runs out");
    drop(end);
    journal.ended(ROLE, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shared_manager_is_stopped_from_several_tasks_that_await_the_same_end() {
    let (server, journal) = served();
    let end = Arc::new(tokio::sync::Notify::new());
    let told = Arc::clone(&end);
    let a = instance("a", server.url(), &journal)
        .working(
            ROLE,
            leased_for(ms(10_000)).stop_budget(ms(4000)),
            move |term: Term| {
                let told = Arc::clone(&told);
                async move {
                    term.cancelled().await;
                    told.notified().await;
                    Ok(())
                }
            },
        )
        .start()
        .await;
    let a = Arc::new(a);
    journal.started(ROLE, 0).await;
    let stopping = |options| {
        let a = Arc::clone(&a);
        async move { a.manager().stop(options).await }
    };
    // A caller that goes away stops the instance all the same.
    let first = tokio::spawn(stopping(StopOptions::default()));
    let role = a.role(ROLE);
    comes_true("the end of the term", async || {
        role.status().state == RoleState::Draining
    })
    .await;
    first.abort();
    let second = tokio::spawn(stopping(StopOptions::default()));
    let third = tokio::spawn(stopping(StopOptions::default()));
    end.notify_one();
    for stopped in [second, third] {
        assert_eq!(stopped.await.expect("no panic"), Ok(()));
    }
    journal.ended(ROLE, 0).await;
    let stranger = Stranger::connect(&server.url()).await;
    assert!(release_of(&stranger.message().await.headers).is_some());
    let again = a.manager().stop(StopOptions::default()).await;
    assert_eq!(again, Ok(()), "it has ended");
    assert_eq!(a.manager().run_until(async {}).await, Ok(()));
    assert_eq!(a.manager().pause().await, Err(Error::Stopped));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_timeout_of_a_stop_holds_after_its_caller_has_gone() {
    let (server, journal) = served();
    let config = leased_for(ms(60_000)).stop_budget(ms(20_000));
    let a = instance("a", server.url(), &journal)
        .working(ROLE, config, |_| std::future::pending())
        .start()
        .await;
    journal.started(ROLE, 0).await;
    let options = StopOptions::default().timeout(ms(200));
    {
        let mut stopping = Box::pin(a.manager().stop(options));
        assert!(futures::poll!(&mut stopping).is_pending());
    }
    let long = StopOptions::default().timeout(ms(60_000));
    let stopped = a.manager().stop(long).await;
    let Err(Error::StopTimedOut { roles, .. }) = stopped else {
        panic!("the first timeout is the end for all: {stopped:?}");
    };
    assert_eq!(roles, [ROLE]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_can_be_awaited_until_it_leads() {
    let ttl = ms(10_000);
    let (_server, journal, a, b) = a_leads_b_follows(ttl).await;
    let (ours, theirs) = (a.role(ROLE), b.role(ROLE));
    ours.wait_until_leading().await.expect("it leads");
    let mut waiting = Box::pin(theirs.wait_until_leading());
    assert!(futures::poll!(&mut waiting).is_pending());
    let down = hand_over(&ours, "b").await;
    assert_eq!(down.handoff, Some(Handoff::Accepted));
    // The claim is seen before the fence record is confirmed.
    let leads = tokio::time::timeout(SOON, waiting).await;
    leads.expect("in time").expect("it leads");
    assert!(theirs.is_leader());
    assert_eq!(journal.started(ROLE, 1).await.instance, "b");

    let mut waiting = Box::pin(ours.wait_until_leading());
    assert!(futures::poll!(&mut waiting).is_pending());
    a.manager().remove_role(ROLE).await.expect("a removal");
    assert_eq!(waiting.await, Err(Error::Stopped));
    assert_eq!(ours.wait_until_leading().await, Err(Error::Stopped));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_of_several_types_are_kept_together() {
    let (server, journal) = served();
    let shared = Arc::new(Recorded::obedient("a", &journal));
    let roles: Vec<(&str, BoxHandler)> = vec![
        ("shared", Arc::clone(&shared).boxed()),
        ("owned", Recorded::obedient("a", &journal).boxed()),
        (
            "failing",
            try_handler_fn(async |_| anyhow::bail!("no work")).boxed(),
        ),
    ];
    let mut joining = instance("a", server.url(), &journal);
    for (role, handler) in roles {
        joining = joining.handler(role, leased_for(ms(10_000)), handler);
    }
    let a = joining.start().await;
    journal.started("shared", 0).await;
    journal.started("owned", 0).await;
    let failed = |event: &Event| {
        let Event::TermEnded { cause, .. } = event else {
            return false;
        };
        *cause == EndCause::Failed
    };
    a.log_of("failing").wait_for("a failed term", failed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_runs_until_its_signal_and_then_stops_gracefully() {
    let (server, journal) = served();
    let (signal, signalled) = tokio::sync::oneshot::channel::<()>();
    let manager = nats_elect::RoleManager::builder()
        .servers(server.url())
        .bucket_auto_create()
        .role(
            ROLE,
            leased_for(ms(5000)),
            Recorded::obedient("a", &journal),
        )
        .start()
        .await
        .expect("start");
    let role = manager.role(ROLE).expect("the role");
    let running = tokio::spawn(async move { manager.run_until(signalled).await });
    journal.started(ROLE, 0).await;
    signal.send(()).expect("a running manager");
    running.await.expect("no panic").expect("a stop");
    assert!(journal.terms(ROLE)[0].end.is_some());
    assert_eq!(role.status().state, RoleState::Stopped);
    assert_eq!(role.wait_for_leader().await, Err(Error::Stopped));
    assert_eq!(role.validate().await, Err(Error::Stopped));
    let stranger = Stranger::connect(&server.url()).await;
    assert!(release_of(&stranger.message().await.headers).is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_are_added_and_removed_while_others_go_on() {
    let (server, journal) = served();
    let ttl = ms(5000);
    let a = standing("a", server.url(), &journal, leased_for(ttl)).await;
    let first = journal.started(ROLE, 0).await;
    let add = async |name: &str| {
        let handler = Recorded::obedient("a", &journal);
        a.manager().add_role(name, leased_for(ttl), handler).await
    };
    let network = add("network").await.expect("a new role");
    a.record(&network);
    journal.started("network", 0).await;
    let again = add("network").await.expect_err("a role of that name");
    assert!(matches!(again, Error::DuplicateRole(_)), "{again}");
    let dotted = add("net.work").await.expect_err("a bad name");
    assert!(matches!(dotted, Error::Name(_)), "{dotted}");
    assert_eq!(a.manager().status().len(), 2);

    a.manager().remove_role("network").await.expect("a role");
    let stranger = Stranger::connect(&server.url()).await;
    let left = stranger.find("network").await.expect("a message");
    assert!(release_of(&left.headers).is_some());
    assert!(journal.terms("network")[0].end.is_some());
    assert_eq!(network.status().state, RoleState::Stopped);
    assert_eq!(network.wait_for_leader().await, Err(Error::Stopped));
    let unknown = Err(Error::UnknownRole("network".into()));
    assert_eq!(a.manager().remove_role("network").await, unknown);
    assert!(a.manager().role("network").is_err());

    add("network").await.expect("a role that was removed");
    let second = journal.started("network", 1).await;
    assert_eq!(second.instance, "a");
    assert!(first.term().is_valid());
    assert_eq!(journal.terms(ROLE).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_of_one_name_are_two_and_the_follower_says_so() {
    let logs = logs::install();
    let (server, journal) = served();
    let ttl = ms(5000);
    let join = || instance("twin", server.url(), &journal).standing(leased_for(ttl));
    let one = join().start().await;
    journal.started(ROLE, 0).await;
    let two = join().start().await;
    two.wait_until_following("twin").await;
    let seen = two.role(ROLE).leader().expect("a leader");
    assert!(!seen.is_self);
    let own = one.role(ROLE).wait_for_leader().await;
    assert!(own.expect("a leader").is_self);
    never("two leaders", ttl + ms(1000), || {
        two.is_leader() || !one.is_leader() || journal.terms(ROLE).len() != 1
    })
    .await;
    let namesake = "another running process has this instance id";
    assert!(!records(&logs.text(), "twin", namesake).is_empty());
    let stranger = Stranger::connect(&server.url()).await;
    let record = stranger.record().await;
    let incarnation = seen.incarnation.expect("an incarnation").to_string();
    assert_eq!(record["incarnation"], incarnation.as_str());

    let fault = Stamp::now();
    drop(one);
    let second = journal.started(ROLE, 1).await;
    recovered("twin_dropped", ttl, fault, &second);
    assert!(two.is_leader());
    assert_ne!(stranger.record().await["incarnation"], incarnation.as_str());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_sees_no_end_of_a_term_that_it_did_not_have() {
    let (server, journal, a, b) = a_leads_b_follows(ms(5000)).await;
    let c = instance("c", server.url(), &journal).standing(leased_for(ms(5000)));
    let instances = [a, b, c.start().await];
    for n in 0..4 {
        let current = journal.started(ROLE, n).await.instance;
        let leader = instances.iter().find(|one| one.id == current);
        let down = leader.expect("the leader").role(ROLE);
        down.step_down(StepDown::any()).await.expect("a leader");
    }
    journal.started(ROLE, 4).await;
    for one in &instances {
        let log = one.log();
        let terms: Vec<_> = journal
            .terms(ROLE)
            .into_iter()
            .filter(|recorded| recorded.instance == one.id)
            .collect();
        let ended = terms
            .iter()
            .filter(|recorded| recorded.end.is_some())
            .count();
        let of = |is_it: fn(&Event) -> bool| log.count(is_it);
        let ends = || of(|event| matches!(event, Event::TermEnded { .. }));
        comes_true("a word of each end", async || ends() >= ended).await;
        assert_eq!(ends(), ended, "{}", one.id);
        let endings = of(|event| matches!(event, Event::TermEnding { .. }));
        assert_eq!(endings, ended, "{}", one.id);
        for (_, event) in log.all() {
            if let Event::TermEnding { fencing_token, .. }
            | Event::TermEnded { fencing_token, .. } = event
            {
                assert!(
                    terms.iter().any(|had| had.fencing_token == fencing_token),
                    "{} had no term {fencing_token}",
                    one.id
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_roles_over_three_instances_fail_over_one_by_one() {
    let (server, journal) = served();
    let ttl = ms(5000);
    let roles: Vec<_> = (0..10).map(|n| format!("role-{n}")).collect();
    let mut instances = Vec::new();
    for id in ["a", "b", "c"] {
        let mut joining = instance(id, server.url(), &journal);
        for role in &roles {
            joining = joining.role(role, leased_for(ttl));
        }
        instances.push(joining.start().await);
    }
    let mut leaders = Vec::new();
    for role in &roles {
        leaders.push(journal.started(role, 0).await);
    }
    // Every third role moves elsewhere; the others notice nothing.
    for (role, first) in roles.iter().zip(&leaders).step_by(3) {
        let leader = instances.iter().find(|one| one.id == first.instance);
        let fault = Stamp::now();
        let handle = leader.expect("its leader").role(role);
        step_down(&handle).await;
        let second = journal.started(role, 1).await;
        recovered(&format!("one_of_ten_{role}"), ttl, fault, &second);
        assert_ne!(second.instance, first.instance);
    }
    for (n, role) in roles.iter().enumerate() {
        let terms = journal.terms(role);
        assert_eq!(terms.len(), if n % 3 == 0 { 2 } else { 1 }, "{role}");
    }

    // An instance goes without a word: its roles move, those of the others stay where they are.
    let current = |role: &String| journal.terms(role).pop().expect("a term");
    let before: Vec<_> = roles.iter().map(current).collect();
    let gone = instances.remove(0);
    let fault = Stamp::now();
    let id = gone.id.clone();
    drop(gone);
    for (role, was) in roles.iter().zip(&before) {
        if was.instance == id {
            let next = eventually(SOON, "a new leader", async || {
                Some(current(role)).filter(|now| now.fencing_token > was.fencing_token)
            })
            .await;
            assert_ne!(next.instance, id);
            recovered(&format!("instance_of_ten_gone_{role}"), ttl, fault, &next);
        }
    }
    for (role, was) in roles.iter().zip(&before) {
        if was.instance != id {
            assert_eq!(current(role).fencing_token, was.fencing_token, "{role}");
            assert!(was.term().is_valid(), "{role}");
        }
    }
    let stranger = Stranger::connect(&server.url()).await;
    for role in &roles {
        assert_eq!(
            stranger.record_of(role).await["id"],
            current(role).instance.as_str()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_of_events_that_is_too_slow_is_told_how_much_it_missed() {
    use futures::StreamExt;
    let (server, journal) = served();
    // No answer in time is no success, and there are many.
    let config = leased_for(ms(60_000)).heartbeat_interval(ms(15_000));
    let a = standing("a", server.url(), &journal, config).await;
    journal.started(ROLE, 0).await;
    let role = a.role(ROLE);
    let mut slow = role.events();
    // One heartbeat each, and more of them than are kept.
    for _ in 0..1200 {
        role.validate().await.expect("a leader");
    }
    let Some(Event::Lagged { missed }) = slow.next().await else {
        panic!("it was not told");
    };
    assert!(missed >= 100, "{missed}");
    assert!(matches!(
        slow.next().await,
        Some(Event::HeartbeatEnded { .. })
    ));
    a.stop().await;
    let rest: Vec<_> = slow.collect().await;
    let stopped = Event::StateChanged {
        from: RoleState::Draining,
        to: RoleState::Stopped,
    };
    assert!(rest.contains(&stopped), "the stream ends with the role");
}
