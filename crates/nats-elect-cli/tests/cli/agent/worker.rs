//! The examples as applications, and what they wrote down.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;

use nats_elect_testing::eventually;

use crate::agent::languages::Language;
use crate::agent::running::Agent;
use crate::fleet::SOON;
use crate::running::Process;

pub struct Worker {
    name: String,
    pub process: Process,
}

/// One term, as its worker wrote it down, by the clock of the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub worker: String,
    pub token: String,
    pub first: f64,
    pub last: f64,
}

/// The folder of all workers of a test.
pub struct History(tempfile::TempDir);

impl History {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn file(&self, worker: &str) -> PathBuf {
        self.0.path().join(worker)
    }

    /// All terms so far, in the order of their first work.
    pub fn runs(&self) -> Vec<Run> {
        let mut runs = BTreeMap::<(String, String), Run>::new();
        for entry in std::fs::read_dir(self.0.path()).expect("a folder") {
            let entry = entry.expect("a file");
            let worker = entry.file_name().into_string().expect("text");
            let text = std::fs::read_to_string(entry.path()).expect("text");
            let complete = text.rfind('\n').map_or("", |end| &text[..end]);
            for line in complete.lines() {
                let line: serde_json::Value = serde_json::from_str(line).expect(line);
                let token = line["token"].as_str().expect("a token").to_owned();
                let at = line["at"].as_f64().expect("a time");
                let run = runs.entry((worker.clone(), token.clone()));
                let run = run.or_insert(Run {
                    worker: worker.clone(),
                    token,
                    first: at,
                    last: at,
                });
                run.last = run.last.max(at);
            }
        }
        let mut runs: Vec<_> = runs.into_values().collect();
        runs.sort_by(|a, b| a.first.total_cmp(&b.first));
        runs
    }

    /// Waits until a worker works in a term that is none of these.
    pub async fn works(&self, worker: &str, known: &[Run]) -> Run {
        eventually(SOON, &format!("work of {worker}"), async || {
            let runs = self.runs().into_iter().rev();
            let mut runs = runs.filter(|run| run.last > run.first);
            runs.find(|run| run.worker == worker && known.iter().all(|it| it.token != run.token))
        })
        .await
    }

    /// Waits for the first work of a worker.
    pub async fn begins(&self, worker: &str) {
        let file = self.file(worker);
        eventually(SOON, &format!("work of {worker}"), async || {
            let text = std::fs::read_to_string(&file).ok()?;
            text.contains('\n').then_some(())
        })
        .await;
    }

    /// When a worker's first work was, in seconds since 1970.
    pub fn first_of(&self, worker: &str) -> f64 {
        let text = std::fs::read_to_string(self.file(worker)).expect("text");
        let line = text.lines().next().expect("a line");
        let line: serde_json::Value = serde_json::from_str(line).expect(line);
        line["at"].as_f64().expect("a time")
    }

    /// No two workers worked at once, and fencing tokens grew.
    pub fn judge(&self) {
        let runs = self.runs();
        for (earlier, later) in runs.iter().zip(runs.iter().skip(1)) {
            assert!(earlier.last < later.first, "two at once: {runs:#?}");
            assert!(earlier.token < later.token, "tokens fell: {runs:#?}");
        }
    }
}

impl Worker {
    /// Starts the example in Python with this agent.
    pub fn start(agent: &Agent, name: &str, history: &History) -> Self {
        Self::start_in(&Language::python(), agent, name, history)
    }

    /// Starts the example in this language.
    pub fn start_in(language: &Language, agent: &Agent, name: &str, history: &History) -> Self {
        let output = File::options()
            .create(true)
            .append(true)
            .open(history.file(name))
            .expect("a file");
        let child = language
            .command()
            .arg(&agent.socket)
            .arg("worker")
            .stdin(Stdio::null())
            .stdout(output)
            .spawn();
        Self {
            name: name.to_owned(),
            process: Process(child.expect("a worker")),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}
