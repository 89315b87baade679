//! One member of one group by the rules of `docs/protocol.md`, as a deterministic state machine.
//!
//! Numbers of rules are those of that page.
//!
//! A [`Member`] does no I/O, reads no clock and draws no random number. Its driver
//!
//! - calls [`Member::step`] with each [`Input`] as it comes, and carries out the effects in their order;
//! - steps with [`Input::Tick`] at [`Member::wakeup`];
//! - passes what the watch shows, and where the link to the bucket stands.
//!
//! | file | contents |
//! | --- | --- |
//! | `machine.rs` | [`Member`], and the way through one step |
//! | `input.rs`, `effect.rs` | [`Input`] and [`Effect`] |
//! | `unit.rs` | [`UnitId`]: a unit by its generation and its name |
//! | `watched.rs` | the map and the values of members, as the watch and reads show them |
//! | `following.rs` | the map that the member follows, and what else it was shown under that key |
//! | `keeping.rs` | the lease: the claim of an epoch, heartbeats, and reads in doubt |
//! | `loss.rs` | confirmed writes that NATS lost |
//! | `peers.rs` | rules 2, 4 and 5: what is known of each epoch |
//! | `acting.rs` | rules 1, 2 and 6: handlers, exceptions, units that the member can't run |
//! | `failures.rs` | handlers that end by themselves |
//! | `ending.rs` | rules 4 and 6: own epochs that end, the member that leaves, keys that nobody needs |
//! | `collect.rs` | rule 5: maps over foreign values, and new names |
//! | `moves.rs` | which units changed their owners, for plans |
//! | `coordinator.rs` | rules 3 and 7: who writes the next map, and when |
//! | `showing.rs` | what a driver shows |
//! | `planning.rs` | [`PlanRequest`]: what a plan is made from, outside the step |

mod acting;
mod collect;
mod coordinator;
mod effect;
mod ending;
mod failures;
mod following;
mod input;
mod keeping;
mod loss;
mod machine;
mod moves;
mod orders;
mod peers;
mod planning;
mod showing;
mod unit;
mod watched;

pub use effect::{Effect, Over, Reply};
pub use input::{Found, Fresh, Input, Look, Order};
pub use machine::{Member, MemberSettings};
pub use planning::{Candidate, PlanRequest};
pub use unit::UnitId;
