//! What is known of a bucket, in the form in which programs read it: the answers of `serve` and
//! `agent` and the JSON of commands are made of these types, and the `OpenAPI` documents come from
//! them. The comments on types and fields are their descriptions.

mod groups;
mod instances;
mod members;
mod past;
mod roles;
mod values;

pub use self::groups::{Group, Head, MemberRecord, Unit, UnitRecord};
pub use self::instances::{Candidate, Instance, LeaderKnown, RolePart};
pub use self::members::{Member, owner, problems, state};
pub use self::past::Event;
pub use self::roles::{Change, Leader, Role};
pub use self::values::{In, Seconds, Time, Token, View, Whole, or_null};
