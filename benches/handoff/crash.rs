//! An instance in a process of its own, to be killed.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nats_elect::{RoleConfig, RoleManager, Term, handler_fn};

use crate::clock::Moment;
use crate::nats::Nats;

/// The argument that makes this program such an instance.
pub const ARGUMENT: &str = "--victim";
/// Its name.
pub const NAME: &str = "victim";

/// A process that leads a role.
pub struct Victim(Child);

impl Victim {
    /// Starts it, and waits until it leads.
    pub fn start(nats: &Nats, bucket: &str, role: &str, ttl: Duration) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .args([
                ARGUMENT,
                &nats.urls(),
                bucket,
                role,
                &ttl.as_millis().to_string(),
            ])
            // Its end tells the victim that nobody is left to kill it.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let output = child.stdout.take().expect("its output");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert_eq!(line.trim(), "leading");
        Self(child)
    }

    /// Kills it. Returns when that was done.
    pub fn kill(mut self) -> Moment {
        let at = Moment::now();
        self.0.kill().expect("it lives");
        at
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Leads until it is killed.
pub async fn be_the_victim(url: &str, bucket: &str, role: &str, ttl: &str) {
    let ttl = Duration::from_millis(ttl.parse().expect("milliseconds"));
    let handler = handler_fn(|term: Term| async move {
        println!("leading");
        term.cancelled().await;
        Ok(())
    });
    let _manager = RoleManager::builder()
        .servers(url)
        .bucket(bucket)
        .instance_id(NAME)
        .role(role, RoleConfig::default().ttl(ttl), handler)
        .start()
        .await
        .expect("a manager");
    let until_the_end = || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
    };
    let _ = tokio::task::spawn_blocking(until_the_end).await;
}
