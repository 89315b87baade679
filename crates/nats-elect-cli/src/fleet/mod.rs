//! What is known of a bucket, in the form in which programs read it: the answers of `serve` and
//! `agent` and the JSON of commands are made of these types, and the `OpenAPI` documents come from
//! them. The comments on types and fields are their descriptions. `Watched` is a bucket as `serve` and
//! `top` know it while they look on: `looking` finds out what it is told.

mod group_state;
mod group_view;
mod groups;
mod instances;
mod kept;
mod members;
mod past;
mod roles;
mod unit_lists;
mod values;
mod watched;

use tokio::time::Instant;

pub use self::group_state::GroupState;
pub use self::group_view::{GroupChange, Groups, living};
pub use self::groups::{Group, MemberRecord, remaining};
pub use self::instances::{Candidate, Instance};
pub use self::members::{LACKS, Member, has_expired, lack, lives, name, owner, problems};
pub use self::past::Event;
pub use self::roles::{Change, Leader, Role, Urgency};
pub use self::unit_lists::{listed, ranges};
pub use self::values::{In, Seconds, Time, Token, View, Whole, or_null};
pub use self::watched::{Asked, Freshness, Latest, Of, Watched};

/// The clock by which ages are told.
#[expect(
    clippy::disallowed_methods,
    reason = "for people to read; no lease rests on it"
)]
pub fn now() -> Instant {
    Instant::now()
}
