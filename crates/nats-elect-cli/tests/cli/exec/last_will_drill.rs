//! `exec` with a companion, several slots and a command that is started again and again, killed at
//! any moment.
//!
//! `NATS_ELECT_EXEC_WILLS=100` has it killed so often.

use std::time::Duration;

use nats_elect_testing::{NatsServer, eventually};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::exec::command::Conduct;
use crate::exec::history::{History, Run, stamp};
use crate::exec::instance::Exec;
use crate::exec::slots::judge;
use crate::exec::{SOON, last_will};

const SLOTS: u16 = 2;
/// One more waits.
const MEMBERS: usize = 3;
const LEASE: Duration = Duration::from_secs(15);
const OPTIONS: [&str; 9] = [
    "--last-will",
    "--ttl",
    "15s",
    "--slots",
    "2",
    "--restart",
    "always",
    "--restart-delay",
    "50ms",
];
const SEED: u64 = 75;

/// The last run of each slot.
fn last_runs(history: &History) -> impl Iterator<Item = (u16, Run)> {
    (1..=SLOTS).filter_map(|slot| {
        let runs = history.of_slot(slot).runs();
        Some((slot, runs.into_iter().max_by_key(|run| run.first)?))
    })
}

#[tokio::test]
async fn killed_at_any_moment_each_slot_runs_one_command_and_is_freed_at_once() {
    let server = NatsServer::start().expect("a server");
    let url = server.url();
    let history = History::new();
    let mut chance = StdRng::seed_from_u64(SEED);
    let mut started = 0;
    let mut start = || {
        started += 1;
        // Its command fails again and again.
        let id = format!("node-{started}");
        Exec::start(&id, &url, &history, Conduct::Fail, &OPTIONS)
    };
    let mut members: Vec<_> = (0..MEMBERS).map(|_| start()).collect();
    let mut took = Vec::new();
    for _ in 0..last_will::rounds(6) {
        let mut runs = eventually(SOON, "runs in all slots", async || {
            let runs: Vec<_> = last_runs(&history).collect();
            let lives = |run: &Run| members.iter().any(|member| member.id == run.instance);
            let all = runs.len() == usize::from(SLOTS) && runs.iter().all(|(_, run)| lives(run));
            all.then_some(runs)
        })
        .await;
        let (slot, run) = runs.swap_remove(chance.random_range(0..runs.len()));
        tokio::time::sleep(Duration::from_millis(chance.random_range(0..300))).await;
        let place = members.iter().position(|member| member.id == run.instance);
        let place = place.expect("it lives");
        let at = stamp();
        members[place].kill();
        let next = eventually(SOON, "a run of the next one", async || {
            let of_slot = last_runs(&history).find(|(number, _)| *number == slot);
            of_slot.filter(|(_, next)| next.instance != run.instance)
        })
        .await;
        took.push(Duration::from_nanos(next.1.first - at));
        members[place] = start();
    }
    judge(&history);
    took.sort();
    let at = |share: usize| took[(took.len() - 1) * share / 100];
    let [median, p99, max] = [50, 99, 100].map(at);
    let count = took.len();
    println!("{count} times, median {median:?}, p99 {p99:?}, max {max:?}");
    // Between the end of one guard and the start of the next one nobody can tell of an end.
    let late = took.iter().filter(|after| **after > LEASE / 2).count();
    assert!(late <= 1 + took.len() / 10, "{took:?}");
}
