//! A task of which only the latest counts.

use std::future::Future;

use tokio::task::JoinHandle;

/// An actor's task on the side. Beginning another one, or dropping this, aborts it; what it has sent may be in the mailbox
/// already, so its messages carry its number, and [`is`](Self::is) tells those of the latest.
#[derive(Default)]
pub(super) struct LatestTask {
    number: u64,
    task: Option<JoinHandle<()>>,
}

impl LatestTask {
    /// Begins the task that is made for its number.
    pub fn begin<F>(&mut self, task: impl FnOnce(u64) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.stop();
        self.task = Some(tokio::spawn(task(self.number)));
    }

    /// Aborts the task, if there is one: no number that was given counts from here on.
    pub fn stop(&mut self) {
        self.number += 1;
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    /// The latest task has ended by itself; its number still counts.
    pub fn ended(&mut self) {
        self.task = None;
    }

    /// Whether a task was begun that was neither stopped nor has ended.
    pub const fn is_under_way(&self) -> bool {
        self.task.is_some()
    }

    pub const fn number(&self) -> u64 {
        self.number
    }

    pub const fn is(&self, number: u64) -> bool {
        self.number == number
    }
}

impl Drop for LatestTask {
    fn drop(&mut self) {
        self.stop();
    }
}
