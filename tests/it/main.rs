//! Elections on real servers: what the application sees, and what stands in the bucket.
//!
//! Every fault prints a line `RECOVERED <test> ttl=<ms> after=<ms>`, from the fault to the next
//! handler's start: `cargo test --test it -- --nocapture | grep RECOVERED` makes a table of them.
#![cfg(unix)]

mod accounts;
mod admin;
mod admin_faults;
mod admin_orders;
mod admin_privileges;
mod applications;
mod blocking;
mod bucket;
mod cluster;
mod configuration;
mod crash;
mod domains;
mod election;
mod events;
mod fenced_crowd;
mod fenced_limit;
mod forged_release;
#[path = "../support/full_account.rs"]
mod full_account;
mod group_fences;
mod group_lifecycle;
mod group_mistakes;
mod group_placing;
mod group_settings;
mod group_units;
mod groups;
mod groups_operated;
mod handlers;
mod handoff;
#[cfg(feature = "health")]
mod health;
mod hostile;
mod last_will;
mod lifecycle;
mod logged_refusals;
mod logs;
mod many_buckets;
mod metrics;
mod metrics_page;
mod mixed;
mod network;
mod observed_groups;
mod observer;
mod observer_faults;
mod old_server;
mod operations;
mod pausing;
mod permissions;
mod privileges;
#[cfg(feature = "health")]
mod prometheus;
mod proofs;
mod refused_writes;
mod regressions;
mod replaced_buckets;
mod resizing;
mod secrets;
mod security;
mod security_environment;
mod security_tls;
mod signing;
mod slow_network;
mod small_messages;
mod support;
mod takeover;
mod trips;
mod unfit_settings;
