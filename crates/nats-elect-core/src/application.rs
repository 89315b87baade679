//! Which application takes part: two that share a role by mistake elect one leader between them.

use serde::{Deserialize, Serialize};

use crate::text::printable;

/// The longest name, in bytes.
pub const MAX_APPLICATION_BYTES: usize = 64;

/// The name of an application, as its records tell it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Application {
    /// The name.
    pub name: String,
    /// Whether somebody set the name. Otherwise it is that of the program's file.
    #[serde(rename = "set", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_set: bool,
}

impl Application {
    /// The name that somebody set.
    pub fn set(name: &str) -> Self {
        Self::new(name, true)
    }

    /// The name of a program's file.
    pub fn program(name: &str) -> Self {
        Self::new(name, false)
    }

    pub(crate) fn new(name: &str, is_set: bool) -> Self {
        let mut name = printable(name);
        while name.len() > MAX_APPLICATION_BYTES {
            name.pop();
        }
        Self { name, is_set }
    }

    /// Whether this is certainly another application: somebody set both names.
    pub fn contradicts(&self, other: &Self) -> bool {
        self.is_set && other.is_set && self.name != other.name
    }
}
