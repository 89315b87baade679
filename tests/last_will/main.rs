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
        for (name, test) in [
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
        .concat()
        {
            let is_asked = asked.is_empty() || asked.iter().any(|part| name.contains(part));
            if is_asked {
                println!("test {name} ...");
                tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(2)
                    .enable_all()
                    .build()
                    .expect("a runtime")
                    .block_on(test());
                println!("test {name} ... ok");
            }
        }
    }
}
