//! One client's connection through the proxy.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::TcpStream;
use tokio::sync::watch;

use super::faults::{AckFault, Faults};
use super::line::{Line, Next};
use super::protocol::{Piece, Splitter};
use super::published::{Listener, Transcript};
use super::{Counters, Direction};
use std::time::Instant;

const READ_SIZE: usize = 64 << 10;

#[derive(Clone)]
pub(super) struct Connection {
    pub(super) upstream: Arc<str>,
    pub(super) faults: watch::Receiver<Faults>,
    pub(super) counters: Arc<Counters>,
    pub(super) transcript: Arc<Transcript>,
}

impl Connection {
    /// Serves the client until one side closes, the proxy is cut, or the connection is dropped.
    pub(super) async fn run(self, client: TcpStream) {
        let cuts = {
            let faults = self.faults.borrow();
            if faults.is_cut {
                return;
            }
            faults.cuts
        };
        let _open = Share::of(&self.counters.connections, 1);
        let Some(server) = self.reach_server(cuts).await else {
            return;
        };
        // Whole messages are passed on as they come. Nagle's algorithm would add delays that no
        // fault asked for.
        let _ = client.set_nodelay(true);
        let _ = server.set_nodelay(true);
        tokio::select! {
            _ = self.pump(Direction::ToServer, cuts, &client, &server) => {}
            _ = self.pump(Direction::ToClient, cuts, &server, &client) => {}
        }
    }

    /// Connects to the server. A partitioned client reaches no server, so its connection is made
    /// only when the partition is over.
    async fn reach_server(&self, cuts: u64) -> Option<TcpStream> {
        let may_connect =
            |faults: &Faults| faults.cuts != cuts || !faults.way(Direction::ToServer).silent;
        let mut faults = self.faults.clone();
        if faults.wait_for(may_connect).await.ok()?.cuts != cuts {
            return None;
        }
        TcpStream::connect(&*self.upstream).await.ok()
    }

    /// Carries bytes one way until the sender has closed and all that it sent has left.
    async fn pump(
        &self,
        direction: Direction,
        cuts: u64,
        from: &TcpStream,
        to: &TcpStream,
    ) -> io::Result<()> {
        let mut faults = self.faults.clone();
        let mut wire = Line::new(direction);
        let mut splitter = Splitter::default();
        let mut listener = Listener::default();
        let mut buffer = vec![0; READ_SIZE];
        let mut acks_held = Share::of(&self.counters.acks_held, 0);
        loop {
            let next = {
                let faults = faults.borrow_and_update();
                if faults.cuts != cuts {
                    return Ok(());
                }
                if faults.acks == AckFault::Drop {
                    let dropped = wire.drop_acks();
                    self.counters
                        .acks_dropped
                        .fetch_add(dropped, Ordering::SeqCst);
                }
                let now = Instant::now();
                acks_held.set(wire.acks_held(&faults, now));
                wire.next(&faults, now)
            };
            tokio::select! {
                readable = from.readable(), if wire.takes_more() => {
                    readable?;
                    let read = from.try_read(&mut buffer);
                    if let (Direction::ToServer, Ok(count)) = (direction, &read) {
                        listener.hear(&buffer[..*count], &self.transcript);
                    }
                    take_in(direction, read, &buffer, &mut splitter, &mut wire);
                }
                writable = to.writable(), if matches!(next, Next::Write(_) | Next::End) => {
                    writable?;
                    // Hold the faults during the write. A caller that sets a fault waits for it,
                    // and nothing is written after that.
                    let faults = faults.borrow();
                    if faults.cuts != cuts {
                        return Ok(());
                    }
                    match wire.next(&faults, Instant::now()) {
                        Next::End => return Ok(()),
                        Next::Write(place) => match to.try_write(wire.rest(place)) {
                            Ok(count) => wire.wrote(place, count),
                            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                            Err(error) => return Err(error),
                        },
                        Next::At(_) | Next::Idle => {}
                    }
                }
                () = sleep_until(next) => {}
                changed = faults.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

fn take_in(
    direction: Direction,
    read: io::Result<usize>,
    buffer: &[u8],
    splitter: &mut Splitter,
    wire: &mut Line,
) {
    let now = Instant::now();
    let pieces = match read {
        Ok(count) if count > 0 && direction == Direction::ToClient => {
            splitter.split(&buffer[..count])
        }
        Ok(count) if count > 0 => vec![Piece {
            bytes: buffer[..count].to_vec(),
            is_ack: false,
        }],
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Vec::new(),
        // A reset ends the stream like an orderly close. A black hole must not let either
        // through.
        Ok(_) | Err(_) => {
            wire.push_end(now);
            splitter.rest().into_iter().collect()
        }
    };
    for piece in pieces {
        wire.push(piece, rand::random(), now);
    }
}

async fn sleep_until(next: Next) {
    match next {
        Next::At(moment) => {
            tokio::time::sleep(moment.saturating_duration_since(Instant::now())).await;
        }
        Next::Write(_) | Next::End | Next::Idle => std::future::pending().await,
    }
}

/// A part of a counter that goes with its owner.
struct Share<'a> {
    counter: &'a AtomicUsize,
    part: usize,
}

impl<'a> Share<'a> {
    fn of(counter: &'a AtomicUsize, part: usize) -> Self {
        counter.fetch_add(part, Ordering::SeqCst);
        Self { counter, part }
    }

    fn set(&mut self, part: usize) {
        self.counter.fetch_add(part, Ordering::SeqCst);
        self.counter.fetch_sub(self.part, Ordering::SeqCst);
        self.part = part;
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.counter.fetch_sub(self.part, Ordering::SeqCst);
    }
}
