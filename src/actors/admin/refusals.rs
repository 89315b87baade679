//! Where the server refused answers: to send more there would only fill its log.

use std::collections::HashMap;
use std::time::Duration;

use nats_elect_core::Moment;

/// For how long no answer is sent where one was refused.
const REFUSED_FOR: Duration = Duration::from_secs(60);
/// One who asks has a token of its own after the first, and what it asks for is refused to it alone. Where so many of them are
/// refused, everyone's first token is.
const MOST: usize = 16;

/// Where answers were refused of late, by the first two tokens of the subject, or by the first alone.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    places: HashMap<String, Moment>,
    noted: bool,
}

impl Refusals {
    /// Keeps in mind that an answer was refused there. Returns whether it is the first one ever.
    pub fn note(&mut self, subject: &str, now: Moment) -> bool {
        self.places.retain(|_, at| is_fresh(*at, now));
        let tokens = if self.places.len() < MOST { 2 } else { 1 };
        self.places.insert(beginning(subject, tokens), now);
        !std::mem::replace(&mut self.noted, true)
    }

    /// Whether an answer there would be refused, too.
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
    fn who_may_not_be_answered_silences_no_other() {
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
    fn where_many_may_not_be_answered_nobody_is_for_a_while() {
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
