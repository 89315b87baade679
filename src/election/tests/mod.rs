//! What the protocol promises, theme by theme.

mod buckets;
mod electing;
mod ending;
mod faults;
mod fencing;
mod freeing;
mod keeping;
mod proving;
