//! What servers tell of their clients.

use std::collections::BTreeMap;

use drill::Problem;
use drill::usage::page;
use nats_elect_testing::NatsServer;
use serde_json::Value;

/// The traffic of a client.
#[derive(Clone, Copy, Default)]
pub struct Client {
    /// Messages that it sent.
    pub messages: f64,
    /// Bytes that it was sent.
    pub bytes: f64,
}

/// The clients of a server, by the ids of their connections.
pub fn clients(node: &NatsServer) -> Result<BTreeMap<u64, Client>, Problem> {
    let port = node.monitor_url();
    let port = port.rsplit(':').next().ok_or("no port")?.parse()?;
    let page: Value = serde_json::from_str(&page(port, "/connz?limit=10000")?)?;
    let connections = page["connections"].as_array().ok_or("no connections")?;
    let read = |it: &Value| {
        let client = Client {
            messages: it["in_msgs"].as_f64()?,
            bytes: it["out_bytes"].as_f64()?,
        };
        Some((it["cid"].as_u64()?, client))
    };
    Ok(connections.iter().filter_map(read).collect())
}

/// A count as the tables have it.
pub fn float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
