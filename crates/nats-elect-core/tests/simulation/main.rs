//! Several real elections against one model bucket, under one true time and a virtual clock each,
//! from one seed.
//!
//! A seed makes a [`plan`](plan): a fleet with its settings, clocks and bucket, and a list of
//! faults with their times. A [`World`] runs it: it carries out the core's effects as the actors
//! do, and lets network, server, processes and applications misbehave. The [`checkers`] hear of
//! everything and know what is promised. Whatever fails is shrunk to as few faults as still fail,
//! and printed with the command that replays it.

#![expect(
    clippy::unchecked_time_subtraction,
    reason = "a duration below zero is a bug of the simulation"
)]
#![cfg_attr(
    feature = "__mutations",
    allow(dead_code, unused_imports, reason = "only the broken rules are run")
)]

mod bucket;
mod chance;
mod checkers;
mod clock;
mod driver;
mod faults;
mod fenced;
mod found;
mod happening;
mod liars;
mod monitor;
#[cfg(feature = "__mutations")]
mod mutations;
mod network;
mod node;
mod peers;
mod plan;
mod process;
mod retiring;
mod run;
mod schedules;
mod seeds;
mod server;
mod shrink;
mod tally;
mod wills;
mod world;

use bucket::ModelBucket;
use network::{Fate, Kind};
use world::{World, ms, settings, tuned};
