//! Processes that die, and companions that release their roles.
//!
//! These tests are a program of their own: its processes must call `last_will::init` first in
//! `main`, which the test harness does not. `cargo test --test last_will NAME` runs some of them.
//! `LAST_WILL_ROUNDS=100` has each of them happen so often, `LAST_WILL_NODE_ROUNDS=10` the loss of a
//! node of NATS together with a process. Cargo builds tests to unwind: docs/failover.md has the
//! command for a real `panic = "abort"`.
#![cfg_attr(not(unix), allow(unused))]

#[cfg(unix)]
mod bound;
#[cfg(unix)]
mod cgroup;
#[cfg(unix)]
mod circumstances;
#[cfg(unix)]
#[allow(dead_code)]
#[path = "../it/support/clock.rs"]
mod clock;
#[cfg(unix)]
mod clusters;
#[cfg(unix)]
mod companions;
#[cfg(unix)]
mod copies;
#[cfg(unix)]
#[allow(dead_code)]
#[path = "../it/support/credentials.rs"]
mod credentials;
#[cfg(unix)]
mod ends;
#[cfg(unix)]
mod groups;
#[cfg(unix)]
mod logins;
#[cfg(unix)]
mod losses;
#[cfg(unix)]
mod notes;
#[cfg(unix)]
mod privileges;
#[cfg(unix)]
mod secrets;
#[cfg(unix)]
mod sockets;
#[cfg(unix)]
mod stage;
#[cfg(unix)]
mod took;
#[cfg(unix)]
#[allow(dead_code)]
#[path = "../it/support/user.rs"]
mod user;
#[cfg(unix)]
mod victim;

#[cfg(unix)]
use std::panic::catch_unwind;
#[cfg(unix)]
use std::sync::Mutex;

#[cfg(unix)]
use stage::SOON;

fn main() {
    nats_elect::last_will::init();
    #[cfg(unix)]
    {
        // It has inherited the orders of the victim that started it.
        if bound::is_one() {
            return bound::run();
        }
        if victim::is_one() {
            return victim::run();
        }
        // As the test harness understands them.
        if std::env::args().any(|it| it == "--list" || it == "--ignored") {
            return;
        }
        let panics = if cfg!(panic = "abort") {
            "abort"
        } else {
            "unwind"
        };
        println!("panics {panics}");
        let asked: Vec<String> = std::env::args()
            .skip(1)
            .filter(|argument| !argument.starts_with('-'))
            .collect();
        let tests = [
            ends::TESTS,
            companions::TESTS,
            groups::TESTS,
            copies::TESTS,
            losses::TESTS,
            secrets::TESTS,
            logins::TESTS,
            privileges::TESTS,
            circumstances::TESTS,
            clusters::TESTS,
        ]
        .concat();
        let is_asked = |name: &str| asked.is_empty() || asked.iter().any(|it| name.contains(it));
        let tests = tests.into_iter().filter(|(name, _)| is_asked(name));
        side_by_side(tests.collect());
    }
}

/// Runs tests, as many at a time as the test harness would; one at a time where each is measured.
#[cfg(unix)]
fn side_by_side(tests: Vec<(&'static str, ends::Test)>) {
    let threads = if took::is_measured() {
        1
    } else {
        std::env::var("RUST_TEST_THREADS").map_or(8, |it| it.parse().expect("a number"))
    };
    let (waiting, failed) = (Mutex::new(tests.into_iter()), Mutex::new(Vec::new()));
    let next = || waiting.lock().expect("no panic").next();
    let run = || {
        while let Some((name, test)) = next() {
            println!("test {name} ...");
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime");
            match catch_unwind(|| runtime.block_on(test())) {
                Ok(()) => println!("test {name} ... ok"),
                Err(_) => failed.lock().expect("no panic").push(name),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(run);
        }
    });
    let failed = failed.into_inner().expect("no panic");
    assert!(failed.is_empty(), "failed: {failed:#?}");
}
