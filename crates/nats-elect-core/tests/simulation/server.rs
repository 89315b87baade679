//! What happens on the server's side: requests arrive, keys expire, watchers are told.

use std::time::Duration;

use nats_elect_core::event::FailureKind;
use nats_elect_core::record::{Content, Entry, FenceRecord, Snapshot};
use nats_elect_core::{OpId, WriteKind, WriteOutcome};

use crate::checkers::Note;
use crate::happening::{Answer, Happening, Part, Reading, Request, Shown};
use crate::node::Trouble;
use crate::world::{World, ms};

impl World {
    pub fn arrive(&mut self, node: usize, op: OpId, request: Request, answered: Option<Duration>) {
        let read = matches!(request, Request::Read);
        if self.now < self.outage_until {
            self.arrive_in_an_outage(node, op, request, answered);
            return;
        }
        let Request::Write(write) = request else {
            if let Some(back) = answered {
                self.begin_reading(node, op, back);
            }
            return;
        };
        if let Some(refusing) = self.refusing.filter(|it| self.now < it.until) {
            self.tally.refused += 1;
            if let (Some(kind), Some(back)) = (refusing.told, answered) {
                let answer = Answer::failed(read, kind);
                self.schedule(self.now + back, Happening::Answer { node, op, answer });
            }
            return;
        }
        let answer = if self.bucket.exists {
            let late = self.bucket.is_role_overdue(self.now);
            let outcome = self.bucket.write(&write, self.now);
            self.say(node, "write arrives", &(&write, &outcome));
            if let WriteOutcome::Acked { revision } = outcome {
                self.tell(&Note::Committed {
                    write: &write,
                    revision,
                });
                if let WriteKind::Fence { .. } = write.kind {
                    self.announce_fence();
                } else {
                    self.announce();
                }
                if late && self.chance.permille(self.weather.wiped) {
                    let at = self.now + self.chance.upto(ms(250));
                    self.schedule(at, Happening::Wipe { revision });
                }
            }
            Answer::Write(outcome)
        } else {
            Answer::failed(read, FailureKind::BucketMissing)
        };
        if let Some(back) = answered {
            self.schedule(self.now + back, Happening::Answer { node, op, answer });
        }
    }

    /// Both keys are asked for at once, and answered each at its own moment; when both are, the
    /// bucket is looked at.
    fn begin_reading(&mut self, node: usize, op: OpId, back: Duration) {
        let life = self.nodes[node].life;
        let mut reading = Reading {
            node,
            op,
            back,
            life,
            role: Part::Unread,
            fence: Part::Unread,
            epoch: None,
        };
        #[cfg(feature = "__mutations")]
        if nats_elect_core::Mutation::BucketReadFirst.is_on() {
            reading.epoch = Some(self.bucket.made.epoch);
        }
        let ago = self.staleness();
        if self.chance.permille(500) {
            reading.role = Part::Read(self.bucket.role_of(ago, self.now));
        } else {
            reading.fence = Part::Read(self.bucket.fence_of(ago, self.now));
        }
        let between = self.latency();
        self.schedule(self.now + between, Happening::Reading(reading));
    }

    /// By how much the next answer to a read is stale.
    pub fn staleness(&mut self) -> Duration {
        let deposed = self.now < self.outage_until && self.chance.permille(500);
        if deposed || self.chance.permille(self.weather.stale_read) {
            self.tally.stale_reads += 1;
            let longest = self.weather.staleness.max(ms(10));
            return self.chance.upto(longest);
        }
        Duration::ZERO
    }

    pub fn reading(&mut self, mut reading: Reading) {
        let Reading { node, op, .. } = reading;
        if self.nodes[node].life != reading.life {
            return;
        }
        if !self.bucket.exists {
            let answer = Answer::failed(true, FailureKind::BucketMissing);
            let at = self.now + reading.back;
            self.schedule(at, Happening::Answer { node, op, answer });
            return;
        }
        if reading.role.is_unread() || reading.fence.is_unread() {
            let ago = self.staleness();
            if reading.role.is_unread() {
                reading.role = Part::Read(self.bucket.role_of(ago, self.now));
            } else {
                reading.fence = Part::Read(self.bucket.fence_of(ago, self.now));
            }
            let at = self.now + reading.back + self.latency();
            self.schedule(at, Happening::Reading(reading));
            return;
        }
        let snapshot = Snapshot {
            role: reading.role.shown(),
            fence: reading.fence.shown(),
            epoch: reading.epoch.or(Some(self.bucket.made.epoch)),
            last_sequence: Some(self.bucket.last()),
        };
        let answer = Answer::Read(Box::new(Ok(snapshot)));
        let at = self.now + reading.back;
        self.schedule(at, Happening::Answer { node, op, answer });
    }

