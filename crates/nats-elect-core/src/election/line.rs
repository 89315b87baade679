//! The line of succession: the candidates that could lead next, as the leader knows them.
//!
//! The leader asks at the start of its term, and every other lease from then on. It names up to
//! three of them in its records, for the case that it crashes, and in its release. So nobody has to
//! be asked when a term ends. All of it is a hint: the heirs claim one after the other, by compare-and-set,
//! when the role is free.

use super::input::PeerRequestId;
use crate::heirs::{Heirs, MOST_HEIRS};
use crate::moment::Moment;
use crate::peer::{Contender, PeerReply};

/// The candidates that said that they could lead, the highest priority first.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Line {
    pub heirs: Vec<Contender>,
    pub poll: Option<Poll>,
    /// When the candidates were last asked.
    pub asked: Option<Moment>,
}

/// The request to all candidates, and who has answered it.
#[derive(Clone, Debug, Hash)]
pub(super) struct Poll {
    pub question: PeerRequestId,
    pub ready: Vec<Contender>,
}

impl Line {
    /// Begins a poll. Where health checks may take longer than a lease, the time of the one before
    /// is not up yet: it ends now.
    pub fn asked(&mut self, question: PeerRequestId, now: Moment) {
        self.asked = Some(now);
        self.close_poll();
        self.poll = Some(Poll {
            question,
            ready: Vec::new(),
        });
    }

    /// Takes a reply, or that the time is up.
    pub fn answered(&mut self, question: PeerRequestId, answer: Option<PeerReply>) {
        let Some(poll) = self.poll.as_mut().filter(|it| it.question == question) else {
            return;
        };
        match answer {
            Some(PeerReply::Ready { contender }) => {
                join(&mut poll.ready, contender.clone());
                join(&mut self.heirs, contender);
            }
            Some(_) => {}
            None => self.close_poll(),
        }
    }

    /// Candidates that did not answer leave the line.
    fn close_poll(&mut self) {
        if let Some(poll) = self.poll.take() {
            self.heirs = poll.ready;
        }
    }

    /// The candidates to ask next, or nobody for all of them. Behind a full line there may be
    /// hundreds, and each question would wake them all. So its heirs alone are asked, unless
    /// another candidate could have a higher priority than they.
    pub fn to_ask(&self, priority: i64) -> Heirs {
        let heirs = self.heirs();
        // A candidate of a higher priority than ours would have taken the role over.
        let best = self.heirs.first().map(|heir| heir.priority);
        if heirs.is_full() && best >= Some(priority) {
            heirs
        } else {
            Heirs::NONE
        }
    }

    pub fn heirs(&self) -> Heirs {
        self.heirs.iter().map(|heir| heir.incarnation).collect()
    }
}

/// Adds a candidate behind those of at least its priority.
fn join(line: &mut Vec<Contender>, contender: Contender) {
    line.retain(|it| it.incarnation != contender.incarnation);
    let place = line.partition_point(|it| it.priority >= contender.priority);
    line.insert(place, contender);
    line.truncate(MOST_HEIRS);
}
