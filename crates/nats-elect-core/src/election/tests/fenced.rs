//! A fenced write that the server refused ends its term.

use super::solo::leading;
use crate::event::{EndCause, Event};
use crate::status::RoleState;
use crate::{Effect, Input, RequestId, TermId};

#[test]
fn a_term_whose_fence_key_has_moved_on_ends_at_once_and_frees_nothing() {
    let (mut solo, term) = leading();
    solo.feed(Input::Superseded { term });
    let effects = solo.take();
    let at = |what: &Effect| effects.iter().position(|effect| effect == what);
    assert!(at(&Effect::Resign { term }).is_some());
    assert!(at(&Effect::Resign { term }) < at(&Effect::Cancel { term }));
    assert!(at(&Effect::Cancel { term }) < at(&Effect::Revoke { term }));
    let cause = effects.iter().find_map(|effect| match effect {
        Effect::Event(Event::TermEnding { cause, .. }) => Some(*cause),
        _ => None,
    });
    assert_eq!(cause, Some(EndCause::Superseded));
    assert!(effects.contains(&Effect::Event(Event::ValidationFailed)));

    // The server may refuse many writes at once.
    solo.feed(Input::Superseded { term });
    assert_eq!(solo.take(), []);
    solo.end_handler(term);
    let writes = solo.take();
    assert!(
        !writes
            .iter()
            .any(|effect| matches!(effect, Effect::Write(_))),
        "{writes:?}"
    );
    assert_eq!(solo.state(), RoleState::Demoted);
}

#[test]
fn a_superseded_term_that_winds_down_loses_its_lease() {
    let (mut solo, term) = leading();
    solo.step_down(RequestId(1));
    solo.take();
    assert!(solo.election.status().lease_until.is_some());
    solo.feed(Input::Superseded { term });
    assert!(solo.take().contains(&Effect::Revoke { term }));
    assert_eq!(solo.election.status().lease_until, None);
}

#[test]
fn a_refusal_of_an_earlier_term_does_not_end_a_later_one() {
    let (mut solo, term) = leading();
    let TermId(number) = term;
    let earlier = TermId(number.wrapping_sub(1));
    solo.feed(Input::Superseded { term: earlier });
    assert_eq!(solo.take(), []);
    assert_eq!(solo.state(), RoleState::Leader);
}
