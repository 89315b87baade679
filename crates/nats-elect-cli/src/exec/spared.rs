//! The children of `exec` that the end of a run leaves alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::Pid;

/// Those that were there before, and the guards and commands of other runs.
#[derive(Clone, Debug)]
pub struct Spared(Arc<Mutex<Vec<Pid>>>);

impl Spared {
    pub fn new(before: Vec<Pid>) -> Self {
        Self(Arc::new(Mutex::new(before)))
    }

    /// Has the ends of other runs spare this child: also where it has ended, for its number is
    /// not to be another's before its own run lets go.
    pub fn add(&self, child: Pid) {
        self.locked().push(child);
    }

    pub fn remove(&self, child: Pid) {
        self.locked().retain(|it| *it != child);
    }

    pub fn list(&self) -> Vec<Pid> {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Pid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
