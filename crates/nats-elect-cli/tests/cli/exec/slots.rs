//! Several holders of one role.

use std::process::Stdio;

use nats_elect_testing::eventually;

use crate::exec::command::Conduct;
use crate::exec::history::{History, Run, overlaps, stamp};
use crate::exec::instance::{Exec, exec};
use crate::exec::{SOON, scene};

const SLOTS: u16 = 2;

/// The runs of all slots that were alive within the last moments.
fn running(history: &History) -> Vec<Run> {
    let last = |slot| {
        let runs = history.of_slot(slot).runs();
        runs.into_iter().max_by_key(|run| run.last)
    };
    let now = stamp();
    let alive = (1..=SLOTS).filter_map(last);
    alive
        .filter(|run| now.saturating_sub(run.last) < 100_000_000)
        .collect()
}

/// Waits until so many run, for so long that another one would have been seen.
async fn run(history: &History, number: usize) -> Vec<Run> {
    eventually(SOON, "runs in slots", async || {
        let runs = running(history);
        let are_old = runs.iter().all(|run| run.last - run.first > 300_000_000);
        (runs.len() == number && are_old).then_some(runs)
    })
    .await
}

/// No slot ran twice at a time, and no instance ran in two slots at a time.
pub fn judge(history: &History) {
    let runs: Vec<_> = (1..=SLOTS)
        .map(|slot| history.of_slot(slot).runs())
        .collect();
    for of_slot in &runs {
        assert_eq!(overlaps(of_slot), []);
    }
    for one in &runs[0] {
        for other in &runs[1] {
            let at_once = one.first <= other.last && other.first <= one.last;
            assert!(
                one.instance != other.instance || !at_once,
                "{one:?}, {other:?}"
            );
        }
    }
}

#[tokio::test]
async fn as_many_instances_run_as_there_are_slots_each_in_one_and_the_next_one_takes_over() {
    let (server, history) = scene();
    let slots = ["--slots", "2", "--ttl", "6s"];
    let start = |id| Exec::start(id, &server.url(), &history, Conduct::Obey, &slots);
    let mut all: Vec<_> = ["a", "b", "c", "d"].map(start).into();
    let first = run(&history, 2).await;
    let held = exec("late", &server.url())
        .args(["--slots", "2", "--ttl", "6s", "--try", "--", "true"])
        .stderr(Stdio::null())
        .status();
    assert_eq!(held.expect("exec").code(), Some(75));

    let gone = first[0].instance.clone();
    let at = all
        .iter()
        .position(|it| it.id == gone)
        .expect("it was started");
    all.swap_remove(at).kill();
    let second = eventually(SOON, "another holder", async || {
        let runs = running(&history);
        let others = runs.iter().all(|run| run.instance != gone);
        (runs.len() == 2 && others).then_some(runs)
    })
    .await;
    assert!(second.iter().any(|run| run.instance == first[1].instance));
    judge(&history);
}

#[tokio::test]
async fn an_instance_alone_leads_one_slot_and_stands_again_when_that_term_is_over() {
    let (server, history) = scene();
    let again = ["--slots", "2", "--on-exit", "resign"];
    let _only = Exec::start("only", &server.url(), &history, Conduct::Fail, &again);
    eventually(SOON, "three runs", async || {
        let of_slot = |slot| history.of_slot(slot).runs().len();
        ((1..=SLOTS).map(of_slot).sum::<usize>() >= 3).then_some(())
    })
    .await;
    judge(&history);
}

#[test]
fn slots_and_a_takeover_exclude_each_other() {
    let ended = exec("only", "nats://127.0.0.1:1")
        .args(["--slots", "2", "--takeover", "cooperative", "--", "true"])
        .stderr(Stdio::null())
        .status();
    assert_eq!(ended.expect("exec").code(), Some(2));
}
