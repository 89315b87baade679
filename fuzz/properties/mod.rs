//! What comes from outside, made up: records and markers in the bucket, configuration files, what a
//! watch delivers and what the server answers.
//!
//! The properties are those of the fuzz targets in `fuzz/`. Here each is tried on a few thousand
//! inputs, on every input that once broke it, and on some that are absurd by design.

pub mod answer;
pub mod config;
#[path = "../../crates/nats-elect-core/tests/fuzz/message.rs"]
mod made_up;
mod message;
mod names;
pub mod record;
pub mod watch;

#[cfg(test)]
mod configs;
#[cfg(test)]
#[path = "../../crates/nats-elect-core/tests/fuzz/inputs.rs"]
mod inputs;
#[cfg(test)]
mod tried;