    /// A stream without a leader loses a request, refuses it, or keeps it until there is a leader
    /// again. One that has lost its office without knowing still answers reads, and refuses writes
    /// by what it knows, while its successor hears them, too.
    fn arrive_in_an_outage(
        &mut self,
        node: usize,
        op: OpId,
        request: Request,
        answered: Option<Duration>,
    ) {
        let read = matches!(request, Request::Read);
        match self.chance.below(3) {
            0 => {}
            1 if read && self.bucket.exists => {
                if let Some(back) = answered {
                    self.begin_reading(node, op, back);
                }
            }
            2 if !read => {
                let life = self.nodes[node].life;
                let at = self.outage_until + self.chance.upto(ms(20));
                self.tally.ghosts += 1;
                let refused = self.refuse_falsely(&request);
                let (answered, refusal) = match (refused, answered) {
                    (Some(refused), Some(back)) => (None, Some((refused, back))),
                    (_, answered) => (answered, None),
                };
                if let Some((current, back)) = refusal {
                    let current = Some(current);
                    let answer = Answer::Write(WriteOutcome::Conflict { current });
                    self.schedule(self.now + back, Happening::Answer { node, op, answer });
                }
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

    fn refuse_falsely(&mut self, request: &Request) -> Option<u64> {
        let Request::Write(write) = request else {
            return None;
        };
        if !self.bucket.exists || !self.chance.permille(400) {
            return None;
        }
        let ago = self.chance.upto(ms(10_000));
        let refused = self.bucket.refusal_of(write, ago, self.now);
        self.tally.refused_falsely += u64::from(refused.is_some());
        refused
    }

    /// The role's key is gone without a trace.
    pub fn purge(&mut self) {
        self.bucket.purge(self.now);
    }

    /// Somebody writes over the fence record.
    pub fn forge_fence(&mut self, fence: &FenceRecord) {
        self.bucket.forge_fence(fence, self.now);
        self.announce_fence();
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
            self.announce_fence();
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
                self.bucket.purge(self.now);
            }
        }
    }

    pub fn announce(&mut self) {
        let Some(entry) = self.bucket.role().cloned() else {
            return;
        };
        for node in 0..self.nodes.len() {
            self.show(node, Shown::Role(entry.clone()));
        }
        if let Some(at) = self.bucket.next_expiry() {
            let late = self.weather.expiry_late.clone();
            let at = at + self.chance.within(&late);
            self.schedule(at, Happening::Expire);
        }
    }

    pub fn announce_fence(&mut self) {
        let Some(fence) = self.bucket.fence().filter(|_| self.fences_watched) else {
            return;
        };
        for node in 0..self.nodes.len() {
            self.show(node, Shown::Fence(fence));
        }
    }

    /// The watch of one process brings an entry, in the order of its key.
    pub fn show(&mut self, node: usize, shown: Shown) {
        let lost = self.chance.permille(self.weather.watch_lost);
        let twice = self.chance.permille(self.weather.watch_twice);
        let delay = self.weather.watch_delay.clone();
        let at = self.now + self.stall() + self.chance.within(&delay);
        let watcher = &mut self.nodes[node];
        let silent = !watcher.watching || !watcher.wire.carries_answers() || !watcher.linked;
        if lost || silent {
            self.tally.unwatched += 1;
            return;
        }
        let kind = usize::from(matches!(shown, Shown::Fence(_)));
        let shown_until = &mut watcher.watched_until[kind];
        *shown_until = at.max(*shown_until);
        let at = *shown_until;
        if twice {
            let shown = shown.clone();
            self.schedule(at, Happening::Watch { node, shown });
        }
        self.schedule(at, Happening::Watch { node, shown });
    }

    /// The watch is made anew: it begins with what stands there. (The fence record may come late, or
    /// never.)
    pub fn watch_again(&mut self, node: usize) {
        self.nodes[node].watching = true;
        self.nodes[node].troubles.remove(&Trouble::Unwatched);
        self.show_all(node);
    }
}
