//! What happens on the server's side: requests arrive, keys expire, watchers are told.

use std::time::Duration;

use nats_elect::FailureKind;
use nats_elect::internals::{Content, Entry, OpId, WriteOutcome};

use crate::checkers::Note;
use crate::node::Trouble;
use crate::world::{Answer, Happening, Request, World, ms};

impl World {
    pub fn arrive(&mut self, node: usize, op: OpId, request: Request, answered: Option<Duration>) {
        let read = matches!(request, Request::Read { .. });
        if self.now < self.outage_until {
            self.arrive_in_an_outage(node, op, request, answered);
            return;
        }
        let answer = if self.bucket.exists {
            match request {
                Request::Write(write) => {
                    let late = self.bucket.is_role_overdue(self.now);
                    let outcome = self.bucket.write(&write, self.now);
                    self.say(node, "write arrives", &(&write, &outcome));
                    if let WriteOutcome::Acked { revision } = outcome {
                        self.tell(&Note::Committed {
                            write: &write,
                            revision,
                        });
                        self.announce();
                        if late && self.chance.permille(self.weather.wiped) {
                            let at = self.now + self.chance.upto(ms(250));
                            self.schedule(at, Happening::Wipe { revision });
                        }
                    }
                    Answer::Write(outcome)
                }
                Request::Read { check_bucket } => {
                    let stale = self.chance.permille(self.weather.stale_read);
                    Answer::Read(Ok(self.read(check_bucket, stale)))
                }
            }
        } else {
            Answer::failed(read, FailureKind::BucketMissing)
        };
        if let Some(back) = answered {
            self.schedule(self.now + back, Happening::Answer { node, op, answer });
        }
    }

    fn read(&mut self, check_bucket: bool, stale: bool) -> nats_elect::internals::Snapshot {
        if stale {
            self.tally.stale_reads += 1;
            let ago = 1 + usize::try_from(self.chance.below(3)).expect("small");
            self.bucket.stale_snapshot(check_bucket, ago)
        } else {
            self.bucket.snapshot(check_bucket)
        }
    }

    /// A stream without a leader loses a request, refuses it, or keeps it until there is a leader again. One that has
    /// lost its office without knowing still answers reads.
    fn arrive_in_an_outage(
        &mut self,
        node: usize,
        op: OpId,
        request: Request,
        answered: Option<Duration>,
    ) {
        let read = matches!(request, Request::Read { .. });
        match self.chance.below(3) {
            0 => {}
            1 if read && self.bucket.exists => {
                if let (Some(back), Request::Read { check_bucket }) = (answered, request) {
                    let stale = self.chance.permille(500);
                    let answer = Answer::Read(Ok(self.read(check_bucket, stale)));
                    self.schedule(self.now + back, Happening::Answer { node, op, answer });
                }
            }
            2 if !read => {
                let life = self.nodes[node].life;
                let at = self.outage_until + self.chance.upto(ms(20));
                self.tally.ghosts += 1;
                self.schedule(
                    at,
                    Happening::Arrive {
                        node,
                        op,
                        request,
                        answered,
                        life,
                    },
                );
            }
            _ => {
                if let Some(back) = answered {
                    let answer = Answer::failed(read, FailureKind::Unavailable);
                    self.schedule(self.now + back, Happening::Answer { node, op, answer });
                }
            }
        }
    }

    /// A foreign write to the role's key, which watchers see.
    pub fn put(&mut self, content: Content) {
        if self.bucket.exists {
            self.bucket.put(content, self.now);
            self.announce();
        }
    }

    /// The bucket is deleted and made anew. The instances are told only by what they see.
    pub fn recreate(&mut self) {
        // It takes time; and no two have the same creation time.
        self.run(ms(20));
        self.make_anew();
    }

    pub fn make_anew(&mut self) {
        self.bucket.recreate(self.now);
        let reused = !self.bucket.made.unique_sequences;
        self.tell(&Note::HistoryLost {
            reused,
            noticed: true,
        });
    }

    /// The last confirmed writes are gone.
    pub fn lose_tail(&mut self, writes: usize) {
        self.bucket.lose_tail(writes);
        self.tell(&Note::HistoryLost {
            reused: true,
            noticed: false,
        });
    }

    pub fn expire(&mut self) {
        if self.bucket.expire(self.now) {
            self.announce();
        } else if let Some(at) = self.bucket.next_expiry().filter(|at| *at > self.now) {
            self.schedule(at, Happening::Expire);
        }
    }

    /// The expiry of an older message wipes a write that came after it was due.
    pub fn wipe(&mut self, revision: u64) {
        let stands = |entry: &Entry| entry.revision == revision;
        if self.bucket.exists && self.bucket.role().is_some_and(stands) {
            self.tally.wiped += 1;
            if self.bucket.expiry_markers {
                self.put(Content::ForeignMarker);
            } else {
                self.bucket.purge();
            }
        }
    }

    pub fn announce(&mut self) {
        let Some(entry) = self.bucket.role().cloned() else {
            return;
        };
        for node in 0..self.nodes.len() {
            self.show(node, entry.clone());
        }
        if let Some(at) = self.bucket.next_expiry() {
            let late = self.weather.expiry_late.clone();
            let at = at + self.chance.within(&late);
            self.schedule(at, Happening::Expire);
        }
    }

    /// The watch of one process brings an entry, in order.
    pub fn show(&mut self, node: usize, entry: Entry) {
        let lost = self.chance.permille(self.weather.watch_lost);
        let twice = self.chance.permille(self.weather.watch_twice);
        let delay = self.weather.watch_delay.clone();
        let at = self.now + self.chance.within(&delay);
        let watcher = &mut self.nodes[node];
        let silent = !watcher.watching || !watcher.wire.carries_answers() || !watcher.linked;
        if lost || silent {
            self.tally.unwatched += 1;
            return;
        }
        watcher.watched_until = watcher.watched_until.max(at);
        let at = watcher.watched_until;
        if twice {
            let entry = entry.clone();
            self.schedule(at, Happening::Watch { node, entry });
        }
        self.schedule(at, Happening::Watch { node, entry });
    }

    /// The watch is made anew: it begins with what stands there.
    pub fn watch_again(&mut self, node: usize) {
        self.nodes[node].watching = true;
        self.nodes[node].troubles.remove(&Trouble::Unwatched);
        if let Some(entry) = self.bucket.role().cloned() {
            self.show(node, entry);
        }
    }
}
