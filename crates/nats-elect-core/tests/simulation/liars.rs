//! Clients that lie to the instances: made-up candidates answer that they are ready, made-up heirs
//! stand in strangers' records, and nobody's takeover requests reach the leader.

use nats_elect_core::PeerRequestId;
use nats_elect_core::heirs::Heirs;
use nats_elect_core::peer::{Contender, PeerReply, PeerRequest};
use nats_elect_core::record::Content;
use uuid::Uuid;

use crate::chance::Chance;
use crate::happening::Happening;
use crate::peers::PeerMessage;
use crate::world::{World, ms};

/// The liars of a world, until all faults end.
#[derive(Debug)]
pub struct Liars(Chance);

impl Liars {
    /// In a quarter of the fleets there are liars. Drawn apart from all else, and so that the seeds
    /// in `found` stay what they were.
    pub const fn are_in(seed: u64) -> bool {
        Chance::new(seed ^ 0x11ac_0000_0000_0000).permille(250)
    }

    pub const fn of_seed(seed: u64) -> Self {
        Self(Chance::new(seed ^ 0x11ac_0001_0000_0000))
    }

    /// Nobody, or one of the instances with a rank that it does not have.
    fn contender(&mut self, instances: &[Uuid]) -> Contender {
        let incarnation = if self.0.permille(700) {
            self.0.uuid()
        } else {
            self.0.pick(instances)
        };
        Contender {
            id: "liar".to_owned(),
            incarnation,
            priority: self.0.pick(&[i64::MIN, 0, 1, i64::MAX]),
        }
    }
}

impl World {
    /// Liars hear each question, and answer it.
    pub fn lie(&mut self, from: usize, id: PeerRequestId, question: &PeerRequest) {
        let instances = self.incarnations();
        let Some(liars) = &mut self.liars else {
            return;
        };
        let mut lies = Vec::new();
        for _ in 0..liars.0.below(5) {
            let contender = liars.contender(&instances);
            let answer = if liars.0.permille(100) {
                PeerReply::Yielding
            } else {
                PeerReply::Ready { contender }
            };
            lies.push((liars.0.upto(ms(3)), answer));
        }
        let by = liars.contender(&instances);
        let asks = liars.0.permille(50);
        let is_to_all = matches!(question, PeerRequest::Ready { to: None, .. });
        for (after, answer) in lies {
            self.tally.lies += 1;
            self.lied_to(from, id, after, answer);
        }
        let nonce = self.bucket.role().and_then(|role| role.content.nonce());
        if let (true, true, Some(record)) = (asks, is_to_all, nonce) {
            let question = PeerRequest::hand_over(record, by);
            let reply_to = PeerMessage::of_nobody(id, question);
            let node = from;
            self.schedule(self.now, Happening::PeerMessage { node, reply_to });
        }
    }

    /// A stranger's record, perhaps with made-up heirs.
    pub fn with_heirs(&mut self, mut content: Content) -> Content {
        let instances = self.incarnations();
        if let (Some(liars), Content::Record(record)) = (&mut self.liars, &mut content) {
            let count = liars.0.below(4);
            let heirs = (0..count).map(|_| liars.contender(&instances).incarnation);
            record.heirs = heirs.collect::<Heirs>();
        }
        content
    }

    fn incarnations(&self) -> Vec<Uuid> {
        let nodes = self.nodes.iter();
        nodes.map(|node| node.candidate.incarnation).collect()
    }
}
