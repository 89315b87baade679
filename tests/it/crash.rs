//! Leaders that end without a word.

use nats_elect::Overrun;

use crate::support::bucket::Stranger;
use crate::support::child::{ChildInstance, Orders, Work};
use crate::support::clock::Stamp;
use crate::support::instance::standing;
use crate::support::{ROLE, leased_for, ms, recovered, served};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced_when_its_lease_has_run_out() {
    let (server, journal) = served();
    let ttl = ms(3000);
    let mut child = ChildInstance::start(&Orders::new("child", server.url(), ttl), &journal);
    let first = journal.started(ROLE, 0).await;
    let b = standing("b", server.url(), &journal, leased_for(ttl)).await;
    b.wait_until_following("child").await;
    let stranger = Stranger::connect(&server.url()).await;

    let killed = child.kill();
    let left = stranger.message().await;
    assert_eq!(stranger.record().await["id"], "child");
    let second = journal.started(ROLE, 1).await;
    recovered("killed_leader", ttl, killed, &second);
    assert_eq!(second.instance, "b");
    assert!(second.fencing_token > first.fencing_token);
    let record = stranger.record().await;
    assert_eq!(record["id"], "b");
    // By the server's clock, for the last heartbeat may have been late.
    let over = stranger.message().await;
    assert!(over.time + ms(100) >= left.time + ttl, "too early");
    assert!(over.sequence > left.sequence);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_leader_wakes_up_as_no_leader() {
    let (server, journal) = served();
    // While the process stands still nothing in it can end; only what it may do can.
    journal.allow_overlaps();
    let ttl = ms(3000);
    let child = ChildInstance::start(&Orders::new("child", server.url(), ttl), &journal);
    journal.started(ROLE, 0).await;
    let b = standing("b", server.url(), &journal, leased_for(ttl)).await;
    b.wait_until_following("child").await;

    let paused = Stamp::now();
    child.pause();
    let second = journal.started(ROLE, 1).await;
    recovered("paused_leader", ttl, paused, &second);
    assert_eq!(second.instance, "b");
    child.resume();
    let believes = child.resumed_after(second.start.since(paused) / 2).await;
    assert!(!believes, "is_leader() at the first call after the pause");
    let first = journal.ended(ROLE, 0).await;
    assert_eq!(first.instance, "child");
    assert!(b.is_leader());
    assert_eq!(journal.terms(ROLE).len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_with_overrun_exit_ends_before_anyone_else_leads() {
    let (server, journal) = served();
    // So long that its drift margin is more than a busy machine may be late.
    let ttl = ms(20_000);
    let orders = Orders {
        overrun: Overrun::Exit,
        work: Work::Block,
        ..Orders::new("child", server.url(), ttl)
    };
    let mut child = ChildInstance::start(&orders, &journal);
    journal.started(ROLE, 0).await;
    let b = standing("b", server.url(), &journal, leased_for(ttl)).await;
    b.wait_until_following("child").await;

    let stranger = Stranger::connect(&server.url()).await;
    let tape = stranger.tape(ROLE).await;
    let fault = Stamp::now();
    child.step_down();
    let (status, last_act) = child.exited().await;
    let mut renewals = tape.all().into_iter();
    let last = renewals.rfind(|piece| piece.value["id"] == "child");
    let last = last.expect("its last heartbeat");
    assert!(!status.success(), "{status}");
    let second = journal.started(ROLE, 1).await;
    recovered("overrun_exit", ttl, fault, &second);
    assert_eq!(second.instance, "b");
    assert!(last_act < second.start, "it acted when another led already");
    // The drift margin is there for clocks, not for the handler; half of it is for a busy machine.
    let margin = leased_for(ttl).settings().expect("settings").drift_margin();
    assert!(last_act.since(last.at) + margin / 2 < ttl, "too long");
}
