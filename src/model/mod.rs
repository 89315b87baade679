//! Plain data: what the layers above speak of.

pub mod config;
pub mod name;
