//! Watches: each shows what stands there in the stream's order, then what follows. It leaves out
//! what was overwritten before the server came to it. Or it breaks.

use std::sync::Arc;
use std::time::Duration;

use nats_elect_core::Input;
use nats_elect_core::group::{GroupContent, GroupInput, GroupKey, Message};

use super::requests::entry;
use super::stream::{Body, Stored};
use super::world::{Happening, World};
use crate::network::Wire;

/// A member begins its watch anew after so long.
pub const WATCH_ANEW: Duration = Duration::from_secs(300);

/// A watch of a process, and the server's side of it.
#[derive(Debug)]
pub struct Watch {
    pub id: u64,
    /// The last sequence that the server has read for it.
    position: u64,
    /// The last sequence of the stream, by its leader, when the watch began. It has caught up when
    /// that is shown.
    catches_up: Option<u64>,
    /// The process learns that only after what was stored since, as far as it has arrived.
    learns_late: bool,
    /// The server reads on then.
    pub stalled_until: Duration,
    /// Its server's copy of the stream is behind by so much.
    pub lag: Duration,
    /// When its last message arrives.
    shown_until: Duration,
    /// Nothing comes from it any more, and its process does not know.
    pub broken: bool,
}

/// What a watch brings.
#[derive(Clone, Debug)]
pub enum Brought {
    Began,
    Message(Arc<Stored>),
    CaughtUp(u64),
}

impl World {
    /// Gives up the watch, and asks for a new one where messages get through.
    pub fn watch(&mut self, node: usize, lag: Duration) {
        let at = &mut self.nodes[node];
        let Some(process) = &mut at.process else {
            return;
        };
        process.watch = None;
        if !at.linked || !at.wire.carries_requests() {
            return;
        }
        let life = at.life;
        let when = self.now + self.latency();
        self.schedule(when, Happening::Watch { node, life, lag });
    }

    /// The server begins a watch.
    pub fn begin_watch(&mut self, node: usize, lag: Duration) {
        if self.now < self.outage_until {
            let life = self.nodes[node].life;
            let when = self.outage_until + self.latency();
            self.schedule(when, Happening::Watch { node, life, lag });
            return;
        }
        self.last_watch += 1;
        let id = self.last_watch;
        let (last, now) = (self.stream.last, self.now);
        let slow = self.chance.permille(self.weather.watch_lost);
        let stalled = if slow {
            self.chance.upto(self.slow_watch)
        } else {
            Duration::ZERO
        };
        let lagged = (!lag.is_zero()).then(|| self.stream.standing_at(now.saturating_sub(lag)));
        let learns_late = self.chance.permille(500);
        let Some(process) = &mut self.nodes[node].process else {
            return;
        };
        process.watch = Some(Watch {
            id,
            position: 0,
            catches_up: Some(last),
            learns_late,
            stalled_until: now + stalled,
            lag,
            shown_until: now,
            broken: false,
        });
        self.tally.watches += 1;
        self.bring(node, id, Brought::Began);
        if let Some(standing) = lagged {
            for stored in standing {
                self.bring(node, id, Brought::Message(stored));
            }
            let since = now.saturating_sub(lag);
            let later = self.stream.log.iter().filter(|it| it.at > since);
            for stored in later.cloned().collect::<Vec<_>>() {
                self.bring(node, id, Brought::Message(stored));
            }
            self.bring(node, id, Brought::CaughtUp(last));
            if let Some(watch) = self.watch_of(node, id) {
                watch.position = last;
                watch.catches_up = None;
            }
        } else if slow {
            self.read_on(node, true);
            let life = self.nodes[node].life;
            self.schedule(now + stalled, Happening::ReadOn { node, life });
        } else {
            self.read_on(node, false);
        }
    }

    pub fn watch_anew(&mut self, node: usize, id: u64) {
        if self.watch_of(node, id).is_some() {
            self.watch(node, Duration::ZERO);
        }
    }

    fn watch_of(&mut self, node: usize, id: u64) -> Option<&mut Watch> {
        let watch = self.nodes[node].process.as_mut()?.watch.as_mut();
        watch.filter(|watch| watch.id == id)
    }

    /// All watches are shown what is new.
    pub fn announce(&mut self) {
        for node in 0..self.nodes.len() {
            self.read_on(node, false);
        }
    }

