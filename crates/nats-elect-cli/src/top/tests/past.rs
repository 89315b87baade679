//! What was before the start.

use super::*;
use crate::exit::{Code, Failure};
use crate::fleet::Watched;
use crate::past_event::started;

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
fn a_clock_that_is_ahead_moves_nothing_into_the_future() {
    let watched = watched();
    watched.remembered(vec![started(1, "node-1", json!({ "at_ms": 1_u64 << 52 }))]);
    let state = shown_of(&watched);
    assert_eq!(state.facts.changes[0].0, at(0));
    let _ = shown(&state);
}

#[test]
fn without_a_history_it_is_told_why_changes_begin_with_the_start() {
    let watched = watched();
    let awaited = shown_of(&watched).facts.no_history;
    assert_eq!(awaited, Some("reading the history"));
    for (code, why) in [
        (Code::NotFound, "no history is kept"),
        (Code::Refused, "this user may not read the history"),
        (Code::Failed, "the history can't be read"),
    ] {
        watched.not_remembered(&Failure::new(code, "it is so"));
        let screen = shown(&shown_of(&watched));
        let title = format!("since the start: {why}");
        assert!(screen.contains(&title), "{screen}");
        assert!(screen.contains("none since the start"), "{screen}");
    }
    watched.remembered(Vec::new());
    assert!(shown(&shown_of(&watched)).contains("none yet"));
}
