//! The messages that NATS's conventions for services (ADR-32) require of every service: its
//! identity, its endpoints and its statistics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::AdminReply;
use nats_elect_core::text::printable;

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
pub struct Ping<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    identity: &'a Identity,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    #[serde(rename = "type")]
    pub kind: String,
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
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    identity: &'a Identity,
    started: &'a str,
    endpoints: Vec<EndpointStats>,
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
    pub fn ping(&self) -> Ping<'_> {
        Ping {
            kind: "io.nats.micro.v1.ping_response",
            identity: self,
        }
    }

    pub fn info(&self, description: &str, endpoints: Vec<EndpointInfo>) -> Info {
        Info {
            kind: Info::KIND.into(),
            identity: self.clone(),
            description: description.into(),
            endpoints,
        }
    }

    pub fn stats<'a>(&'a self, started: &'a str, endpoints: Vec<EndpointStats>) -> Stats<'a> {
        Stats {
            kind: "io.nats.micro.v1.stats_response",
            identity: self,
            started,
            endpoints,
        }
    }

    /// Returns the value that the service gives under this name.
    pub fn says(&self, name: &str) -> Option<String> {
        self.metadata.get(name).map(|value| printable(value))
    }
}

impl AdminReply for Info {
    const KIND: &'static str = "io.nats.micro.v1.info_response";

    fn kind(&self) -> &str {
        &self.kind
    }

    fn cleaned(mut self) -> Self {
        self.identity.version = printable(&self.identity.version);
        self
    }
}
