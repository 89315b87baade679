//! Logs, on stderr.
//!
//! Nobody waits until they are read: elections go on while a collector of logs stands still. A
//! thread of its own writes them, and what comes while the queue to it is full is lost.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use nats_elect::limits::failed;
use tracing_subscriber::EnvFilter;

/// How many events may wait to be written.
const QUEUE: usize = 4096;
/// How long the end of the process waits for the last ones.
pub const LAST: Duration = Duration::from_secs(1);

/// Logs of the library: more as often as `-v` was said, without it of this level; `NATS_ELECT_LOG`
/// has filters in the form of `RUST_LOG`.
pub fn to_stderr(verbose: u8, unless_verbose: &str, colours: bool) -> io::Result<Logs> {
    let level = match verbose {
        0 => unless_verbose,
        1 => "nats_elect=info,warn,async_nats=off",
        2 => "nats_elect=debug,info",
        _ => "nats_elect=trace,debug",
    };
    let filter = EnvFilter::try_from_env("NATS_ELECT_LOG").unwrap_or_else(|_| level.into());
    let logs = Logs::new(QUEUE, io::stderr())?;
    let queue = logs.0.clone();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || Queue(queue.clone()))
        .with_ansi(colours && io::stderr().is_terminal())
        .init();
    Ok(logs)
}

/// What is logged. When this is dropped, it has been written, or nobody reads it.
#[derive(Debug)]
pub struct Logs(SyncSender<Entry>);

#[derive(Debug)]
enum Entry {
    Event(Vec<u8>),
    /// Whoever sent it waits until this comes.
    Last(Sender<()>),
}

/// Takes an event with each write.
struct Queue(SyncSender<Entry>);

impl Logs {
    fn new(events: usize, mut to: impl Write + Send + 'static) -> io::Result<Self> {
        let (queue, entries): (_, Receiver<Entry>) = sync_channel(events);
        let writing = thread::Builder::new().name("logs".into()).spawn(move || {
            for entry in entries {
                match entry {
                    // If nobody can hear it, nobody can be told.
                    Entry::Event(event) => drop(to.write_all(&event)),
                    Entry::Last(written) => drop(written.send(())),
                }
            }
        });
        writing.map_err(failed("no thread to write the logs"))?;
        Ok(Self(queue))
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        let (written, all_written) = channel();
        let queue = self.0.clone();
        // It waits for room in the queue, and this thread for no longer than it may.
        let _ = thread::Builder::new().spawn(move || queue.send(Entry::Last(written)));
        let _ = all_written.recv_timeout(LAST);
    }
}

impl Write for Queue {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let _ = self.0.try_send(Entry::Event(event.to_vec()));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, pipe};

    use super::*;

    #[test]
    fn all_is_written_in_order_when_the_logs_are_dropped() {
        let (mut reader, writer) = pipe().unwrap();
        let logs = Logs::new(16, writer).unwrap();
        let mut queue = Queue(logs.0.clone());
        queue.write_all(b"one\n").unwrap();
        queue.write_all(b"two\n").unwrap();
        drop(logs);
        let mut written = [0; 8];
        reader.read_exact(&mut written).unwrap();
        assert_eq!(&written, b"one\ntwo\n");
    }

    /// Takes its time for each event.
    struct Slow(Sender<Vec<u8>>);

    impl Write for Slow {
        fn write(&mut self, event: &[u8]) -> io::Result<usize> {
            thread::sleep(Duration::from_millis(20));
            let _ = self.0.send(event.to_vec());
            Ok(event.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_queue_is_written_for_a_slow_reader_when_the_logs_are_dropped() {
        let (written, all_written) = channel();
        let logs = Logs::new(4, Slow(written)).unwrap();
        let queued = (0..100)
            .take_while(|&event| logs.0.try_send(Entry::Event(vec![event])).is_ok())
            .count();
        drop(logs);
        assert_eq!(all_written.try_iter().count(), queued);
    }

    #[test]
    fn nobody_waits_for_a_reader_who_does_not_read() {
        let (reader, writer) = pipe().unwrap();
        let logs = Logs::new(4, writer).unwrap();
        let mut queue = Queue(logs.0.clone());
        // More than any pipe holds.
        let event = vec![b'.'; 1 << 20];
        for _ in 0..10 {
            queue.write_all(&event).unwrap();
        }
        drop(logs);
        drop(reader);
    }
}
