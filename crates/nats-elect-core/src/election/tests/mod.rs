//! Tests of the protocol, one topic per file.

#![expect(
    clippy::unchecked_time_subtraction,
    reason = "a duration below zero is a failed test"
)]

mod asked;
mod buckets;
mod claiming;
mod ending;
mod failing;
mod fenced;
mod fencing;
mod forging;
mod freeing;
mod keeping;
mod leading;
mod line;
mod outages;
mod pausing;
mod proving;
mod slow;
mod solo;
mod stopping;
mod succession;
mod takeover;
mod telling;
mod waiting;
mod winding;
