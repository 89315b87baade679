//! What the commands wrote down, and the judgement on it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nats_elect_testing::eventually;
use rustix::time::{ClockId, clock_gettime};

use crate::fleet::SOON;

/// The clock that all processes of a machine share, in nanoseconds.
pub fn stamp() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    u64::try_from(now.tv_sec).expect("a time after the start") * 1_000_000_000
        + u64::try_from(now.tv_nsec).expect("nanoseconds")
}

/// What all commands of a test wrote, or those of one role or slot.
pub struct History {
    folder: Arc<tempfile::TempDir>,
    path: PathBuf,
}

/// One run of the command, with all of its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The term's fencing token and the process.
    pub name: String,
    pub instance: String,
    pub first: u64,
    pub last: u64,
}

impl History {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("history");
        let folder = Arc::new(folder);
        Self { folder, path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The part of this history that the commands of one slot wrote.
    pub fn of_slot(&self, slot: u16) -> Self {
        self.of_role(&format!("worker-{slot}"))
    }

    /// The part of this history that the commands of one role wrote.
    pub fn of_role(&self, role: &str) -> Self {
        let path = match role {
            "worker" => self.path.clone(),
            role => format!("{}-{role}", self.path.display()).into(),
        };
        let folder = Arc::clone(&self.folder);
        Self { folder, path }
    }

    /// All runs so far, in the order of their starts.
    pub fn runs(&self) -> Vec<Run> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        runs_of(complete)
    }

    /// The last run, if it was alive within the last moments.
    pub fn running(&self) -> Option<Run> {
        let last = self.runs().into_iter().max_by_key(|run| run.last)?;
        (stamp() - last.last < 100_000_000).then_some(last)
    }

    /// Waits until an instance has run the command for so long that another one would have been
    /// seen, and it still runs.
    pub async fn run_of(&self, id: &str) -> Run {
        let what = format!("a command of {id} in {}", self.path.display());
        eventually(SOON, &what, async || {
            let run = self.running()?;
            (run.instance == id && run.last - run.first > 100_000_000).then_some(run)
        })
        .await
    }

    /// Waits until nothing of this run is alive any more: it wrote nothing for longer than a busy
    /// machine stands still.
    pub async fn over(&self, run: &Run) -> Run {
        let find = || self.runs().into_iter().find(|one| one.name == run.name);
        eventually(SOON, "the end of the command", async || {
            let before = find()?;
            tokio::time::sleep(Duration::from_millis(600)).await;
            find().filter(|after| after.last == before.last)
        })
        .await
    }
}

fn runs_of(text: &str) -> Vec<Run> {
    let mut runs = BTreeMap::<&str, Run>::new();
    for line in text.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let [at, name, instance, _] = words[..] else {
            panic!("no line of a history: {line:?}");
        };
        let at: u64 = at.parse().expect("a stamp");
        let run = runs.entry(name).or_insert_with(|| Run {
            name: name.to_owned(),
            instance: instance.to_owned(),
            first: at,
            last: at,
        });
        run.first = run.first.min(at);
        run.last = run.last.max(at);
    }
    let mut runs: Vec<_> = runs.into_values().collect();
    runs.sort_by_key(|run| run.first);
    runs
}

/// The pairs of runs that were alive at once, and those whose tokens went back.
pub fn overlaps(runs: &[Run]) -> Vec<(Run, Run)> {
    let mut wrong = Vec::new();
    for (i, earlier) in runs.iter().enumerate() {
        for later in &runs[i + 1..] {
            let token = |run: &Run| run.name.split('/').next().map(str::to_owned);
            if later.first <= earlier.last || token(later) < token(earlier) {
                wrong.push((earlier.clone(), later.clone()));
            }
        }
    }
    wrong
}

#[test]
fn the_checker_finds_two_that_are_alive_at_once_and_tokens_that_go_back() {
    let judge = |text: &str| overlaps(&runs_of(text)).len();
    assert_eq!(judge("1 a/1 x start\n5 a/1 x alive\n6 b/2 y start"), 0);
    assert_eq!(judge("1 a/1 x start\n6 b/2 y start\n6 a/1 x alive"), 1);
    assert_eq!(
        judge("1 a/1 x start\n9 a/1 x alive\n3 b/2 y start\n4 b/2 y alive"),
        1
    );
    assert_eq!(judge("1 b/1 x start\n5 a/2 x start"), 1);
}
