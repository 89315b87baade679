//! Several holders of one role.

use std::io::{Read, Seek};

use nats_elect_testing::eventually;

use crate::ended;
use crate::exec::command::Conduct;
use crate::exec::history::{History, Run, overlaps, stamp};
use crate::exec::instance::{Exec, exec};
use crate::exec::scene;
use crate::fleet::{SOON, output};

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
fn judge(history: &History) {
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
    let mut late = exec("late", &server.url());
    ended(late.args(slots).args(["--try", "--", "true"])).assert_code(75);

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
    let again = ["--slots", "2", "--ttl", "3s", "--on-exit", "resign"];
    let _only = Exec::start("only", &server.url(), &history, Conduct::Fail, &again);
    eventually(SOON, "three runs", async || {
        let of_slot = |slot| history.of_slot(slot).runs().len();
        ((1..=SLOTS).map(of_slot).sum::<usize>() >= 3).then_some(())
    })
    .await;
    judge(&history);
}

#[tokio::test]
async fn another_number_of_slots_is_told_with_what_changes_it() {
    let (server, history) = scene();
    let start = |id, slots| {
        let options = ["--slots", slots, "--ttl", "3s"];
        let stderr = tempfile::tempfile().expect("a file");
        let told = stderr.try_clone().expect("the file");
        let url = server.url();
        let exec = Exec::start_telling(stderr.into(), id, &url, &history, Conduct::Obey, &options);
        (exec, told)
    };
    let _one = start("one", "1");
    run(&history, 1).await;
    let (_two, mut told) = start("two", "2");
    eventually(SOON, "a warning", async || {
        let mut text = String::new();
        told.rewind().expect("the file");
        told.read_to_string(&mut text).expect("the file");
        let warns = text.contains("worker has 1 slots, not 2: `nats-elect group grow worker 2`");
        let waits = text.contains("waiting for worker: others have all slots");
        (warns && waits).then_some(())
    })
    .await;
    output(&server, &["group", "grow", "worker", "2", "--yes"]).assert_code(0);
    run(&history, 2).await;
    judge(&history);
}
