//! The limits of the server.

use std::time::Duration;

/// How much and how long at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time. More of them wait.
    pub connections: usize,
    /// How long a client may take to send its request, and then a body.
    pub patience: Duration,
    /// How long a client may read nothing while there is something to read.
    pub unread: Duration,
    /// How long a connection may take. It is for one request.
    pub longest: Duration,
    /// Streams of events at a time.
    pub streams: usize,
    /// Operations at a time.
    pub operations: usize,
    /// How much longer a stream or an operation may take.
    pub lasting: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            patience: Duration::from_secs(5),
            unread: Duration::from_secs(10),
            longest: Duration::from_secs(30),
            streams: 64,
            operations: 8,
            lasting: Duration::from_secs(60 * 60),
        }
    }
}
