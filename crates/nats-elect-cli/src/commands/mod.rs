//! The commands, each in a file of its own: its options, its help, and what it does.

#[cfg(unix)]
pub mod agent;
pub mod candidates;
pub mod check;
pub mod completions;
pub mod create_bucket;
pub mod doctor;
pub mod end_lease;
#[cfg(unix)]
pub mod exec;
pub mod group;
pub mod history;
pub mod inspect;
pub mod ls;
pub mod orders;
pub mod permissions;
pub mod retire;
pub mod serve;
pub mod step_down;
pub mod top;
pub mod verify;
pub mod watch;
