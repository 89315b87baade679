//! What the system and the servers tell of themselves.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write as _};
use std::net::TcpStream;

use nats_elect_testing::NatsServer;
use serde_json::Value;

use crate::debian::Problem;

/// Ticks of CPU time a second.
const TICKS: f64 = 100.0;

/// The CPU time that a process has used, in seconds.
pub fn cpu(pid: u32) -> Result<f64, Problem> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').ok_or("no stat")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / TICKS)
}

/// The resident memory of a process, in KiB.
pub fn memory(pid: u32) -> Result<f64, Problem> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.ok_or("no memory")?.parse()?)
}

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
    let page = page(node, "/connz?limit=10000")?;
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

fn page(node: &NatsServer, path: &str) -> Result<Value, Problem> {
    let address = node.monitor_url().replace("http://", "");
    let mut stream = TcpStream::connect(&address)?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    let (_, body) = page.split_once("\r\n\r\n").ok_or("no page")?;
    Ok(serde_json::from_str(body)?)
}

/// A count as the tables have it.
pub fn float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
