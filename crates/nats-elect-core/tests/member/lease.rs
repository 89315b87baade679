//! The lease of a member, as its driver keeps it.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use nats_elect_core::Moment;
use nats_elect_core::assignment::{Epoch, MemberRecord, Value};
use nats_elect_core::member::{Input, Lease, Member, Over};
use nats_elect_core::name::InstanceId;
use nats_elect_core::record::Nonce;

use crate::event::What;
use crate::network::TIMEOUT;
use crate::world::World;

/// A lease that is claimed or held.
#[derive(Clone, Debug)]
pub struct Keeping {
    pub epoch: Epoch,
    pub ttl: Duration,
    /// When the claim was sent.
    pub claimed: Moment,
    /// The last sequence that is known to be the own one. 0: the claim is not confirmed.
    pub sequence: u64,
    /// The sequence that was shown.
    pub shown: u64,
    pub until: Moment,
    /// Beats that may be stored: when they were sent, and their stamps.
    pub sent: BTreeMap<u64, (Moment, u64)>,
    /// The beat that is under way, and when its time is over.
    pub flying: Option<(u64, Moment)>,
    /// Whether another one is wanted.
    pub again: bool,
    pub next_beat: Moment,
}

impl Keeping {
    /// When the lease is over, or the claim is given up.
    pub fn over(&self) -> Moment {
        if self.is_held() {
            self.until
        } else {
            self.claimed + self.ttl * 9 / 10
        }
    }

    pub fn is_held(&self) -> bool {
        self.until > Moment::default()
    }
}

impl World {
    pub fn claim(&mut self, number: usize) {
        let (high, low) = (self.chance.next(), self.chance.next());
        let epoch = Epoch::new(Uuid::from_u64_pair(high, low).into_bytes());
        let node = &mut self.nodes[number];
        if node.leaves {
            return;
        }
        node.keeping = Some(Keeping {
            epoch,
            ttl: node.ttl,
            claimed: self.now,
            sequence: 0,
            shown: 0,
            until: Moment::default(),
            sent: BTreeMap::new(),
            flying: None,
            again: true,
            next_beat: self.now,
        });
        self.log(|| format!("n{number} claims {epoch}"));
        self.beat(number);
    }

    /// What is due of the lease.
    pub fn keep(&mut self, number: usize) {
        let now = self.now;
        let Some(keeping) = &mut self.nodes[number].keeping else {
            return;
        };
        let epoch = keeping.epoch;
        if keeping.over() <= now {
            return self.lose(number, epoch);
        }
        if keeping.flying.is_some_and(|(_, at)| at <= now) {
            // No answer: what is stored tells.
            keeping.flying = None;
            keeping.next_beat = now + Duration::from_millis(100);
            self.read(number, Self::member_key(epoch));
            self.read(number, Self::map_key());
        }
        self.beat(number);
        self.step(number, Input::Tick);
    }

    fn lose(&mut self, number: usize, epoch: Epoch) {
        self.log(|| format!("n{number} loses {epoch}"));
        self.nodes[number].keeping = None;
        self.step(number, Input::LeaseLost(epoch));
        self.claim(number);
        self.step(number, Input::Tick);
    }

    /// Sends a heartbeat or the claim, if one is due and none is under way.
    pub fn beat(&mut self, number: usize) {
        let (now, incarnation) = (self.now, Uuid::from_u128(number as u128 + 1));
        let node = &mut self.nodes[number];
        let Some(acknowledgement) = node.member.as_ref().map(Member::acknowledgement) else {
            return;
        };
        let Some(keeping) = &mut node.keeping else {
            return;
        };
        let is_first = keeping.sequence == 0;
        if keeping.flying.is_some()
            || !(keeping.again || keeping.next_beat <= now)
            || (is_first && !keeping.sent.is_empty())
        {
            return;
        }
        node.beat += 1;
        let nonce = Nonce {
            incarnation,
            beat: node.beat,
        };
        let id = InstanceId::new(&node.id).expect("a name");
        let mut record = MemberRecord::new(keeping.epoch, id, nonce, keeping.ttl);
        keeping.sent.insert(node.beat, (now, acknowledgement.stamp));
        if is_first {
            record.waits = acknowledgement.waits;
        } else {
            acknowledgement.tell(&mut record);
        }
        keeping.flying = Some((node.beat, now + TIMEOUT));
        keeping.again = false;
        keeping.next_beat = now + keeping.ttl / 3;
        let (what, over) = (What::Beat(node.beat), Over::Sequence(keeping.sequence));
        let key = Self::member_key(keeping.epoch);
        self.send(number, what, key, over, record.to_json());
    }

    pub fn beat_ended(&mut self, number: usize, beat: u64, stored: Option<u64>) {
        let Some(keeping) = &mut self.nodes[number].keeping else {
            return;
        };
        let epoch = keeping.epoch;
        if !keeping.sent.contains_key(&beat) {
            return;
        }
        if keeping.flying.is_some_and(|(it, _)| it == beat) {
            keeping.flying = None;
        }
        match stored {
            Some(sequence) => {
                keeping.sequence = keeping.sequence.max(sequence);
                let is_deaf = self.nodes[number].deaf_until > self.now;
                if is_deaf {
                    self.read(number, Self::member_key(epoch));
                    self.read(number, Self::map_key());
                }
            }
            None => self.read(number, Self::member_key(epoch)),
        }
        self.beat(number);
        self.step(number, Input::Tick);
    }

    /// The own key was shown.
    pub fn shown_own(&mut self, number: usize, sequence: u64, value: &Value) {
        let Some(keeping) = &mut self.nodes[number].keeping else {
            return;
        };
        if sequence <= keeping.shown {
            return;
        }
        let epoch = keeping.epoch;
        let sent = match value {
            Value::Member(it) => keeping.sent.get(&it.beat).copied(),
            _ => None,
        };
        let Some((sent, stamp)) = sent else {
            if sequence > keeping.sequence {
                self.lose(number, epoch);
            }
            return;
        };
        keeping.shown = sequence;
        keeping.sequence = keeping.sequence.max(sequence);
        let until = sent + keeping.ttl;
        if until <= self.now || (keeping.is_held() && keeping.until <= self.now) {
            return;
        }
        keeping.until = keeping.until.max(until);
        let lease = Lease {
            epoch,
            until: keeping.until,
            sequence,
            stamp,
        };
        self.step(number, Input::Leased(lease));
    }
}
