//! Named schedules: each once broke a draft of the protocol, or would break it without a rule.

mod buckets;
mod electing;
mod ending;
mod fenced;
mod fencing;
mod freeing;
mod keeping;
mod pausing;
mod stopping;
