//! Plain data: what the layers above speak of.

pub mod config;
pub mod event;
#[allow(missing_docs)]
pub mod letter;
pub mod name;
#[allow(missing_docs)]
pub mod record;
pub mod status;
pub mod token;
