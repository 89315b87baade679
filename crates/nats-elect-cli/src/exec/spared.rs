//! The children of `exec` that the end of a run leaves alone.

use std::sync::{Arc, Mutex};

use nats_elect::lock::lock;
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
        lock(&self.0).push(child);
    }

    pub fn remove(&self, child: Pid) {
        lock(&self.0).retain(|it| *it != child);
    }

    pub fn list(&self) -> Vec<Pid> {
        lock(&self.0).clone()
    }
}
