//! The connections of a process, as its kernel knows them.

use nats_elect_testing::eventually;
use rustix::process::Pid;

use crate::stage::SOON;

/// Waits until a process has a connection to one of these ports. Returns which.
pub async fn connected(process: Pid, ports: &[u16]) -> u16 {
    eventually(SOON, "a connection of the companion", async || {
        let sockets = sockets_of(process);
        let table = std::fs::read_to_string("/proc/net/tcp").ok()?;
        ports
            .iter()
            .copied()
            .find(|port| table.lines().any(|line| is_of(line, *port, &sockets)))
    })
    .await
}

/// Whether this line is an established connection of one of the sockets to the port.
fn is_of(line: &str, port: u16, sockets: &[String]) -> bool {
    let columns: Vec<_> = line.split_whitespace().collect();
    columns
        .get(2)
        .is_some_and(|it| it.ends_with(&format!(":{port:04X}")))
        && columns.get(3) == Some(&"01")
        && columns
            .get(9)
            .is_some_and(|inode| sockets.iter().any(|it| it == inode))
}

/// The inodes of the sockets of a process.
fn sockets_of(process: Pid) -> Vec<String> {
    let files = std::fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero()));
    let links = files.into_iter().flatten().flatten();
    let inode = |link: std::path::PathBuf| {
        let link = link.to_str()?.strip_prefix("socket:[")?;
        Some(link.strip_suffix(']')?.to_owned())
    };
    links
        .filter_map(|file| inode(std::fs::read_link(file.path()).ok()?))
        .collect()
}
