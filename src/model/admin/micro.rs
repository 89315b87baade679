//! The messages that NATS's conventions for services (ADR-32) require of every service: its
//! identity, its endpoints and its statistics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::AdminReply;

/// The verbs of these conventions.
pub const PING: &str = "PING";
pub const INFO: &str = "INFO";
pub const STATS: &str = "STATS";

/// The identity of a service. It is the beginning of every answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub name: String,
    pub id: String,
    pub version: String,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

#[derive(Serialize)]
pub struct Ping(pub Identity);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    #[serde(flatten)]
    pub identity: Identity,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub endpoints: Vec<EndpointInfo>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointInfo {
    pub name: String,
    pub subject: String,
    /// Empty, so that every instance receives each request.
    #[serde(default)]
    pub queue_group: String,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

#[derive(Serialize)]
pub struct Stats<'a> {
    #[serde(flatten)]
    pub identity: Identity,
    pub started: &'a str,
    pub endpoints: Vec<EndpointStats>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndpointStats {
    pub name: String,
    pub subject: String,
    pub queue_group: String,
    pub num_requests: u64,
    pub num_errors: u64,
    /// `<code>:<text>`, or empty.
    pub last_error: String,
    /// In nanoseconds.
    pub processing_time: u64,
    pub average_processing_time: u64,
}

impl Identity {
    /// Returns the value that the service gives under this name.
    pub fn says(&self, name: &str) -> Option<&str> {
        self.metadata.get(name).map(String::as_str)
    }
}

impl AdminReply for Ping {
    const KIND: &'static str = "io.nats.micro.v1.ping_response";
}

impl AdminReply for Info {
    const KIND: &'static str = "io.nats.micro.v1.info_response";
}

impl AdminReply for Stats<'_> {
    const KIND: &'static str = "io.nats.micro.v1.stats_response";
}
