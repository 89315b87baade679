//! Plain data: what the layers above speak of.

#[allow(missing_docs)]
pub mod admin;
pub mod config;
pub mod event;
pub mod handoff;
pub mod leader_event;
#[allow(missing_docs)]
pub mod letter;
#[allow(missing_docs)]
pub mod micros;
pub mod millis;
pub mod name;
pub mod notary;
#[allow(missing_docs)]
pub mod record;
pub mod release;
#[allow(missing_docs)]
pub mod statement;
pub mod status;
pub mod token;
