//! Over which record a message was written.
//!
//! A record could claim anything about that. So it does not say it: the server stores the condition
//! of a compare-and-set as a header of the message, and checks it whenever it stores the message,
//! whoever sends it.

/// The header with the sequence that a write expects under its key.
pub const CONDITION_HEADER: &str = "Nats-Expected-Last-Subject-Sequence";

/// The header with the time after which the server removes the message.
pub const TTL_HEADER: &str = "Nats-TTL";

/// Headers of NATS that say nothing else about the condition. With any other one the server may
/// have checked the condition against another key, at another time, or not at all.
const HARMLESS: [&str; 3] = [CONDITION_HEADER, "Nats-Expected-Stream", TTL_HEADER];

/// The headers of this project.
const OWN_PREFIX: &str = "nats-elect-";

/// The sequence that a message was written over, as its stored headers show. 0 means that there was
/// nothing under the key. `None` if the headers prove none.
pub fn stored_condition<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<u64> {
    let mut over = None;
    for (name, value) in headers {
        let folded = name.to_ascii_lowercase();
        if !folded.starts_with("nats-") || folded.starts_with(OWN_PREFIX) {
            continue;
        }
        if !HARMLESS.contains(&name) {
            return None;
        }
        if name == CONDITION_HEADER && over.replace(sequence(value)?).is_some() {
            return None;
        }
    }
    over
}

/// Digits alone: what another parser might read in another way counts as nothing.
fn sequence(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_condition_is_read_as_it_was_stored() {
        for over in [0, 1, 17, u64::MAX] {
            let text = over.to_string();
            let headers = [("KV-Operation", "DEL"), (CONDITION_HEADER, text.as_str())];
            assert_eq!(stored_condition(headers), Some(over));
        }
        let others = [
            (CONDITION_HEADER, "4"),
            ("Nats-TTL", "60s"),
            ("Nats-Elect-Release", "x"),
        ];
        assert_eq!(stored_condition(others), Some(4));
        assert_eq!(stored_condition([("Other", "4")]), None);
    }

    #[test]
    fn two_conditions_are_none() {
        let twice = [(CONDITION_HEADER, "4"), (CONDITION_HEADER, "4")];
        assert_eq!(stored_condition(twice), None);
    }

    #[test]
    fn a_condition_on_another_key_is_none() {
        for other in [
            "Nats-Expected-Last-Subject-Sequence-Subject",
            "nats-expected-last-subject-sequence",
            "NATS-EXPECTED-LAST-SUBJECT-SEQUENCE-SUBJECT",
            "Nats-Batch-Id",
            "Nats-Schedule",
            "Nats-Stream-Source",
        ] {
            let headers = [(CONDITION_HEADER, "4"), (other, "5")];
            assert_eq!(stored_condition(headers), None, "{other}");
        }
    }

    #[test]
    fn other_spellings_of_a_number_are_none() {
        for text in [
            "",
            " 4",
            "4 ",
            "+4",
            "-4",
            "04",
            "4.0",
            "18446744073709551616",
            "x",
        ] {
            assert_eq!(
                stored_condition([(CONDITION_HEADER, text)]),
                None,
                "{text:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_headers_make_it_panic(headers in proptest::collection::vec(("\\PC{0,20}", "\\PC{0,20}"), 0..4)) {
            let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            prop_assert_eq!(stored_condition(headers), None);
        }
    }
}
