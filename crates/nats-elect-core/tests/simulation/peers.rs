//! Questions between instances, as the courier carries them: over the same network, and apart from
//! the bucket.

use std::time::Duration;

use nats_elect_core::heirs::Heirs;
use nats_elect_core::peer::Refusal;
use nats_elect_core::peer::{PeerReply, PeerRequest};
use nats_elect_core::{Input, PeerRequestId, ReplyId};

use crate::happening::Happening;
use crate::network::Fate;
use crate::node::Health;
use crate::world::World;

/// A question on its way: who asked, in which life.
#[derive(Clone, Debug)]
pub struct PeerMessage {
    from: usize,
    life: u64,
    id: PeerRequestId,
    question: PeerRequest,
}

impl PeerMessage {
    /// A question that no instance asked. Its answer goes nowhere.
    pub const fn of_nobody(id: PeerRequestId, question: PeerRequest) -> Self {
        Self {
            from: 0,
            life: u64::MAX,
            id,
            question,
        }
    }
}

impl World {
    /// An election asks the others.
    pub fn inquire(
        &mut self,
        from: usize,
        id: PeerRequestId,
        question: &PeerRequest,
        among: Heirs,
        within: Duration,
    ) {
        let asked = |node: &usize| {
            let candidate = &self.nodes[*node].candidate;
            among.is_empty() || among.has(candidate.incarnation)
        };
        let asked: Vec<usize> = (0..self.nodes.len()).filter(asked).collect();
        let end = if asked.is_empty() {
            // The server says that nobody is there.
            self.now + self.weather.latency.start
        } else {
            self.now + within
        };
        self.schedule(end, answered(from, id, None));
        if matches!(question, PeerRequest::Yield { .. }) && !self.is_well(from) {
            let why = Refusal::Unhealthy;
            let answer = Some(PeerReply::Refused { why });
            self.schedule(self.now, answered(from, id, answer));
            return;
        }
        let reply_to = PeerMessage {
            from,
            life: self.nodes[from].life,
            id,
            question: question.clone(),
        };
        if self.deaf || !self.nodes[from].linked || !self.nodes[from].wire.carries_requests() {
            return;
        }
        for node in asked {
            for at in self.arrivals() {
                let reply_to = reply_to.clone();
                self.schedule(at, Happening::PeerMessage { node, reply_to });
            }
        }
        self.lie(from, id, question);
    }

    /// An answer of somebody who is no instance.
    pub fn lied_to(&mut self, node: usize, id: PeerRequestId, after: Duration, lie: PeerReply) {
        let at = self.now + after;
        self.schedule(at, answered(node, id, Some(lie)));
    }

    pub fn peer_message_arrives(&mut self, node: usize, reply_to: PeerMessage) {
        let reader = &self.nodes[node];
        if !reader.linked || !reader.wire.carries_answers() || reader.election.is_none() {
            return;
        }
        let number = ReplyId(u64::try_from(self.peers.len()).expect("not so many"));
        let question = reply_to.question.clone();
        self.peers.push(reply_to);
        let reply_to = number;
        self.input(node, Input::PeerAsked { reply_to, question });
    }

    /// An election answers a peer message.
    pub fn answer_peer(
        &mut self,
        node: usize,
        ReplyId(number): ReplyId,
        answer: PeerReply,
        after: Duration,
    ) {
        let index = usize::try_from(number).expect("not so many");
        let PeerMessage { from, life, id, .. } = self.peers[index];
        if !self.nodes[node].linked || !self.nodes[node].wire.carries_requests() {
            return;
        }
        let answer = if matches!(answer, PeerReply::Ready { .. }) && !self.is_well(node) {
            let why = Refusal::Unhealthy;
            PeerReply::Refused { why }
        } else {
            answer
        };
        if life != self.nodes[from].life {
            return;
        }
        for at in self.arrivals() {
            self.schedule(at + after, answered(from, id, Some(answer.clone())));
        }
    }

    pub fn answer_arrives(&mut self, node: usize, id: PeerRequestId, answer: Option<PeerReply>) {
        let reader = &self.nodes[node];
        if answer.is_none() || reader.linked && reader.wire.carries_answers() {
            let question = id;
            self.input(node, Input::PeerReplied { question, answer });
        }
    }

    /// When a message comes through: not at all, once, or twice.
    fn arrivals(&mut self) -> Vec<Duration> {
        let latency = self.weather.latency.clone();
        let there = self.now + self.peer_chance.within(&latency);
        match self.weather.fate(&mut self.peer_chance) {
            Fate::Lost | Fate::AckLost | Fate::Doubted => Vec::new(),
            Fate::Ghost(after) => vec![there + after],
            Fate::Twice(after) => vec![there, there + after],
            _ => vec![there],
        }
    }

    fn is_well(&mut self, node: usize) -> bool {
        match self.nodes[node].health {
            Health::Well => true,
            Health::Ill => false,
            Health::Flapping => self.peer_chance.permille(500),
        }
    }
}

const fn answered(node: usize, id: PeerRequestId, answer: Option<PeerReply>) -> Happening {
    Happening::PeerReplied { node, id, answer }
}
