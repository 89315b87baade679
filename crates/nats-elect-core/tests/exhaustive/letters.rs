//! Questions between instances: one at a time from each, lost or answered at any time.

use nats_elect_core::letter::{Answer, Question};
use nats_elect_core::{Input, LetterId, QuestionId};

use crate::properties::Witness;
use crate::turn::Turn;

/// A question on its way, or its answer.
#[derive(Clone, Debug, Hash)]
pub struct Letter {
    pub id: QuestionId,
    pub question: Question,
    pub stage: Stage,
    pub age: u8,
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub enum Stage {
    Sent,
    Answered(Answer),
    /// Whoever it reached had nothing to say.
    Unanswered,
}

/// The number that an instance knows a letter by: it answers at once or not at all.
const LETTER: LetterId = LetterId(0);

impl Turn<'_> {
    pub fn ask(&mut self, index: usize, id: QuestionId, question: Question) {
        self.process(index).letter = Some(Letter {
            id,
            question,
            stage: Stage::Sent,
            age: 0,
        });
    }

    /// The question reaches another instance.
    pub fn deliver(&mut self, from: usize, to: usize) {
        let letter = self.process(from).letter.as_mut().expect("on its way");
        letter.stage = Stage::Unanswered;
        let question = letter.question.clone();
        self.correspondent = Some(from);
        let letter = LETTER;
        self.input(to, Input::Asked { letter, question });
        self.correspondent = None;
    }

    pub fn answer_letter(&mut self, answer: Answer) {
        if matches!(answer, Answer::Yielding) {
            self.witness(Witness::Yielded);
        }
        let from = self.correspondent.expect("somebody asks");
        if let Some(letter) = &mut self.process(from).letter {
            letter.stage = Stage::Answered(answer);
        }
    }

    /// The answer comes in, or time is up.
    pub fn hear_answer(&mut self, index: usize, lost: bool) {
        let letter = self.process(index).letter.take().expect("on its way");
        let answer = match letter.stage {
            Stage::Answered(answer) if !lost => Some(answer),
            _ => None,
        };
        let question = letter.id;
        self.input(index, Input::Answered { question, answer });
    }
}
