//! What this process has logged.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, OnceLock};

use tracing_subscriber::fmt::MakeWriter;

/// The log since [`install`]: of this crate in every detail, and of its NATS client short of whole
/// messages.
#[derive(Clone, Debug, Default)]
pub struct Logs(Arc<Mutex<Vec<u8>>>);

/// Captures logs from now on, if it does not yet.
pub fn install() -> Logs {
    static LOGS: OnceLock<Logs> = OnceLock::new();
    let logs = LOGS.get_or_init(|| {
        let logs = Logs::default();
        tracing_subscriber::fmt()
            .with_env_filter("nats_elect=trace,async_nats=debug")
            .with_ansi(false)
            .with_writer(logs.clone())
            .init();
        logs
    });
    logs.clone()
}

impl Logs {
    pub fn text(&self) -> String {
        let bytes = self.0.lock().expect("no panic").clone();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Logs {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Checks that a record has all of these parts.
pub fn has_all(record: &str, parts: &[&str]) {
    for part in parts {
        assert!(record.contains(part), "{part} in {record}");
    }
}

/// The log records of one instance that contain this text.
pub fn records(log: &str, id: &str, text: &str) -> Vec<String> {
    let of_instance = format!("instance_id={id} ");
    log.lines()
        .filter(|line| line.contains(&of_instance) && line.contains(text))
        .map(str::to_owned)
        .collect()
}

/// The only such record.
pub fn record(log: &str, id: &str, text: &str) -> String {
    let mut found = records(log, id, text);
    assert_eq!(found.len(), 1, "{text:?} of {id}: {found:#?}");
    found.remove(0)
}
