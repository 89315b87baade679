//! `exec` with a companion, two roles and a command that is started again and again, killed at any
//! moment.
//!
//! `NATS_ELECT_EXEC_WILLS=100` has it killed so often.

use std::time::Duration;

use nats_elect_testing::{NatsServer, eventually};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::exec::command::Conduct;
use crate::exec::history::{History, Run, overlaps, stamp};
use crate::exec::instance::Exec;
use crate::exec::last_will;
use crate::fleet::{SOON, comes_true, lines, output};

const ROLES: [&str; 2] = ["worker", "other"];
/// One more waits.
const MEMBERS: usize = 3;
const LEASE: Duration = Duration::from_secs(15);
const OPTIONS: [&str; 9] = [
    "--last-will",
    "--ttl",
    "15s",
    "--role",
    "other",
    "--restart",
    "always",
    "--restart-delay",
    "50ms",
];
/// The same in nanoseconds. For so long after the end of a run its guard stands still: between its
/// end and the start of the next one nobody can tell of an end.
const RESTART_DELAY: u64 = 50_000_000;

/// The last run of each role.
fn last_runs(history: &History) -> impl Iterator<Item = (&'static str, Run)> {
    ROLES.into_iter().filter_map(|role| {
        let runs = history.of_role(role).runs();
        Some((role, runs.into_iter().max_by_key(|run| run.first)?))
    })
}

/// Without a companion that is ready the lease decides.
async fn companions_are_ready(server: &NatsServer, count: usize) {
    comes_true("companions", async || {
        let told = lines(&output(server, &["candidates", "--json"]));
        let ready = |line: &&serde_json::Value| line["status"]["last_will"] == "ready";
        told.iter().filter(ready).count() >= count
    })
    .await;
}

#[tokio::test]
async fn killed_at_any_moment_each_role_runs_one_command_and_is_freed_at_once() {
    drill(75).await;
}

#[tokio::test]
async fn killed_at_other_moments_each_role_runs_one_command_and_is_freed_at_once() {
    drill(76).await;
}

async fn drill(seed: u64) {
    let server = NatsServer::start().expect("a server");
    let url = server.url();
    let history = History::new();
    let mut chance = StdRng::seed_from_u64(seed);
    let mut started = 0;
    let mut start = || {
        started += 1;
        // Its command fails again and again.
        let id = format!("node-{started}");
        Exec::start(&id, &url, &history, Conduct::Fail, &OPTIONS)
    };
    let mut members: Vec<_> = (0..MEMBERS).map(|_| start()).collect();
    let (mut guarded, mut between) = (Vec::new(), Vec::new());
    while guarded.len() < last_will::rounds(2) as usize {
        companions_are_ready(&server, MEMBERS).await;
        let mut runs = eventually(SOON, "runs of both roles", async || {
            let runs: Vec<_> = last_runs(&history).collect();
            let lives = |run: &Run| members.iter().any(|member| member.id == run.instance);
            let all = runs.len() == ROLES.len() && runs.iter().all(|(_, run)| lives(run));
            all.then_some(runs)
        })
        .await;
        let (role, run) = runs.swap_remove(chance.random_range(0..runs.len()));
        tokio::time::sleep(Duration::from_millis(chance.random_range(0..300))).await;
        let place = members.iter().position(|member| member.id == run.instance);
        let place = place.expect("it lives");
        let at = stamp();
        members[place].kill();
        let next = eventually(SOON, "a run of the next one", async || {
            let of_role = last_runs(&history).find(|(it, _)| *it == role);
            of_role.filter(|(_, next)| next.instance != run.instance)
        })
        .await;
        let took = Duration::from_nanos(next.1.first - at);
        let runs = history.of_role(role).runs();
        let of_killed = runs.iter().filter(|it| it.instance == run.instance);
        let ran = |run: &Run| run.first <= at && at <= run.last + RESTART_DELAY;
        if of_killed.clone().any(ran) {
            guarded.push(took);
        } else {
            between.push(took);
        }
        members[place] = start();
    }
    for role in ROLES {
        assert_eq!(overlaps(&history.of_role(role).runs()), []);
    }
    println!("guarded {guarded:?}, between two guards or just before {between:?}");
    let late = guarded.iter().any(|took| *took > LEASE / 2);
    assert!(!late, "{guarded:?}");
}
