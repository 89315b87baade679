//! What must hold whatever comes from outside: one property per door, each of any bytes at all.
//!
//! There are two drivers: `cargo test` tries some thousands of inputs (`tests/fuzz`), the fuzz targets as many as there is
//! time for, guided by coverage (`fuzz/`). An input that broke a property once is kept in `tests/fuzz/inputs`.

pub mod answer;
pub mod config;
pub mod election;
pub mod record;
pub mod watch;

mod letter;
mod message;
mod names;
