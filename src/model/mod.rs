//! Plain data that the layers above use.

#[allow(missing_docs)]
pub mod admin;
pub mod config;
pub mod keyring;
pub mod leader_event;
#[allow(missing_docs)]
pub mod micros;
pub mod sortable;
#[allow(missing_docs)]
pub mod statement;
pub mod status;
