//! Groups: units of work that are spread over instances, each instance holding one lease for all
//! that it owns.
//!
//! `docs/protocol.md` has their rules.
//!
//! An instance that takes part is a *member*. It keeps its lease under a key of its own, and each
//! claim of that key is a new [`Epoch`]. A *unit* has a key that names the epoch of its owner. It
//! is written only when the owner changes, and always by compare-and-set.
//!
//! | file | contents |
//! | --- | --- |
//! | `epoch.rs` | [`Epoch`]: the name of one claim of a member's lease, and what it proves |
//! | `key.rs` | [`GroupKey`], [`UnitKey`]: the keys of members, groups and units |
//! | `record.rs` | what stands under these keys |
//! | `member_info.rs` | what a member's record says beside its lease |
//! | `hint.rs` | hints as members send them to each other |
//! | `input.rs`, `effect.rs` | what goes into a member's machine, and what comes out |
//! | `machine.rs` | [`Group`]: the state of a member, and the way through one step |
//! | `agenda.rs` | what is to be looked at, and when |
//! | `lease.rs` | the member's lease: a heartbeat counts when it is confirmed and shown |
//! | `view.rs`, `view/` | what the watch showed of members, units and groups, and how long what it did not show may last |
//! | `unit.rs` | a unit of this member, from the beginning of a term to the write that ends it |
//! | `failures.rs` | the units whose handlers fail on this member |
//! | `taking.rs` | creating units, deposing their owners, taking them |
//! | `planner.rs` | who plans, and whom the plan is told |
//! | `fleet.rs` | what a policy plans from, as this member sees it |
//! | `shown.rs` | the view of a member, for others to read |
//! | `hashing.rs` | [`Group::hash_state`], for model checkers |
//! | `policy/` | the plan of which member should own which unit |

mod agenda;
mod effect;
mod epoch;
mod failures;
mod fleet;
mod hashing;
mod hint;
mod input;
mod key;
mod lease;
mod machine;
mod member_info;
mod planner;
pub mod policy;
mod record;
mod shown;
mod taking;
mod unit;
mod view;

#[cfg(test)]
mod tests;

pub use crate::assignment::MOST_GROUPS;
pub use crate::assignment::{CONDITION_HEADER, stored_condition};
pub use effect::{GroupEffect, GroupWrite};
pub use epoch::{Epoch, EpochKey, Identity, LONGEST_LEASE};
pub use fleet::HANDLER;
pub use input::{GroupContent, GroupInput, GroupSettings, Hint, Message, Placement, Units};
pub use key::{GroupKey, UnitKey};
pub use machine::Group;
pub use member_info::{MOST_LABELS, MOST_NAMED, MOST_NAMES_BYTES, MOST_TOLD, MemberInfo, Support};
pub use record::{
    GroupKind, GroupRecord, MOST_GENERATIONS, MOST_SHARDS, MemberContent, SIGNATURE_BYTES,
    SeenMember, UnitRecord, sign, signed_text, split_signature,
};
pub use shown::{MemberState, ShownMember, ShownUnit, UnitState};
