//! Handlers of every kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nats_elect::{BoxError, EndCause, Event, FencedError, RoleState, StepDown, Term};
use nats_elect_testing::{TcpProxy, eventually};

use crate::support::apart::Apart;
use crate::support::bucket::{Stranger, release_of};
use crate::support::clock::Stamp;
use crate::support::dashboard::{self, Scrape};
use crate::support::instance::{Recorded, instance, never, standing, step_down};
use crate::support::{
    ROLE, SOON, comes_true, leased_for, ms, panic_as_wanted, proxied, recovered, served,
};

/// How a term ended, and whether the role was freed.
async fn end_of(log: &crate::support::instance::EventLog) -> (EndCause, bool) {
    let ended = |event: &Event| matches!(event, Event::TermEnded { .. });
    match log.wait_for("the end of the term", ended).await.1 {
        Event::TermEnded {
            cause, released, ..
        } => (cause, released),
        _ => unreachable!("the event just matched"),
    }
}

/// A handler that ends by itself gives its role up at once.
async fn gives_up_its_role(
    test: &str,
    cause: EndCause,
    end: impl Fn() -> Result<(), BoxError> + Clone + Send + Sync + 'static,
) {
    let (server, journal) = served();
    let ttl = ms(10_000);
    let end_now = Arc::new(tokio::sync::Notify::new());
    let told = Arc::clone(&end_now);
    let a = instance("a", server.url(), &journal)
        .working(ROLE, leased_for(ttl), move |_| {
            let (told, end) = (Arc::clone(&told), end.clone());
            async move {
                told.notified().await;
                end()
            }
        })
        .start()
        .await;
    let first = journal.started(ROLE, 0).await;
    let b = standing("b", server.url(), &journal, leased_for(ttl)).await;
    b.wait_until_following("a").await;

    let fault = Stamp::now();
    end_now.notify_one();
    let second = journal.started(ROLE, 1).await;
    recovered(test, ttl, fault, &second);
    assert_eq!(second.instance, "b");
    assert!(second.start.since(fault) < ttl / 2, "not at once");
    assert!(!first.term().is_valid());
    assert!(first.term().is_cancelled());
    assert_eq!(end_of(&a.log()).await, (cause, true));
    let stranger = Stranger::connect(&server.url()).await;
    assert_eq!(stranger.record().await["id"], "b");
    // It stands again after its cool-down.
    a.wait_until_following("b").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_returns_gives_up_its_role() {
    gives_up_its_role("handler_returned", EndCause::Returned, || Ok(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_fails_gives_up_its_role() {
    gives_up_its_role("handler_failed", EndCause::Failed, || {
        Err("as the test wants".into())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_panics_gives_up_its_role() {
    gives_up_its_role("handler_panicked", EndCause::Panicked, || panic_as_wanted()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_always_fails_stays_out_longer_each_time() {
    let (server, journal) = served();
    let config = leased_for(ms(5000)).cooldown(ms(100));
    let _a = instance("a", server.url(), &journal)
        .working(ROLE, config, |_| async { Err("as the test wants".into()) })
        .start()
        .await;
    journal.started(ROLE, 3).await;
    let terms = journal.terms(ROLE);
    for (n, pair) in terms.windows(2).take(3).enumerate() {
        let out = pair[1].start.since(pair[0].end());
        assert!(out >= ms(100) * (1 << n), "cool-down {n} was {out:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_ignores_its_cancellation_is_aborted_and_the_role_freed() {
    let (server, journal) = served();
    let ttl = ms(10_000);
    let a = instance("a", server.url(), &journal)
        .working(ROLE, leased_for(ttl).stop_budget(ms(500)), |_| {
            std::future::pending()
        })
        .start()
        .await;
    let first = journal.started(ROLE, 0).await;
    let b = standing("b", server.url(), &journal, leased_for(ttl)).await;
    b.wait_until_following("a").await;

    let fault = Stamp::now();
    step_down(&a.role(ROLE)).await;
    assert!(!first.term().is_valid());
    let second = journal.started(ROLE, 1).await;
    recovered("handler_ignored_cancellation", ttl, fault, &second);
    assert_eq!(second.instance, "b");
    assert!(
        second.start.since(fault) < ttl / 2,
        "not after the stop budget"
    );
    assert_eq!(end_of(&a.log()).await, (EndCause::SteppedDown, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_role_is_not_free_before_every_task_of_the_term_has_ended() {
    let (server, journal) = served();
    let ttl = ms(10_000);
    let ended = Arc::new(std::sync::Mutex::new(None));
    let noted = Arc::clone(&ended);
    let a = instance("a", server.url(), &journal)
        .working(ROLE, leased_for(ttl), move |term: Term| {
            let (noted, of_task) = (Arc::clone(&noted), term.clone());
            term.spawn(async move {
                of_task.cancelled().await;
                tokio::time::sleep(ms(300)).await;
                *noted.lock().expect("no panic") = Some(Stamp::now());
            });
            async move {
                term.cancelled().await;
                Ok(())
            }
        })
        .start()
        .await;
    journal.started(ROLE, 0).await;
    let b = standing("b", server.url(), &journal, leased_for(ttl)).await;
    b.wait_until_following("a").await;
    step_down(&a.role(ROLE)).await;
    let second = journal.started(ROLE, 1).await;
    let ended = ended.lock().expect("no panic").expect("the task's end");
    assert!(ended <= second.start);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_its_thread_costs_no_other_role_its_lease_and_is_counted() {
    dashboard::install();
    let id = "overrunning";
    let (server, journal) = served();
    // The blocked handler runs on while another instance leads: that is what fencing is for.
    journal.allow_overlaps();
    let ttl = ms(5000);
    let apart = Apart::new();
    let blocked = Arc::new(AtomicBool::new(false));
    let blocking = Arc::clone(&blocked);
    let block = move |_: Term| {
        let blocking = Arc::clone(&blocking);
        async move {
            while !blocking.load(Ordering::SeqCst) {
                tokio::time::sleep(ms(1)).await;
            }
            while blocking.load(Ordering::SeqCst) {
                std::thread::sleep(ms(1));
            }
            Ok(())
        }
    };
    let a = instance(id, server.url(), &journal)
        .working(ROLE, leased_for(ttl), block)
        .role("metrics", leased_for(ms(10_000)));
    let a = apart.start(a).await;
    let first = journal.started(ROLE, 0).await;
    let metrics = journal.started("metrics", 0).await;
    let b = standing("b", server.url(), &journal, leased_for(ttl)).await;
    b.wait_until_following(id).await;
    blocked.store(true, Ordering::SeqCst);
    // Its own lease is kept too: nobody said that it should end.
    never("an effect of the blocked thread", ttl, || {
        !a.is_leader() || !a.role("metrics").is_leader()
    })
    .await;

    let fault = Stamp::now();
    let role = a.role(ROLE);
    let stepping = tokio::spawn(async move { role.step_down(StepDown::any()).await });
    let over = eventually(SOON, "the end of leadership", async || {
        (!a.is_leader()).then(Stamp::now)
    })
    .await;
    let overrun = |event: &Event| matches!(event, Event::HandlerOverrun { .. });
    a.log().wait_for("the overrun", overrun).await;
    comes_true("the count", async || {
        Scrape::now().value("election_handler_overruns_total", id, Some(("role", ROLE))) >= 1.0
    })
    .await;
    assert!(!first.term().is_valid());
    assert_eq!(a.state(), RoleState::Draining);
    let second = journal.started(ROLE, 1).await;
    recovered("handler_blocked", ttl, fault, &second);
    assert!(over < second.start);
    assert_eq!(second.instance, "b");
    assert!(!stepping.is_finished(), "the handler still runs");
    never("a lead of the blocked one", ttl * 2, || {
        a.is_leader() || first.term().is_valid() || !a.role("metrics").is_leader()
    })
    .await;

    blocked.store(false, Ordering::SeqCst);
    let down = stepping.await.expect("no panic").expect("a step down");
    assert!(!down.released, "the role is another's");
    a.wait_until_following("b").await;
    assert_eq!(journal.terms(ROLE).len(), 2);
    assert_eq!(journal.terms("metrics").len(), 1);
    assert!(metrics.term().is_valid());
    let stranger = Stranger::connect(&server.url()).await;
    assert_eq!(stranger.record().await["id"], "b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_fails_its_health_checks_loses_the_role() {
    let (server, journal) = served();
    let ttl = ms(5000);
    let handler = Recorded::obedient("a", &journal);
    let config = leased_for(ttl).cooldown(ms(300));
    let a = instance("a", server.url(), &journal)
        .handler(ROLE, config, handler.clone())
        .start()
        .await;
    journal.started(ROLE, 0).await;
    let b = standing("b", server.url(), &journal, leased_for(ttl)).await;
    b.wait_until_following("a").await;

    let fault = Stamp::now();
    handler.set_healthy(false);
    let second = journal.started(ROLE, 1).await;
    recovered("health_check", ttl, fault, &second);
    assert_eq!(second.instance, "b");
    let first = journal.ended(ROLE, 0).await;
    assert!(second.start.since(first.end()) < ttl / 2, "not released");
    assert_eq!(end_of(&a.log()).await, (EndCause::Unhealthy, true));
    let failed: Vec<_> = a
        .log()
        .all()
        .into_iter()
        .filter_map(|(_, event)| match event {
            Event::HealthCheckFailed { consecutive } => Some(consecutive),
            _ => None,
        })
        .collect();
    assert!(failed.ends_with(&[1, 2, 3]), "{failed:?}");
    a.wait_until_following("b").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_health_check_that_never_answers_counts_as_failed() {
    struct Stuck(Recorded);
    impl nats_elect::RoleHandler for Stuck {
        async fn lead(&self, term: Term) -> Result<(), BoxError> {
            self.0.lead(term).await
        }
        async fn healthy(&self) -> bool {
            std::future::pending().await
        }
    }
    let (server, journal) = served();
    let a = instance("a", server.url(), &journal)
        .handler(
            ROLE,
            leased_for(ms(3000)),
            Stuck(Recorded::obedient("a", &journal)),
        )
        .start()
        .await;
    assert_eq!(end_of(&a.log()).await.0, EndCause::Unhealthy);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_are_announced_to_everyone_and_a_slow_listener_delays_nothing() {
    struct Slow {
        inner: Recorded,
        calls: Arc<AtomicUsize>,
    }
    impl nats_elect::RoleHandler for Slow {
        async fn lead(&self, term: Term) -> Result<(), BoxError> {
            self.inner.lead(term).await
        }
        async fn on_leader_change(&self, _: Option<nats_elect::LeaderInfo>) {
            self.calls.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
    }
    let (server, journal) = served();
    let ttl = ms(10_000);
    let calls = Arc::new(AtomicUsize::new(0));
    let slow = Slow {
        inner: Recorded::obedient("a", &journal),
        calls: Arc::clone(&calls),
    };
    let a = instance("a", server.url(), &journal)
        .handler(ROLE, leased_for(ttl), slow)
        .start()
        .await;
    journal.started(ROLE, 0).await;
    let listener = Recorded::obedient("b", &journal);
    let b = instance("b", server.url(), &journal)
        .handler(ROLE, leased_for(ttl), listener.clone())
        .start()
        .await;
    let announced = |who: &str| {
        let told = listener.announced();
        told.last()
            .is_some_and(|leader| leader.as_ref().is_some_and(|l| l.instance_id == who))
    };
    comes_true("a's announcement", async || announced("a")).await;
    a.stop().await;
    let second = journal.started(ROLE, 1).await;
    assert_eq!(second.instance, "b");
    comes_true("b's announcement", async || announced("b")).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    b.stop().await;
    let stranger = Stranger::connect(&server.url()).await;
    assert!(release_of(&stranger.message().await.headers).is_some());
}

/// The pattern of `docs/fencing.md`: a call that is under way when NATS goes away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_in_a_store_call_ends_by_itself_in_an_outage() {
    let outages: [fn(&TcpProxy); 2] = [TcpProxy::cut, TcpProxy::black_hole];
    for outage in outages {
        let (_server, proxy, journal) = proxied();
        let (told, mut errors) = tokio::sync::mpsc::unbounded_channel();
        let config = leased_for(ms(3000)).stop_budget(ms(1000));
        let a = instance("a", proxy.url(), &journal)
            .working(ROLE, config, move |term| {
                let told = told.clone();
                async move {
                    let store = term.store();
                    let mut count = 0_u64;
                    while !term.is_cancelled() {
                        count += 1;
                        if let Err(error) = store.put("cursor", count.to_string()).await {
                            let _ = told.send((error.clone(), term.remaining()));
                            return Err(error.into());
                        }
                        tokio::time::sleep(ms(10)).await;
                    }
                    Ok(())
                }
            })
            .start()
            .await;
        a.wait_until_leader().await;
        let store = journal.started(ROLE, 0).await.term().store();
        eventually(SOON, "a write", async || {
            store.get("cursor").await.ok().flatten()
        })
        .await;
        outage(&proxy);
        let (error, left) = tokio::time::timeout(SOON, errors.recv())
            .await
            .expect("it ends by itself")
            .expect("it leads");
        assert!(
            matches!(
                error,
                FencedError::Unavailable { .. } | FencedError::Unconfirmed { .. }
            ),
            "{error:?}"
        );
        // Half of the stop budget was left, but for the time that a busy machine takes.
        assert!(!left.is_zero(), "{error:?}");
        journal.ended(ROLE, 0).await;
        proxy.restore();
    }
}

/// What is written while the handler winds down is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_may_write_while_it_winds_down() {
    let (server, journal) = served();
    let a = instance("a", server.url(), &journal)
        .working(ROLE, leased_for(ms(10_000)), |term| async move {
            term.cancelled().await;
            for count in 0..10 {
                term.store().put("cursor", count.to_string()).await?;
            }
            Ok(())
        })
        .start()
        .await;
    a.wait_until_leader().await;
    let store = journal.started(ROLE, 0).await.term().store();
    step_down(&a.role(ROLE)).await;
    let entry = store.get("cursor").await.expect("read").expect("written");
    assert_eq!(entry.value, b"9");
}
