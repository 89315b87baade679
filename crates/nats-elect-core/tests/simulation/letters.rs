//! Questions between instances, as the courier carries them: over the same network, and apart from the bucket.

use std::time::Duration;

use nats_elect_core::letter::Refusal;
use nats_elect_core::letter::{Answer, Question};
use nats_elect_core::{Input, LetterId, QuestionId};

use crate::network::Fate;
use crate::node::Health;
use crate::world::{Happening, World};

/// A question on its way: who asked, in which life.
#[derive(Clone, Debug)]
pub struct Letter {
    from: usize,
    life: u64,
    id: QuestionId,
    question: Question,
}

impl World {
    /// An election asks the others.
    pub fn inquire(&mut self, from: usize, id: QuestionId, question: &Question, within: Duration) {
        let end = self.now + within;
        self.schedule(end, answered(from, id, None));
        if matches!(question, Question::Yield { .. }) && !self.is_well(from) {
            let why = Refusal::Unhealthy;
            let answer = Some(Answer::Refused { why });
            self.schedule(self.now, answered(from, id, answer));
            return;
        }
        let letter = Letter {
            from,
            life: self.nodes[from].life,
            id,
            question: question.clone(),
        };
        if !self.nodes[from].linked || !self.nodes[from].wire.carries_requests() {
            return;
        }
        for node in 0..self.nodes.len() {
            for at in self.arrivals() {
                let letter = letter.clone();
                self.schedule(at, Happening::Letter { node, letter });
            }
        }
    }

    pub fn letter_arrives(&mut self, node: usize, letter: Letter) {
        let reader = &self.nodes[node];
        if !reader.linked || !reader.wire.carries_answers() || reader.election.is_none() {
            return;
        }
        let number = LetterId(u64::try_from(self.letters.len()).expect("not so many"));
        let question = letter.question.clone();
        self.letters.push(letter);
        let letter = number;
        self.input(node, Input::Asked { letter, question });
    }

    /// An election answers a letter.
    pub fn answer_letter(&mut self, node: usize, LetterId(number): LetterId, answer: Answer) {
        let index = usize::try_from(number).expect("not so many");
        let Letter { from, life, id, .. } = self.letters[index];
        if !self.nodes[node].linked || !self.nodes[node].wire.carries_requests() {
            return;
        }
        let answer = if matches!(answer, Answer::Ready { .. }) && !self.is_well(node) {
            let why = Refusal::Unhealthy;
            Answer::Refused { why }
        } else {
            answer
        };
        if life != self.nodes[from].life {
            return;
        }
        for at in self.arrivals() {
            self.schedule(at, answered(from, id, Some(answer.clone())));
        }
    }

    pub fn answer_arrives(&mut self, node: usize, id: QuestionId, answer: Option<Answer>) {
        let reader = &self.nodes[node];
        if answer.is_none() || reader.linked && reader.wire.carries_answers() {
            let question = id;
            self.input(node, Input::Answered { question, answer });
        }
    }

    /// When a message comes through: not at all, once, or twice.
    fn arrivals(&mut self) -> Vec<Duration> {
        let latency = self.weather.latency.clone();
        let there = self.now + self.letter_chance.within(&latency);
        match self.weather.fate(&mut self.letter_chance) {
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
            Health::Flapping => self.letter_chance.permille(500),
        }
    }
}

const fn answered(node: usize, id: QuestionId, answer: Option<Answer>) -> Happening {
    Happening::LetterAnswered { node, id, answer }
}
