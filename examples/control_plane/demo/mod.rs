//! The stage around the application: a fleet of instances, faults, and a verdict.

pub mod args;
mod board;
mod fault;
mod fleet;
mod history;
pub mod instance;
pub mod screen;
mod scribe;
pub mod story;
mod verdict;
