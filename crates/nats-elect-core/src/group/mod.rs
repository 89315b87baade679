//! Groups: units of work that are spread over instances, each instance holding one lease for all
//! that it owns.
//!
//! The library does not offer groups yet. `docs/protocol.md` has their rules.
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
//! | `condition.rs` | over which record a message was written, by the condition stored with it |

mod condition;
mod epoch;
mod key;
mod record;

pub use condition::{CONDITION_HEADER, stored_condition};
pub use epoch::{Epoch, EpochKey, Identity};
pub use key::{GroupKey, UnitKey};
pub use record::{
    GroupKind, GroupRecord, LONGEST_LEASE, MOST_SHARDS, MemberContent, MemberInfo, SIGNATURE_BYTES,
    SeenMember, Support, UnitRecord, sign, signed_text, split_signature,
};
