//! A task that is replaced by its successor.

use std::future::Future;

use tokio::task::JoinHandle;

/// An actor's task in the background. It is aborted when another one begins, or when this is
/// dropped. The mailbox may already contain messages that it sent. So its messages carry its
/// number, and [`is`](Self::is) recognizes those of the latest task.
#[derive(Default)]
pub(super) struct LatestTask {
    number: u64,
    task: Option<JoinHandle<()>>,
}

impl LatestTask {
    /// Begins the task, which is created with its number.
    pub fn begin<F>(&mut self, task: impl FnOnce(u64) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.stop();
        self.task = Some(tokio::spawn(task(self.number)));
    }

    /// Aborts the task, if there is one. No earlier number is valid from here on.
    pub fn stop(&mut self) {
        self.number += 1;
        if let Some(task) = self.task.take() {
            task.abort();
        }
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
