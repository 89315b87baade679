//! The stage around the application: a fleet of instances, faults, and a verdict.

pub mod args;
pub mod instance;
mod scribe;
pub mod story;
