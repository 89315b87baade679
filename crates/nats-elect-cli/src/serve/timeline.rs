//! Who led a role in the last hours, as spans of a picture.

use nats_elect::{LeaderChange, LeaderEvent, RoleChange};

use crate::past_event::gap;
use crate::text::{counted, ms_of, stamp_of};

/// Spans of one role at most: the latest ones.
const MOST_SPANS: usize = 200;

/// From this moment on this instance leads, or nobody does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub at_ms: u64,
    pub leader: Option<String>,
}

/// A time in which one instance led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub leader: String,
    pub from_ms: u64,
    pub to_ms: u64,
}

/// What the history says of a role. Events are in the order of its terms.
pub fn of_history<'a>(past: impl IntoIterator<Item = &'a LeaderEvent>) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::new();
    let mut term = None;
    for event in past {
        let at_ms = event.at_ms;
        match event.change {
            LeaderChange::TermStarted { .. } => {
                // A crash is not reported: there was no sign of the leader from then on.
                if let Some(gap) = gap(event).filter(|gap| term.is_some() && gap.is_bound) {
                    let gap = u64::try_from(gap.time.as_millis()).unwrap_or(u64::MAX);
                    let before = marks.last().map_or(0, |last| last.at_ms);
                    let at_ms = at_ms.saturating_sub(gap).max(before);
                    let leader = None;
                    marks.push(Mark { at_ms, leader });
                }
                term = Some(event.fencing_token);
                let leader = Some(event.instance_id.clone());
                marks.push(Mark { at_ms, leader });
            }
            LeaderChange::TermEnded { .. } if term == Some(event.fencing_token) => {
                term = None;
                let leader = None;
                marks.push(Mark { at_ms, leader });
            }
            _ => {}
        }
    }
    marks
}

/// What was seen of a role, where no history is kept.
pub fn of_changes<'a>(changes: impl IntoIterator<Item = &'a RoleChange>) -> Vec<Mark> {
    let mark = |change: &RoleChange| {
        let leader = change.to.as_ref().map(|to| to.instance_id.clone());
        let at_ms = ms_of(change.at);
        Mark { at_ms, leader }
    };
    changes.into_iter().map(mark).collect()
}

/// The spans between two moments.
pub fn spans(marks: &[Mark], from_ms: u64, now_ms: u64) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut start = 0;
    for (number, mark) in marks.iter().enumerate() {
        // Of two clocks the later one may be behind.
        start = mark.at_ms.max(start);
        let end = marks.get(number + 1).map_or(now_ms, |next| next.at_ms);
        let end = end.max(start).min(now_ms);
        let Some(leader) = &mark.leader else { continue };
        if end <= from_ms || start > now_ms {
            continue;
        }
        if let Some(last) = spans.last_mut()
            && last.leader == *leader
            && last.to_ms == start
        {
            last.to_ms = end;
            continue;
        }
        spans.push(Span {
            leader: leader.clone(),
            from_ms: start.max(from_ms),
            to_ms: end,
        });
    }
    spans.split_off(spans.len().saturating_sub(MOST_SPANS))
}

/// The same in words, for those who do not see the picture. There may be a leader now that is not
/// seen.
pub fn words(spans: &[Span], now_ms: u64, is_known: bool) -> String {
    let Some(last) = spans.last() else {
        return "nobody is known to have led".into();
    };
    let leader = &last.leader;
    let since = stamp_of(last.from_ms);
    let state = if last.to_ms == now_ms {
        format!("{leader} has led since {since}")
    } else {
        let until = stamp_of(last.to_ms);
        let now = if is_known {
            "nobody leads"
        } else {
            "it is not known who leads"
        };
        format!("{now}; {leader} led until {until}")
    };
    format!("{} in a row; {state}", counted(spans.len(), "leader"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::past_event::started;

    fn mark(at_ms: u64, leader: &str) -> Mark {
        let leader = (!leader.is_empty()).then(|| leader.to_owned());
        Mark { at_ms, leader }
    }

    #[test]
    fn spans_lie_where_their_times_are_and_gaps_between_them() {
        let marks = [mark(500, "a"), mark(1200, ""), mark(1400, "b")];
        let spans = spans(&marks, 1000, 2000);
        let places: Vec<_> = spans
            .iter()
            .map(|it| (&*it.leader, it.from_ms, it.to_ms))
            .collect();
        assert_eq!(places, [("a", 1000, 1200), ("b", 1400, 2000)]);
        let words = words(&spans, 2000, true);
        assert!(
            words.contains("b has led since 1970-01-01T00:00:01.400Z"),
            "{words}"
        );
    }

    #[test]
    fn what_is_over_or_to_come_is_not_in_the_picture() {
        let over = [mark(0, "a"), mark(900, ""), mark(5000, "b")];
        assert_eq!(spans(&over, 1000, 2000), []);
        assert_eq!(spans(&[], 1000, 2000), []);
        // A clock that is behind moves nothing backwards.
        let behind = [mark(1500, "a"), mark(1100, "b")];
        for span in spans(&behind, 1000, 2000) {
            assert!(span.from_ms <= span.to_ms && span.to_ms <= 2000, "{span:?}");
        }
        assert_eq!(spans(&[mark(u64::MAX, "a")], 0, 2000), []);
    }

    #[test]
    fn a_leader_that_is_found_again_leads_on() {
        let marks = [mark(1000, "a"), mark(1500, "a")];
        let spans = spans(&marks, 1000, 2000);
        let all: Vec<_> = spans.iter().map(|it| (it.from_ms, it.to_ms)).collect();
        assert_eq!(all, [(1000, 2000)]);
    }

    #[test]
    fn a_crash_which_nobody_reports_leaves_a_gap() {
        let after = json!({ "at_ms": 9000, "previous": "1", "silence_seconds": 3 });
        let first = started(1, "1", json!({ "at_ms": 1000 }));
        let past = [first, started(2, "2", after)];
        let marks = of_history(&past);
        assert_eq!(marks, [mark(1000, "1"), mark(6000, ""), mark(9000, "2")]);
    }
}
