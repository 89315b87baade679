//! An event of the history, and the time for which nobody had led before it, in words.

use std::fmt;
use std::time::Duration;

use nats_elect::{History as Kept, LeaderChange, LeaderEvent};

use crate::exit::{Code, Failure};
use crate::options::Shared;
use crate::roles::{Roles, is_pattern};
use crate::text::lasted;

/// More than these are not read: of a role no more are kept.
pub const MOST: usize = 10_000;

/// For how long nobody led before a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub time: Duration,
    /// After a crash: the last leader led until some moment after its last heartbeat.
    pub is_bound: bool,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = if self.is_bound { "≤ " } else { "" };
        write!(f, "{bound}{}", lasted(self.time))
    }
}

/// Reads the kept events of a role or of all, the oldest first: none from before that time, and of
/// the others so many at most, the latest ones.
pub async fn past_events(
    shared: &Shared,
    role: Option<&str>,
    since_ms: u64,
    most: usize,
) -> Result<Vec<LeaderEvent>, Failure> {
    let kept = async |client, bucket: String| {
        let opened = tokio::time::timeout(shared.patience(), Kept::open(client, &bucket)).await;
        let late = "NATS did not answer in time whether a history is kept";
        let history = opened.map_err(|_| Failure::unreachable(late))??;
        if let Some(role) = role.filter(|role| !is_pattern(role)) {
            return Ok(history.of_role(role, MOST).await?);
        }
        let words = role.map(ToOwned::to_owned);
        let roles = Roles::of(words.as_slice());
        let mut events = history.of_all(MOST).await?;
        events.retain(|event| roles.has(&event.role));
        Ok(events)
    };
    match shared.reading(kept).await {
        Err(failure) if failure.code == Code::Unreachable => {
            Err(shared.jetstream_off().await.unwrap_or(failure))
        }
        read => read.map(|mut events| {
            events.retain(|event| event.at_ms >= since_ms);
            events.split_off(events.len().saturating_sub(most))
        }),
    }
}

/// For how long nobody had led before a term, if this is the start of one and that is known.
pub fn gap(event: &LeaderEvent) -> Option<Gap> {
    let LeaderChange::TermStarted {
        silence, vacancy, ..
    } = &event.change
    else {
        return None;
    };
    let is_freed = ["released", "handed_over"].contains(&vacancy.as_str());
    let is_bound = !is_freed;
    silence.map(|time| Gap { time, is_bound })
}

/// What happened, in words.
pub fn what(event: &LeaderEvent) -> String {
    match &event.change {
        LeaderChange::TermStarted {
            vacancy, previous, ..
        } => {
            let by = previous.as_deref().unwrap_or("somebody");
            let free = match vacancy.as_str() {
                "untouched" => "no earlier leader".into(),
                "released" => format!("freed by {by}"),
                "handed_over" => format!("handed over by {by}"),
                "deleted" => "the key was deleted".into(),
                "expired" => format!("lease of {by} ran out"),
                other => format!("{other}, after {by}"),
            };
            format!("leads: {free}")
        }
        LeaderChange::TermEnded {
            cause,
            lasted: time,
            released,
        } => {
            let kept = if *released { "" } else { ", not freed" };
            let cause = cause.replace('_', " ");
            format!("ended: {cause} after {}{kept}", lasted(*time))
        }
        _ => event.name().to_owned(),
    }
}

/// The start of a term of the role `r`, by this instance, with these fields in place of the usual
/// ones.
#[cfg(test)]
pub fn started(sequence: u64, who: &str, fields: serde_json::Value) -> LeaderEvent {
    let mut event = serde_json::json!({
        "v": 1, "bucket": "b", "role": "r", "instance_id": who, "incarnation": uuid::Uuid::nil(),
        "correlation_id": "c", "fencing_token": format!("{sequence:032x}"), "at_ms": 1,
        "event": "term_started", "vacancy": "expired", "previous": "x",
    });
    let serde_json::Value::Object(fields) = fields else {
        panic!("no fields: {fields}");
    };
    for (name, value) in fields {
        event[name] = value;
    }
    LeaderEvent::parse(event.to_string().as_bytes()).expect("an event")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_gap_after_a_crash_is_a_bound_and_after_a_release_is_not() {
        let gap = |how: &str, silence: Value| {
            let fields = json!({ "vacancy": how, "silence_seconds": silence });
            super::gap(&started(2, "b", fields))
        };
        let crashed = gap("expired", json!(3.2)).expect("a gap");
        let time = Duration::from_millis(3200);
        assert_eq!(
            crashed,
            Gap {
                time,
                is_bound: true
            }
        );
        assert_eq!(crashed.to_string(), "≤ 3.2s");
        let freed = gap("released", json!(0.004)).expect("a gap");
        assert_eq!(freed.to_string(), "4ms");
        assert_eq!(gap("expired", Value::Null), None);
    }
}
