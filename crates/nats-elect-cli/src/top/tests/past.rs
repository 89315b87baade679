//! What was before the start, and what of it was seen.

use super::*;
use crate::top::facts::History;
use crate::top::past::LedFor;

const HOUR: u64 = 60 * 60;

const fn token(sequence: u64) -> FencingToken {
    FencingToken { epoch: 1, sequence }
}

/// A moment so many seconds before the start.
fn ago(seconds: u64) -> SystemTime {
    at(0).wall - Duration::from_secs(seconds)
}

fn began(sequence: u64, who: Who, seconds: u64) -> Told {
    Told {
        role: "metrics".into(),
        at: ago(seconds),
        token: token(sequence),
        text: format!("{} began {sequence}", who.id),
        began: Some(who),
    }
}

fn ended(sequence: u64, who: &Who, seconds: u64) -> Told {
    Told {
        text: format!("{} ended {sequence}", who.id),
        began: None,
        ..began(sequence, who.clone(), seconds)
    }
}

fn led_by(who: Who, sequence: u64) -> BTreeMap<String, Seen> {
    let seen = Seen {
        token: Some(token(sequence)),
        ..led(who, 5)
    };
    sights([("metrics", seen)])
}

/// Nobody leads after this, or `to` does.
fn change(from: Option<Who>, to: Option<Who>, claimed: bool) -> Happened {
    Happened {
        from,
        ..happened("metrics", to, claimed)
    }
}

fn facts() -> Facts {
    Facts::new(at(0), "leaders".into(), "127.0.0.1:4222".into())
}

fn texts(facts: &Facts) -> Vec<&str> {
    facts.changes.iter().map(|(_, text)| &**text).collect()
}

#[test]
fn changes_are_counted_from_the_start_if_there_is_no_history() {
    let mut facts = facts();
    facts.sight(at(1), led_by(node(1), 5), None);
    facts.past(at(1), Err("no history is kept"), true);
    assert_eq!(facts.count("metrics"), 0, "it stood so at the start");
    // It is freed; two claims; found after an interruption, the same and another.
    facts.happened(at(2), &change(Some(node(1)), None, false));
    facts.happened(at(3), &change(None, Some(node(1)), true));
    facts.happened(at(4), &change(Some(node(1)), Some(node(2)), true));
    facts.happened(at(5), &change(None, Some(node(2)), false));
    assert_eq!(facts.count("metrics"), 2);
    // The picture may be newer than what is told of the change.
    facts.sight(at(6), led_by(node(1), 9), None);
    facts.happened(at(6), &change(Some(node(2)), Some(node(1)), false));
    assert_eq!(facts.count("metrics"), 3);
    assert_eq!(facts.last_change("metrics"), Some(at(6).wall));
    assert_eq!(facts.count("scheduler"), 0);
    // When its present term began is known from the bucket, and before the start nothing counts.
    let screen = shown(&State::new(facts));
    assert!(
        screen.contains("changes since 01:00:00: no history is kept"),
        "{screen}"
    );
}

#[test]
fn a_term_that_was_seen_and_is_in_the_history_counts_once() {
    let told = || {
        vec![
            began(4, node(2), 3 * HOUR),
            ended(4, &node(2), 2 * HOUR),
            began(5, node(1), 2 * HOUR),
            ended(5, &node(1), 0),
            began(6, node(2), 0),
        ]
    };
    // At each moment of a handoff from term 5 to 6 the history may come.
    for read_at in 0..6 {
        let mut facts = facts();
        for step in 0..=5 {
            if step == read_at {
                facts.past(at(3), Ok(told()), true);
            }
            match step {
                0 => facts.sight(at(1), led_by(node(1), 5), None),
                1 => facts.happened(at(2), &change(Some(node(1)), None, false)),
                2 => facts.happened(at(2), &change(None, Some(node(2)), true)),
                _ => facts.sight(at(3), led_by(node(2), 6), None),
            }
        }
        assert_eq!(facts.count("metrics"), 3, "{read_at}: {facts:?}");
    }
}

