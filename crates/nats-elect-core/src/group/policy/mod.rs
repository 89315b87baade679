//! Policies: which member should own which unit of a group.
//!
//! A [`Policy`] is a pure function from a [`Fleet`] (units, members, moves under way, the time) to a
//! [`Plan`] (moves, units that nobody may take, when to plan again). It does no I/O, reads no clock
//! and draws no random number. The same fleet gives the same plan. A plan decides nothing: its moves
//! are hints for the owners. A wrong, late or missing one costs balance, and never safety.
//!
//! [`Balanced`] is the default. Without a plan, members try free units in the order of
//! [`rendezvous`]. [`shard_of`] gives a key's shard.
//!
//! ```
//! use std::time::Duration;
//!
//! use nats_elect_core::Moment;
//! use nats_elect_core::group::Epoch;
//! use nats_elect_core::group::policy::{Balanced, Fleet, Member, Policy, PolicySettings, Unit};
//! use nats_elect_core::name::UnitName;
//!
//! let now = Moment::from_nanos(60_000_000_000);
//! let mut fleet = Fleet::new(now);
//! for role in ["metrics", "network", "scheduler"] {
//!     fleet.units.insert(UnitName::new(role).unwrap(), Unit::default());
//! }
//! for member in 1..=3 {
//!     let since = Moment::from_nanos(0);
//!     fleet.members.insert(Epoch::new([member; 16]), Member::new(since));
//! }
//!
//! let policy = Balanced::new(PolicySettings::new(Duration::from_secs(1)));
//! let plan = policy.plan(&fleet);
//! assert_eq!(plan.moves.len(), 3);
//! assert_eq!((plan.after.most, plan.after.least), (1000, 1000));
//! ```

use std::fmt;

use crate::name::UnitName;

mod balanced;
mod board;
mod explain;
mod fleet;
mod improve;
mod plan;
mod rendezvous;
mod room;
mod round;
mod settings;

pub use self::balanced::Balanced;
pub use self::explain::{Choice, Explanation, Refusal, Verdict};
pub use self::fleet::{Fleet, MOST_WEIGHT, Member, Standing, USUAL_WEIGHT, Unit};
pub use self::plan::{Cause, Held, Hold, Imbalance, Move, Plan, Unfit, Unplaced};
pub use self::rendezvous::rendezvous;
pub(in crate::group) use self::rendezvous::{first, rank, unit_hash};
pub use self::round::Round;
pub use self::settings::PolicySettings;
pub use crate::assignment::shard_of;

/// A way to place units on members.
pub trait Policy: fmt::Debug + Send + Sync {
    /// What is to be done now. It must depend on the fleet alone.
    fn plan(&self, fleet: &Fleet) -> Plan;

    /// Why a unit is where it is, and what [`plan`](Self::plan) does with it. `None`: there is no
    /// such unit, or the policy explains nothing. For this project's policies.
    #[doc(hidden)]
    fn explain(&self, fleet: &Fleet, unit: &UnitName) -> Option<Explanation> {
        let _ = (fleet, unit);
        None
    }
}
