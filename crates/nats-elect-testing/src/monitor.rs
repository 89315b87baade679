//! Requests to a server's monitoring endpoint.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(2);

/// Returns whether a loopback port accepts connections.
pub(super) fn accepts(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), TIMEOUT).is_ok()
}

/// Returns whether the server reports itself as healthy: `JetStream` is up, and in a cluster its
/// groups have caught up.
pub(super) fn is_healthy(port: u16) -> bool {
    get(port, "/healthz").is_ok_and(|(status, _)| status == 200)
}

/// Returns the JSON document at `path`.
pub(super) fn json(port: u16, path: &str) -> io::Result<Value> {
    let (status, body) = get(port, path)?;
    if status != 200 {
        return Err(io::Error::other(format!(
            "{path} answered {status}: {body}"
        )));
    }
    serde_json::from_str(&body).map_err(io::Error::other)
}

fn get(port: u16, path: &str) -> io::Result<(u16, String)> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // Use version 1.0: the body ends with the connection and is never chunked.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "no HTTP answer");
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(invalid)?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .ok_or_else(invalid)?;
    Ok((status, body.to_owned()))
}
