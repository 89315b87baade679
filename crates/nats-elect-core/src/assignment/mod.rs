//! A group as one map, which its members acknowledge: the values of the bucket.
//!
//! `docs/protocol.md` has the rules, and the words that are used here. The protocol of the module
//! `member` is built on these values.
//!
//! People and tools may read the values: they are JSON, and large sets in them are packed. Any bytes
//! may stand in the bucket. Those that break a bound or a rule of the format are
//! [foreign](Value::Foreign), and no bytes make a parser fail. Unknown fields are ignored.
//!
//! | file | contents |
//! | --- | --- |
//! | `key.rs` | [`Key`]: the keys of the map and of the members |
//! | `epoch.rs` | [`Epoch`]: the name of one claim of a member's lease |
//! | `map.rs` | [`Map`]: who owns each unit, and for whom it waits |
//! | `successor.rs` | the maps that are made from a map |
//! | `layout.rs` | the JSON of a map |
//! | `record.rs` | [`MemberRecord`]: the record that a member writes with each heartbeat |
//! | `units.rs` | [`Units`], [`Unit`], [`UnitSets`]: units and sets of them |
//! | `ranges.rs`, `bits.rs` | sets of numbers as text, and small numbers packed into text |
//! | `foreign.rs` | [`Value`]: a value under a key |
//! | `fence.rs` | [`UnitKey`], [`UnitFence`]: the value of a unit's fence key |

mod bits;
mod epoch;
mod fence;
mod foreign;
mod key;
mod layout;
mod map;
mod ranges;
mod record;
mod successor;
mod units;

#[cfg(test)]
mod tests;

pub use crate::condition::{CONDITION_HEADER, stored_condition};
pub use epoch::{Epoch, LONGEST_LEASE};
pub use fence::{UnitFence, UnitKey};
pub use foreign::{Value, ended};
pub use key::Key;
pub use map::{MOST_EPOCHS, MOST_GENERATIONS, MOST_WAITS, Map};
pub use ranges::Ranges;
pub use record::{MOST_HEAVY, MOST_LABELS, MOST_VERSION_BYTES, MemberRecord, Profile};
pub use successor::{Changes, MapError};
pub use units::{MOST_NAMES, MOST_SHARDS, Unit, UnitSet, UnitSets, Units};

/// The most groups in which one instance takes part.
pub const MOST_GROUPS: usize = 256;

/// The version of the values that this crate writes, in the field `v`.
const VERSION: u64 = 1;
