//! Plain data: what the layers above speak of.

pub mod config;
pub mod event;
pub mod leader_event;
#[allow(missing_docs)]
pub mod letter;
pub mod name;
pub mod notary;
#[allow(missing_docs)]
pub mod record;
#[allow(missing_docs)]
pub mod statement;
pub mod status;
pub mod token;
