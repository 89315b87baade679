//! The places where the server refused answers. Further answers there would only fill the server's
//! log.

use std::collections::HashMap;
use std::time::Duration;

use nats_elect_core::Moment;

/// The time for which no answer is sent where one was refused.
const REFUSED_FOR: Duration = Duration::from_secs(60);
/// The number of places by two tokens. An asker has a token of its own after the first, so a
/// refusal affects that asker alone. When this many are refused, the first token is refused for
/// every asker.
const MOST: usize = 16;

/// The places of recent refusals, by the first two tokens of the subject, or by the first alone.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    places: HashMap<String, Moment>,
    noted: bool,
}

impl Refusals {
    /// Records that an answer was refused there. Returns whether it is the first refusal ever.
    pub fn note(&mut self, subject: &str, now: Moment) -> bool {
        self.places.retain(|_, at| is_fresh(*at, now));
        let tokens = if self.places.len() < MOST { 2 } else { 1 };
        self.places.insert(beginning(subject, tokens), now);
        !std::mem::replace(&mut self.noted, true)
    }

    /// Returns whether an answer there would be refused, too.
    pub fn include(&self, reply: &str, now: Moment) -> bool {
        let refused = |tokens| self.places.get(&beginning(reply, tokens));
        [1, 2]
            .into_iter()
            .filter_map(refused)
            .any(|at| is_fresh(*at, now))
    }
}

fn is_fresh(at: Moment, now: Moment) -> bool {
    now < at + REFUSED_FOR
}

fn beginning(subject: &str, tokens: usize) -> String {
    let tokens: Vec<_> = subject.split('.').take(tokens).collect();
    tokens.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn second(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_forbidden_reply_subject_does_not_block_other_replies() {
        let mut refusals = Refusals::default();
        assert!(refusals.note("_INBOX.x.1", second(1)));
        for (reply, refused) in [
            ("_INBOX.x.1", true),
            ("_INBOX.x.2", true),
            ("_INBOX.x", true),
            ("_INBOX.y.1", false),
            ("_INBOX.xy", false),
        ] {
            assert_eq!(refusals.include(reply, second(60)), refused, "{reply}");
        }
        assert!(!refusals.include("_INBOX.x.1", second(61)));
        assert!(!refusals.note("_INBOX.y.1", second(61)), "told before");
    }

    #[test]
    fn many_forbidden_reply_subjects_block_all_replies_for_a_while() {
        let mut refusals = Refusals::default();
        for i in 0..MOST {
            assert!(!refusals.include("_INBOX.other", second(1)));
            refusals.note(&format!("_INBOX.{i}.1"), second(1));
        }
        for i in 0..10_000 {
            refusals.note(&format!("_INBOX.more-{i}.1"), second(2));
        }
        assert!(refusals.include("_INBOX.other", second(2)));
        assert!(!refusals.include("_mine.other", second(2)));
        assert_eq!(refusals.places.len(), MOST + 1);
        assert!(!refusals.include("_INBOX.other", second(62)));
        refusals.note("_INBOX.x", second(62));
        assert_eq!(refusals.places.len(), 1);
    }
}
