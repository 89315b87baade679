//! What was before the start, and what of it counts.

use nats_elect::LeaderEvent;

use super::*;
use crate::exit::{Code, Failure};
use crate::fleet::Watched;
use crate::top::facts::History;

const HOUR: u64 = 60 * 60;

/// The beginning of a term, so many seconds before the start.
fn began(sequence: u64, who: &str, seconds: u64) -> LeaderEvent {
    let at = at(0) - Duration::from_secs(seconds);
    let at = at.duration_since(SystemTime::UNIX_EPOCH).expect("a time");
    event(sequence, who, at.as_millis())
}

fn event(sequence: u64, who: &str, at_ms: u128) -> LeaderEvent {
    let json = json!({
        "v": 1, "bucket": "leaders", "role": "metrics", "instance_id": who,
        "incarnation": Uuid::from_u128(1), "correlation_id": "c",
        "fencing_token": format!("{sequence:032x}"), "at_ms": u64::try_from(at_ms).expect("a time"),
        "event": "term_started", "vacancy": "released", "previous": "x",
    });
    LeaderEvent::parse(json.to_string().as_bytes()).expect("an event")
}

/// What is shown of a bucket with this past.
fn shown_of(watched: &Watched) -> State {
    let mut state = fleet();
    state.facts.look_further(watched);
    state
}

fn watched() -> Watched {
    Watched::new("leaders", |_, _| ())
}

#[test]
fn changes_of_a_day_are_counted_from_the_history() {
    let watched = watched();
    watched.remembered(vec![
        began(1, "node-1", 30 * HOUR),
        began(2, "node-2", 5 * HOUR),
        began(3, "node-1", HOUR),
    ]);
    let state = shown_of(&watched);
    assert_eq!(
        state.facts.counts["metrics"], 2,
        "the first is of yesterday"
    );
    assert_eq!(state.facts.counts["scheduler"], 0);
    let texts: Vec<_> = state.facts.changes.iter().map(|it| &*it.1).collect();
    assert_eq!(texts[0], "metrics: node-1 leads: freed by x");
    assert_eq!(texts.len(), 3);
    let screen = shown(&state);
    assert!(screen.contains("changes of the last 24h"), "{screen}");
}

#[test]
fn a_clock_that_is_ahead_moves_nothing_into_the_future() {
    let watched = watched();
    watched.remembered(vec![event(1, "node-1", 1 << 52)]);
    let state = shown_of(&watched);
    assert_eq!(state.facts.changes[0].0, at(0));
    assert_eq!(state.facts.counts["metrics"], 1);
    let _ = shown(&state);
}

#[test]
fn without_a_history_it_is_told_why_and_from_when_on_changes_count() {
    let watched = watched();
    assert_eq!(shown_of(&watched).facts.history, History::Awaited);
    for (code, why) in [
        (Code::NotFound, "no history is kept"),
        (Code::Refused, "this user may not read the history"),
        (Code::Failed, "the history can't be read"),
    ] {
        watched.not_remembered(&Failure::new(code, "it is so"));
        let screen = shown_as(&shown_of(&watched), PLAIN, 110, 24);
        let title = format!("changes since 01:00:00: {why}");
        assert!(screen.contains(&title), "{screen}");
        assert!(screen.contains("none since the start"), "{screen}");
    }
}
