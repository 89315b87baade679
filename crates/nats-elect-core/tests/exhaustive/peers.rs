//! Questions between instances: one at a time from each, lost or answered at any time.

use nats_elect_core::peer::{PeerReply, PeerRequest};
use nats_elect_core::{Input, PeerRequestId, ReplyId};

use crate::properties::Witness;
use crate::turn::Turn;

/// A question on its way, or its answer.
#[derive(Clone, Debug, Hash)]
pub struct PeerMessage {
    pub id: PeerRequestId,
    pub question: PeerRequest,
    pub stage: Stage,
    pub age: u8,
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub enum Stage {
    Sent,
    Answered(PeerReply),
    /// Whoever it reached had nothing to say.
    Unanswered,
}

/// The number that an instance knows a peer message by: it answers at once or not at all.
const FIRST: ReplyId = ReplyId(0);

impl Turn<'_> {
    /// An instance asks. For its question before this one the time is up.
    pub fn ask(&mut self, index: usize, id: PeerRequestId, question: PeerRequest) -> Option<Input> {
        let before = self.process(index).reply_to.replace(PeerMessage {
            id,
            question,
            stage: Stage::Sent,
            age: 0,
        });
        before.map(|before| Input::PeerReplied {
            question: before.id,
            answer: None,
        })
    }

    /// The question reaches another instance.
    pub fn deliver(&mut self, from: usize, to: usize) {
        let reply_to = self.process(from).reply_to.as_mut().expect("on its way");
        reply_to.stage = Stage::Unanswered;
        let question = reply_to.question.clone();
        self.correspondent = Some(from);
        let reply_to = FIRST;
        self.input(to, Input::PeerAsked { reply_to, question });
        self.correspondent = None;
    }

    pub fn answer_peer(&mut self, answer: PeerReply) {
        if matches!(answer, PeerReply::Yielding) {
            self.witness(Witness::Yielded);
        }
        let from = self.correspondent.expect("somebody asks");
        if let Some(reply_to) = &mut self.process(from).reply_to {
            reply_to.stage = Stage::Answered(answer);
        }
    }

    /// The answer comes in, or time is up.
    pub fn hear_answer(&mut self, index: usize, lost: bool) {
        let reply_to = self.process(index).reply_to.take().expect("on its way");
        let answer = match reply_to.stage {
            Stage::Answered(answer) if !lost => Some(answer),
            _ => None,
        };
        let question = reply_to.id;
        self.input(index, Input::PeerReplied { question, answer });
    }
}
