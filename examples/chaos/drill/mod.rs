//! A drill: real instances, a real cluster, faults at random, and a verdict on what the instances
//! wrote down.
//!
//! Where to look first: `instance.rs` is what each process does, `nemesis.rs` what is done to them,
//! `checker.rs` what must be true of the histories afterwards. `onlooker.rs` runs `nats-elect serve`
//! beside it, `asking.rs` asks it, and `view.rs` is what must be true of what that shows. `shards` is
//! the sharded group that the instances have beside their roles.
//! What all examples with faults share is in `examples/drill`.

pub mod admin;
pub mod asking;
pub mod board;
pub mod checker;
pub mod disk;
pub mod fault;
pub mod fleet;
pub mod gaps;
pub mod instance;
#[cfg(test)]
mod made_up;
#[cfg(test)]
mod made_up_view;
pub mod nemesis;
pub mod onlooker;
pub mod plan;
pub mod probe;
pub mod run;
pub mod schedule;
pub mod shards;
pub mod shown;
pub mod summary;
pub mod timeline;
pub mod view;
pub mod watch;

pub use ::drill::Problem;

/// Writes a line for people. A reader that went away is no reason to fail.
pub fn say(line: &str) {
    use std::io::Write as _;
    if cfg!(test) {
        // Shown only if the test fails.
        println!("{line}");
        return;
    }
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// One thread for what goes on beside the drill.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
}

/// Seconds with one digit.
pub fn seconds(duration: std::time::Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