#[test]
fn the_bucket_may_be_looked_at_before_a_change_is_told() {
    let mut facts = facts();
    facts.sight(at(1), led_by(node(1), 5), None);
    // The same instance frees the role and claims it again.
    facts.sight(at(2), led_by(node(1), 6), None);
    facts.happened(at(2), &change(Some(node(1)), None, false));
    facts.happened(at(2), &change(None, Some(node(1)), true));
    facts.sight(at(3), led_by(node(1), 6), None);
    facts.past(
        at(4),
        Ok(vec![began(5, node(1), HOUR), began(6, node(1), 0)]),
        true,
    );
    assert_eq!(facts.count("metrics"), 2);
    assert_eq!(
        facts.led_for("metrics"),
        Some(LedFor::About(Duration::from_secs(65))),
        "its claim was seen"
    );
}

#[test]
fn the_list_has_each_change_once_in_the_order_of_time() {
    let mut facts = facts();
    facts.sight(at(1), led_by(node(1), 5), None);
    facts.happened(at(2), &change(Some(node(1)), None, false));
    facts.happened(at(2), &change(None, Some(node(2)), true));
    facts.sight(at(3), led_by(node(2), 6), None);
    let told = vec![
        began(4, node(2), 3 * HOUR),
        ended(4, &node(2), 2 * HOUR),
        began(5, node(1), 2 * HOUR),
        ended(5, &node(1), 0),
        began(6, node(2), 0),
    ];
    facts.past(at(3), Ok(told), true);
    let expected = [
        "node-2 began 4",
        "node-2 ended 4",
        "node-1 began 5",
        "metrics: nobody leads",
        "metrics: node-2 leads",
    ];
    assert_eq!(texts(&facts), expected);
}

#[test]
fn how_long_somebody_leads_is_known_from_the_bucket_or_the_history_or_it_is_a_bound() {
    let secs = Duration::from_secs;
    let mut facts = facts();
    facts.sight(at(1), led_by(node(1), 5), None);
    assert_eq!(facts.led_for("metrics"), Some(LedFor::AtLeast(secs(65))));
    assert_eq!(facts.unfenced(), [("metrics".to_owned(), token(5))]);
    assert_eq!(facts.unfenced(), [], "it is asked for once");
    facts.past(at(1), Ok(vec![began(5, node(1), 3600)]), true);
    assert_eq!(facts.led_for("metrics"), Some(LedFor::About(secs(3601))));
    // The clock of NATS goes before that of an instance.
    facts.fenced(vec![("metrics".into(), token(5), ago(600))]);
    assert_eq!(facts.led_for("metrics"), Some(LedFor::About(secs(601))));
    // No clock makes it less than what was seen.
    facts.fenced(vec![("metrics".into(), token(5), ago(0) + secs(50))]);
    assert_eq!(facts.led_for("metrics"), Some(LedFor::About(secs(65))));
    // What was seen to begin needs no other clock.
    facts.happened(at(2), &change(Some(node(1)), Some(node(2)), true));
    facts.sight(at(3), led_by(node(2), 6), None);
    assert_eq!(facts.unfenced(), []);
    assert_eq!(facts.led_for("metrics"), Some(LedFor::About(secs(65))));
}

#[test]
fn only_what_was_read_of_the_history_counts() {
    let mut all = facts();
    let told = || {
        vec![
            began(1, node(1), 30 * HOUR),
            began(2, node(2), 5 * HOUR + 60),
            began(3, node(1), 5 * HOUR + 30),
            began(4, node(2), 60),
        ]
    };
    all.past(at(0), Ok(told()), true);
    assert_eq!(all.count("metrics"), 3, "the first one is of yesterday");
    // There is more than was read: before the first of them nothing is known.
    let mut part = facts();
    part.past(at(0), Ok(told()[1..].to_vec()), false);
    assert_eq!(part.history, History::Since(ago(5 * HOUR + 60)));
    assert_eq!(part.count("metrics"), 3);
}

#[test]
fn a_clock_that_is_ahead_moves_nothing_into_the_future() {
    let mut facts = facts();
    let mut told = began(1, node(1), 0);
    told.at = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    facts.sight(at(1), led_by(node(1), 1), None);
    facts.past(at(1), Ok(vec![told]), true);
    assert_eq!(facts.count("metrics"), 1);
    assert_eq!(facts.last_change("metrics"), Some(at(1).wall));
    assert_eq!(
        facts.led_for("metrics"),
        Some(LedFor::About(Duration::from_secs(65)))
    );
    let _ = shown(&State::new(facts));
}
