//! Requests to what `exec --listen` serves.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};

use nats_elect_testing::eventually;

use crate::fleet::SOON;

/// An address that nobody else takes: one of loopback's many, for this process alone.
pub fn address() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    let last = NEXT.fetch_add(1, Ordering::Relaxed);
    // Neither 127.0 nor 127.255, where others are.
    let host = Ipv4Addr::new(127, high.clamp(1, 254), low, last);
    SocketAddr::from((host, 9464))
}

/// The status and the body of an answer; nothing if nobody answers.
pub fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(SOON)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: exec\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let code = head.split(' ').nth(1)?.parse().ok()?;
    Some((code, body.to_owned()))
}

/// Waits for this status, and returns the body.
pub async fn becomes(address: SocketAddr, path: &str, code: u16) -> String {
    eventually(SOON, &format!("{code} of {path}"), async || {
        let (got, body) = get(address, path)?;
        (got == code).then_some(body)
    })
    .await
}

/// The value of one series of this metric, with all of these labels.
pub fn value(metrics: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    metrics.lines().find_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let has = |(label, value): &(&str, &str)| series.contains(&format!("{label}=\"{value}\""));
        let is_it = series.split('{').next() == Some(name) && labels.iter().all(has);
        is_it.then(|| value.parse().expect("a number"))
    })
}

/// Waits for a series with this value.
pub async fn shows(address: SocketAddr, name: &str, labels: &[(&str, &str)], wanted: f64) {
    eventually(SOON, &format!("{name} {labels:?} {wanted}"), async || {
        let (_, metrics) = get(address, "/metrics")?;
        let value = value(&metrics, name, labels)?;
        ((value - wanted).abs() < f64::EPSILON).then_some(())
    })
    .await;
}
