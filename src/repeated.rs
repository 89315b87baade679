//! Log records that repeat for as long as something is wrong: the first is logged, then one a
//! minute.

use std::collections::HashMap;
use std::time::Duration;

use nats_elect_core::Moment;

/// The interval between log records about trouble that lasts.
pub(crate) const REMINDER: Duration = Duration::from_secs(60);

/// The random part of a subject has this many hexadecimal digits.
const RANDOM_DIGITS: usize = 32;

/// The records of the last minute, by their texts.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    logged: HashMap<String, Logged>,
}

#[derive(Debug)]
struct Logged {
    at: Moment,
    /// How often it came since, without being logged.
    since: u64,
}

impl Repeated {
    /// Takes a record. Returns how often it came without being logged, if it is to be logged now.
    pub fn is_due(&mut self, text: &str, now: Moment) -> Option<u64> {
        let text = without_random_parts(text);
        let logged = self.logged.get_mut(&text);
        let repeats = match logged {
            Some(logged) if now < logged.at + REMINDER => {
                logged.since += 1;
                return None;
            }
            Some(logged) => logged.since,
            None => 0,
        };
        // Texts may differ each time. Those of the last minute are enough to remember.
        self.logged
            .retain(|_, logged| now < logged.at + REMINDER * 2);
        let logged = Logged { at: now, since: 0 };
        self.logged.insert(text, logged);
        Some(repeats)
    }

    /// Returns whether a record was logged lately.
    pub fn is_logged(&self, text: &str, now: Moment) -> bool {
        let logged = self.logged.get(&without_random_parts(text));
        logged.is_some_and(|it| now < it.at + REMINDER)
    }

    /// Forgets all records, because the trouble is over: the next one is news.
    pub fn clear(&mut self) {
        self.logged.clear();
    }
}

/// Returns a text with `*` in place of its random parts. So requests of one kind have one text.
pub(crate) fn without_random_parts(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_hexdigit());
        let (run, after) = rest.split_at(digits.unwrap_or(rest.len()));
        let is_random = run.len() >= RANDOM_DIGITS;
        kept.push_str(if is_random { "*" } else { run });
        let next = after.chars().next();
        kept.extend(next);
        rest = &after[next.map_or(0, char::len_utf8)..];
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Moment {
        Moment::from_nanos(1) + Duration::from_secs(secs)
    }

    #[test]
    fn a_repeated_record_is_logged_once_a_minute_with_its_count() {
        let mut repeated = Repeated::default();
        let logged: Vec<_> = (0..=30)
            .filter_map(|i| Some((i * 5, repeated.is_due("denied", at(i * 5))?)))
            .collect();
        assert_eq!(logged, [(0, 0), (60, 11), (120, 11)]);
    }

    #[test]
    fn a_record_that_was_logged_lately_is_known_and_to_ask_for_one_logs_none() {
        let mut repeated = Repeated::default();
        assert!(!repeated.is_logged("denied", at(0)));
        assert_eq!(repeated.is_due("denied", at(0)), Some(0));
        assert!(repeated.is_logged("denied", at(59)) && !repeated.is_logged("denied", at(60)));
        assert_eq!(repeated.is_due("denied", at(60)), Some(0));
    }

    #[test]
    fn records_with_different_texts_are_counted_apart_and_forgotten_in_time() {
        let mut repeated = Repeated::default();
        for i in 0..1000 {
            assert_eq!(repeated.is_due(&i.to_string(), at(i)), Some(0));
        }
        assert!(repeated.logged.len() <= 121, "{}", repeated.logged.len());
    }

    #[test]
    fn random_parts_do_not_make_a_record_another_one() {
        let denied =
            |random: u128| format!("may not publish to \"KV_é.elect-{random:032x}.>\": cafe");
        let told = "may not publish to \"KV_é.elect-*.>\": cafe";
        assert_eq!(without_random_parts(&denied(u128::MAX)), told);
        let mut repeated = Repeated::default();
        assert_eq!(repeated.is_due(&denied(1), at(0)), Some(0));
        assert_eq!(repeated.is_due(&denied(2), at(1)), None);
    }

    #[test]
    fn trouble_that_returns_is_logged_at_once() {
        let mut repeated = Repeated::default();
        repeated.is_due("denied", at(0));
        repeated.clear();
        assert_eq!(repeated.is_due("denied", at(1)), Some(0));
    }
}
