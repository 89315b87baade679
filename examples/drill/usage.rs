//! What the system and servers tell of processes.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use crate::Problem;

/// Ticks of the kernel's clock for user space, a second.
const TICKS: f64 = 100.0;
const PATIENCE: Duration = Duration::from_secs(10);

/// The CPU time that a process has used, in seconds.
pub fn cpu(pid: u32) -> Result<f64, Problem> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Its name may have spaces in it.
    let (_, fields) = stat.rsplit_once(')').ok_or("no name")?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: Result<Vec<f64>, _> = ticks.map(str::parse).collect();
    Ok(ticks?.iter().sum::<f64>() / TICKS)
}

/// The resident memory of a process, in KiB.
pub fn memory(pid: u32) -> Result<u32, Problem> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.ok_or("no memory")?.parse()?)
}

/// The page of a server at this port of the loopback address.
pub fn page(port: u16, path: &str) -> Result<String, Problem> {
    let answer = exchange(port, &format!("GET {path} HTTP/1.0\r\n\r\n"))?;
    let (_, body) = answer.split_once("\r\n\r\n").ok_or("no page")?;
    Ok(body.to_owned())
}

/// Sends a text, and returns what comes until the other end closes.
pub fn exchange(port: u16, request: &str) -> Result<String, Problem> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
