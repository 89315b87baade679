//! Several real elections against one model bucket, under virtual clocks, from one seed.

#![expect(
    clippy::unchecked_time_subtraction,
    reason = "a duration below zero is a bug of the simulation"
)]

mod bucket;
mod chance;
mod checks;
mod driver;
mod network;
mod node;
mod schedules;
mod world;

use bucket::ModelBucket;
use network::{Fate, Kind};
use world::{World, ms, settings};
