//! The NATS to measure against.

use std::io::{Read, Write};
use std::net::TcpStream;

use nats_elect_testing::{NatsCluster, NatsServer};

/// A private server, or three of them as a cluster.
pub enum Nats {
    One(NatsServer),
    Three(NatsCluster),
}

impl Nats {
    /// On how many servers buckets are kept.
    pub const fn replicas(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Three(_) => 3,
        }
    }

    /// Where clients connect.
    pub fn urls(&self) -> String {
        match self {
            Self::One(server) => server.url(),
            Self::Three(cluster) => cluster.urls(),
        }
    }

    /// How many messages clients have sent so far, of whatever kind. In a cluster those that pass
    /// from server to server count too.
    pub fn messages(&self) -> u64 {
        match self {
            Self::One(server) => messages_to(server),
            Self::Three(cluster) => cluster.nodes().iter().map(messages_to).sum(),
        }
    }
}

fn messages_to(server: &NatsServer) -> u64 {
    let url = server.monitor_url();
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("the monitoring port");
    write!(stream, "GET /varz HTTP/1.0\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    let page: serde_json::Value = serde_json::from_str(body).expect("JSON");
    page["in_msgs"].as_u64().expect("a count")
}
