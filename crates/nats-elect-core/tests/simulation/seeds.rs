//! Many seeds, on all processors, with progress; and one seed again.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `SIM_SEEDS=1000000` | so many seeds instead of some thousands |
//! | `SIM_FIRST=17` | begin with this seed |
//! | `SIM_FAULTS=ghosts,processes` | only these kinds of fault |
//! | `SIM_SEED=17` | this seed alone, with all that happens in it, shrunk to what is needed to fail |

use std::env;
use std::fmt::Display;
use std::io::Write;
use std::num::NonZero;
use std::ops::AddAssign;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::faults::Kinds;
use crate::plan::Plan;
use crate::run::run;
use crate::shrink::shrink;

/// Seeds that are run if nothing else is asked for.
const USUAL: u64 = 4_000;
/// After so many violations a run is not worth its time.
pub const ENOUGH: usize = 10;

/// How a run ended.
#[derive(Debug)]
pub struct Ending<T, V> {
    pub violation: Option<V>,
    pub tally: T,
    /// From the end of the faults to what is promised then, in parts of the bound.
    pub recovery: f64,
    pub simulated: Duration,
}

/// What many seeds came to.
#[derive(Debug, Default)]
pub struct Survey<T> {
    pub seeds: u64,
    pub failed: Vec<u64>,
    pub tally: T,
    pub slowest_recovery: f64,
    pub simulated: Duration,
}

/// The time that a survey takes. Nothing in a simulation knows of it.
#[expect(
    clippy::disallowed_methods,
    reason = "shown to people, decides nothing"
)]
pub fn stopwatch() -> Instant {
    Instant::now()
}

/// Runs seeds from `first` on, until so many are done or enough have failed.
pub fn survey<T, V>(
    first: u64,
    count: u64,
    enough: usize,
    progress: bool,
    attempt: impl Fn(u64) -> Ending<T, V> + Sync,
) -> Survey<T>
where
    T: Default + for<'a> AddAssign<&'a T> + Send,
    V: Display,
{
    let next = AtomicU64::new(0);
    let survey = Mutex::new(Survey::default());
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let start = stopwatch();
    let told = Mutex::new(start);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= count || survey.lock().expect("no panic").failed.len() >= enough {
                        return;
                    }
                    let seed = first + i;
                    let ending = attempt(seed);
                    let mut survey = survey.lock().expect("no panic");
                    survey.seeds += 1;
                    survey.tally += &ending.tally;
                    survey.simulated += ending.simulated;
                    survey.slowest_recovery = survey.slowest_recovery.max(ending.recovery);
                    if let Some(violation) = ending.violation {
                        survey.failed.push(seed);
                        if progress {
                            say(&format!("seed {seed}: {violation}"));
                        }
                    }
                    let mut told = told.lock().expect("no panic");
                    if progress && told.elapsed() > Duration::from_secs(10) {
                        *told = stopwatch();
                        report(&survey, count, start.elapsed());
                    }
                }
            });
        }
    });
    survey.into_inner().expect("no panic")
}

fn report<T>(survey: &Survey<T>, count: u64, took: Duration) {
    let seconds = took.as_secs().max(1);
    let rate = survey.seeds / seconds;
    let left = (count - survey.seeds) / rate.max(1);
    let failed = survey.failed.len();
    say(&format!(
        "{} of {count} seeds, {failed} violations, {rate} a second, {left} s to go",
        survey.seeds
    ));
}

/// Past the test runner, which keeps to itself what a passing test prints.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

pub fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    let number = text.replace('_', "").parse();
    Some(number.unwrap_or_else(|_| panic!("{variable}={text}: not a number")))
}

fn kinds() -> Vec<String> {
    let Ok(text) = env::var("SIM_FAULTS") else {
        return Vec::new();
    };
    let kinds: Vec<_> = text.split(',').map(|kind| kind.trim().to_owned()).collect();
    let all = Kinds::of(|_| true);
    for kind in &kinds {
        assert!(
            all.has(kind),
            "SIM_FAULTS={text}: there is no kind {kind}; there are {all:?}"
        );
    }
    kinds
}

/// Shrinks what fails, and tells how to see it again.
fn explain(seed: u64, kinds: &[String]) -> Option<String> {
    let plan = Plan::of_seed(seed, kinds);
    let violation = run(&plan).violation?;
    let (plan, violation) = shrink(&plan, violation);
    let faults = match kinds {
        [] => String::new(),
        kinds => format!("SIM_FAULTS={} ", kinds.join(",")),
    };
    Some(format!(
        "seed {seed}: {violation}\n{plan}again, with all that happens: {faults}SIM_SEED={seed} cargo test --test simulation replay -- --nocapture"
    ))
}

#[cfg(not(feature = "__mutations"))]
#[test]
fn no_seed_breaks_a_promise() {
    let kinds = kinds();
    let count = number("SIM_SEEDS").unwrap_or(USUAL);
    let first = number("SIM_FIRST").unwrap_or(0);
    let asked = env::var_os("SIM_SEEDS").is_some();
    let start = stopwatch();
    let attempt = |seed| run(&Plan::of_seed(seed, &kinds));
    let survey = survey(first, count, ENOUGH, asked, attempt);
    let took = start.elapsed();
    let failures: Vec<_> = survey
        .failed
        .iter()
        .filter_map(|seed| explain(*seed, &kinds))
        .collect();
    let summary = format!(
        "{}{:>14} seconds simulated in {:.1} s\n{:>14.2} of the allowed time to a leader, at worst\n{} seeds, {} violations",
        survey.tally,
        survey.simulated.as_secs(),
        took.as_secs_f64(),
        survey.slowest_recovery,
        survey.seeds,
        survey.failed.len()
    );
    say(&failures.join("\n\n"));
    say(&summary);
    assert!(failures.is_empty(), "promises were broken");
    if kinds.is_empty() && count >= USUAL {
        for (what, count) in survey.tally.all() {
            assert!(count > 0, "nothing was met of: {what}");
        }
    }
}

/// `SIM_SEED=17 cargo test --test simulation replay -- --nocapture`
#[cfg(not(feature = "__mutations"))]
#[test]
fn replay() {
    let Some(seed) = number("SIM_SEED") else {
        return;
    };
    let kinds = kinds();
    let plan = Plan::of_seed(seed, &kinds);
    let violation = run(&plan).violation;
    let plan = match violation {
        Some(violation) => shrink(&plan, violation).0,
        None => plan,
    };
    let violation = crate::run::tell(&plan);
    say(&format!("seed {seed}:\n{plan}"));
    if let Some(violation) = violation {
        panic!("{violation}");
    }
}
