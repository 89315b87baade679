//! What the protocol promises, theme by theme.

mod buckets;
mod electing;
mod faults;
mod fencing;
mod freeing;
mod keeping;
