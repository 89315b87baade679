//! Handlers that block the runtime that they share with others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nats_elect::{EndCause, Event, RoleHandler, StepDown, Term, handler_fn};
use nats_elect_testing::NatsServer;

use crate::support::apart::Apart;
use crate::support::instance::{Instance, instance, is_confirmed, never};
use crate::support::journal::Journal;
use crate::support::member::waits;
use crate::support::{ROLE, comes_true, leased_for, ms, served};

const TTL: Duration = ms(5000);
const BLOCKED: Duration = ms(10_000);
/// The first one's handler blocks.
const ROLES: [&str; 5] = ["blocking", "billing", "cleanup", "metrics", "reports"];

/// Tells a handler to block its thread, once, and whether it is at it.
#[derive(Clone, Default)]
struct Block {
    wanted: Arc<AtomicBool>,
    under_way: Arc<AtomicBool>,
}

impl Block {
    async fn lead(self, term: Term) {
        while !term.is_cancelled() {
            if self.wanted.swap(false, Ordering::SeqCst) {
                self.under_way.store(true, Ordering::SeqCst);
                std::thread::sleep(BLOCKED);
                self.under_way.store(false, Ordering::SeqCst);
            }
            tokio::time::sleep(ms(1)).await;
        }
    }

    /// The handler that it tells.
    fn handler(&self) -> impl RoleHandler + use<> {
        let block = self.clone();
        handler_fn(move |term: Term| {
            let block = block.clone();
            async move {
                block.lead(term).await;
                Ok(())
            }
        })
    }

    async fn begin(&self) {
        self.wanted.store(true, Ordering::SeqCst);
        comes_true("a blocked thread", async || self.is_under_way()).await;
    }

    fn is_under_way(&self) -> bool {
        self.under_way.load(Ordering::SeqCst)
    }
}

async fn all_lead(a: &Instance) {
    for role in ROLES {
        comes_true(role, async || a.role(role).is_leader()).await;
    }
}

/// Without a health check of the application's own, nothing of a role needs the runtime that its
/// handler runs on.
async fn costs_no_role_its_term(apart: Apart) {
    let server = NatsServer::start().expect("start");
    let block = Block::default();
    let mut a = instance("a", server.url(), &Journal::default());
    a = a.handler(ROLES[0], leased_for(TTL), block.handler());
    for role in &ROLES[1..] {
        a = a.handler(role, leased_for(TTL), waits());
    }
    let a = apart.start(a).await;
    all_lead(&a).await;
    block.begin().await;
    let before = ROLES.map(|role| a.log_of(role).count(is_confirmed));
    never("a lost role", BLOCKED + TTL, || {
        ROLES.iter().any(|role| !a.role(role).is_leader())
    })
    .await;
    assert!(!block.is_under_way());
    for (role, before) in ROLES.iter().zip(before) {
        assert_eq!(a.log_of(role).endings(), [], "{role}");
        // One each fifth of the ttl; some may be late on a busy machine.
        let beats = a.log_of(role).count(is_confirmed) - before;
        assert!(beats >= 6, "{role}: {beats} heartbeats");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_the_only_worker_costs_no_role_its_term() {
    costs_no_role_its_term(Apart::with_workers(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_a_runtime_of_one_thread_costs_no_role_its_term() {
    costs_no_role_its_term(Apart::on_current_thread()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_health_check_that_a_blocked_runtime_holds_up_ends_the_term_of_none_but_the_blocker() {
    let apart = Apart::with_workers(1);
    let (server, journal) = served();
    let block = Block::default();
    let leading = block.clone();
    let mut a =
        instance("a", server.url(), &journal).working(ROLES[0], leased_for(TTL), move |term| {
            let block = leading.clone();
            async move {
                block.lead(term).await;
                Ok(())
            }
        });
    for role in &ROLES[1..] {
        a = a.role(role, leased_for(TTL));
    }
    let a = apart.start(a).await;
    all_lead(&a).await;
    block.begin().await;
    never("the end of a term that was not in the way", BLOCKED, || {
        ROLES[1..].iter().any(|role| !a.role(role).is_leader())
    })
    .await;
    for role in &ROLES[1..] {
        assert_eq!(a.log_of(role).endings(), [], "{role}");
        let unanswered = |event: &Event| *event == Event::HealthCheckUnanswered;
        assert!(a.log_of(role).count(unanswered) > 0, "{role}");
    }
    assert_eq!(a.log_of(ROLES[0]).endings(), [EndCause::Unhealthy]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_runtime_stands_still_says_that_it_can_not_lead() {
    let apart = Apart::on_current_thread();
    let (server, journal) = served();
    let block = Block::default();
    let leader = instance("leader", server.url(), &journal)
        .handler(ROLE, leased_for(ms(5000)), waits())
        .start()
        .await;
    leader.wait_until_leader().await;
    let stuck = instance("stuck", server.url(), &journal)
        .handler(ROLES[0], leased_for(TTL), block.handler())
        .handler(ROLE, leased_for(ms(5000)), waits());
    let stuck = apart.start(stuck).await;
    stuck.wait_until_following("leader").await;
    comes_true("its own role", async || stuck.role(ROLES[0]).is_leader()).await;
    block.begin().await;
    let refused = leader.role(ROLE).step_down(StepDown::to("stuck")).await;
    assert!(refused.is_err(), "{refused:?}");
    assert!(leader.is_leader());
}
