//! The line of succession: the candidates that could lead next, as the leader knows them.
//!
//! The leader asks at the start of its term, and every other lease from then on. It names up to
//! three of them in its records, for the case that it crashes, and in its release. So nobody has to
//! be asked when a term ends. All of it is a hint: the heirs claim one after the other, by compare-and-set,
//! when the role is free.

use std::time::Duration;

use super::input::PeerRequestId;
use crate::config::RoleSettings;
use crate::heirs::{Heirs, MOST_HEIRS};
use crate::moment::Moment;
use crate::peer::{Contender, PeerReply};

/// The candidates that said that they could lead, the highest priority first.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Line {
    pub heirs: Vec<Contender>,
    pub poll: Option<Poll>,
    /// When candidates were last asked.
    pub asked: Option<Moment>,
    /// How many polls asked the heirs alone since all candidates were asked.
    pub polls_of_heirs: u8,
}

/// A request to candidates, and who has answered it.
#[derive(Clone, Debug, Hash)]
pub(super) struct Poll {
    pub question: PeerRequestId,
    pub ready: Vec<Contender>,
    /// Whether the heirs alone were asked.
    pub of_heirs: bool,
}

/// So many polls in a row ask the heirs of a full line alone. The next one asks all candidates:
/// another may have come that has a higher priority than they.
const POLLS_OF_HEIRS: u8 = 4;

/// The time between two polls.
pub(super) fn poll_interval(settings: &RoleSettings) -> Duration {
    settings.ttl * 2
}

impl Line {
    /// Begins a poll. Where health checks may take longer than a lease, the time of the one before
    /// is not up yet: it ends now.
    pub fn asked(&mut self, question: PeerRequestId, among: Heirs, now: Moment) {
        let of_heirs = !among.is_empty();
        self.close_poll();
        self.asked = Some(now);
        self.polls_of_heirs = if of_heirs { self.polls_of_heirs + 1 } else { 0 };
        self.poll = Some(Poll {
            question,
            ready: Vec::new(),
            of_heirs,
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

    /// Candidates that did not answer leave the line. If heirs have gone, all are asked soon.
    fn close_poll(&mut self) {
        if let Some(poll) = self.poll.take() {
            self.heirs = poll.ready;
            if poll.of_heirs && !self.heirs().is_full() {
                self.asked = None;
            }
        }
    }

    /// The candidates to ask next, or nobody for all of them. Behind a full line there may be
    /// hundreds, and each question would wake them all. So its heirs alone are asked most times.
    pub fn to_ask(&self) -> Heirs {
        let heirs = self.heirs();
        if heirs.is_full() && self.polls_of_heirs < POLLS_OF_HEIRS {
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
