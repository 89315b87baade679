//! What the protocol promises, theme by theme.

#![expect(
    clippy::unchecked_time_subtraction,
    reason = "a duration below zero is a failed test"
)]

mod buckets;
mod electing;
mod ending;
mod failing;
mod faults;
mod fencing;
mod freeing;
mod keeping;
mod proving;
mod stopping;