    /// The server reads on for the watch of a process. `half`: a new one only up to about there.
    pub fn read_on(&mut self, node: usize, half: bool) {
        let process = self.nodes[node].process.as_mut();
        let Some(watch) = process.and_then(|process| process.watch.as_mut()) else {
            return;
        };
        let begins = half && watch.position == 0 && watch.catches_up.is_some();
        if watch.broken || (self.now < watch.stalled_until && !begins) {
            return;
        }
        let id = watch.id;
        let mut unread: Vec<_> = self.stream.after(watch.position).cloned().collect();
        if begins {
            unread.truncate(unread.len() / 2);
        }
        let target = watch.catches_up;
        watch.position = match unread.last() {
            Some(stored) if begins => stored.sequence,
            None if begins => 0,
            _ => watch.position.max(self.stream.last),
        };
        if !begins {
            watch.catches_up = None;
        }
        let learns_late = watch.learns_late;
        let (before, after): (Vec<_>, Vec<_>) = match target {
            Some(target) => unread
                .into_iter()
                .partition(|it| learns_late || it.sequence <= target),
            None => (Vec::new(), unread),
        };
        for stored in before {
            self.bring(node, id, Brought::Message(stored));
        }
        if let Some(target) = target.filter(|_| !begins) {
            self.bring(node, id, Brought::CaughtUp(target));
        }
        for stored in after {
            self.bring(node, id, Brought::Message(stored));
        }
    }

    /// A message of a watch is on its way. They arrive in order.
    fn bring(&mut self, node: usize, id: u64, brought: Brought) {
        let delay = self.weather.watch_delay.clone();
        let on_its_way = self.chance.within(&delay);
        let (now, life) = (self.now, self.nodes[node].life);
        let Some(watch) = self.watch_of(node, id) else {
            return;
        };
        let at = (now + on_its_way + watch.lag).max(watch.shown_until);
        watch.shown_until = at;
        self.schedule(
            at,
            Happening::Brought {
                node,
                life,
                watch: id,
                brought,
            },
        );
    }

    pub fn brought(&mut self, node: usize, id: u64, brought: Brought) {
        let open = matches!(self.nodes[node].wire, Wire::Whole | Wire::Mute);
        let linked = self.nodes[node].linked;
        let Some(watch) = self.watch_of(node, id) else {
            return;
        };
        // One message that is missing ends the watch.
        watch.broken |= !open || !linked;
        if watch.broken {
            return;
        }
        let input = match brought {
            Brought::Began => {
                let (at, life) = (self.now + WATCH_ANEW, self.nodes[node].life);
                let watch = id;
                self.schedule(at, Happening::WatchAnew { node, life, watch });
                GroupInput::WatchBegan
            }
            Brought::CaughtUp(last) => {
                let members = self.stream.keys().filter_map(GroupKey::member).collect();
                let is_read = !self.chance.permille(self.weather.lost);
                GroupInput::CaughtUp {
                    last,
                    members: is_read.then_some(members),
                }
            }
            Brought::Message(stored) => {
                let message = self.understand(node, &stored);
                if let GroupKey::Member(epoch) = stored.key
                    && let Some(entry) = entry(&stored)
                {
                    self.keeper_input(node, epoch, Input::Observed(entry));
                }
                GroupInput::Shown(message)
            }
        };
        self.group_input(node, input);
    }

    /// A message as the driver hands it to the machine: with the signatures that it can check.
    fn understand(&mut self, node: usize, stored: &Stored) -> Message {
        let content = match (&stored.key, &stored.body) {
            (GroupKey::Member(epoch), Body::Member(_, content)) => {
                GroupContent::Member(*epoch, content.clone())
            }
            (GroupKey::Group(name), Body::Group(record)) => {
                GroupContent::Group(name.clone(), *record)
            }
            (GroupKey::Unit(key), Body::Unit(record, signature)) => {
                let process = self.nodes[node].process.as_ref();
                let proves = signature.as_ref().filter(|it| {
                    it.key == *key
                        && Some(it.over) == stored.over
                        && Some(it.record) == *record
                        && process.is_some_and(|process| {
                            let giver = process.group.giver(key, it.over);
                            giver.is_some_and(|(giver, _)| giver == it.by)
                        })
                });
                GroupContent::Unit {
                    key: key.clone(),
                    record: *record,
                    signed: proves.map(|it| it.by),
                }
            }
            (key, body) => unreachable!("{body:?} under {key}"),
        };
        Message {
            sequence: stored.sequence,
            over: stored.over,
            content,
        }
    }
}
