//! Members of one group against one model stream, from one seed, or by a named schedule.
//!
//! The [`World`](world::World) carries out what members ask for, and lets network, processes, handlers
//! and people misbehave. The [`checks`] know what is promised. A failure prints the seed and the last of
//! what happened: `MEMBER_SEED=<seed> cargo test -p nats-elect-core --test member one_seed`.

mod chance;
mod checks;
mod effects;
mod event;
mod failing;
mod faults;
#[cfg(feature = "__mutations")]
mod mutations;
mod network;
mod node;
#[cfg(not(feature = "__mutations"))]
mod old_values;
#[cfg(not(feature = "__mutations"))]
mod refused;
mod rules;
#[cfg_attr(feature = "__mutations", allow(dead_code))]
mod schedule;
#[cfg(not(feature = "__mutations"))]
mod schedules;
#[cfg_attr(feature = "__mutations", allow(dead_code))]
mod scripts;
#[cfg_attr(feature = "__mutations", allow(dead_code))]
mod seeds;
mod stream;
mod tally;
#[cfg_attr(feature = "__mutations", allow(dead_code))]
mod usual;
mod versions;
mod world;
