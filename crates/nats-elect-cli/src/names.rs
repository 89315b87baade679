//! Names as they are typed: each is checked while the command line is parsed.

use nats_elect::{GroupName, InstanceId, NameError, UnitName};

pub fn group(text: &str) -> Result<String, NameError> {
    GroupName::new(text).map(String::from)
}

/// The name of a unit: of a shard, its number.
pub fn unit(text: &str) -> Result<String, NameError> {
    UnitName::new(text).map(String::from)
}

/// The id of an instance. An incarnation obeys the same rule.
pub fn instance(text: &str) -> Result<String, NameError> {
    InstanceId::new(text).map(String::from)
}
