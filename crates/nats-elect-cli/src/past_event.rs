//! An event of the history, with the time for which nobody had led before it: in words, and as
//! JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use nats_elect::{History as Kept, LeaderChange, LeaderEvent};
use serde_json::{Value, json};

use crate::exit::{Code, Failure};
use crate::fleet::Event;
use crate::options::Shared;
use crate::roles::{Roles, is_pattern};
use crate::text::lasted;

/// More than these are not read: of a role no more are kept.
pub const MOST: usize = 10_000;

/// Causes by which a term ends without its leader's doing: then it can't free the role.
const INVOLUNTARY: [&str; 6] = [
    "lease_expired",
    "connection_lost",
    "superseded",
    "deleted",
    "regressed",
    "bucket_lost",
];

/// An event, and for how long nobody had led before it.
pub struct PastEvent {
    pub event: LeaderEvent,
    pub gap: Option<Gap>,
}

/// For how long nobody led before a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    Of(Duration),
    /// After a crash: the last leader led until some moment after its last heartbeat.
    AtMost(Duration),
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(gap) => f.write_str(&lasted(*gap)),
            Self::AtMost(gap) => write!(f, "≤ {}", lasted(*gap)),
        }
    }
}

/// What is kept, of a role or of all, the oldest first.
pub async fn past_events(shared: &Shared, role: Option<&str>) -> Result<Vec<PastEvent>, Failure> {
    let kept = async |client, bucket: String| {
        let opened = tokio::time::timeout(shared.patience(), Kept::open(client, &bucket)).await;
        let late = "NATS did not answer in time whether a history is kept";
        let history = opened.map_err(|_| Failure::unreachable(late))??;
        let Some(role) = role else {
            return Ok(history.of_all(MOST).await?);
        };
        if !is_pattern(role) {
            return Ok(history.of_role(role, MOST).await?);
        }
        let words = [role.to_owned()];
        let roles = Roles::of(&words);
        let mut events = history.of_all(MOST).await?;
        events.retain(|event| roles.has(&event.role));
        Ok(events)
    };
    match shared.reading(kept).await {
        Ok(events) => Ok(with_gaps(events)),
        Err(failure) if failure.code == Code::Unreachable => {
            Err(shared.jetstream_off().await.unwrap_or(failure))
        }
        Err(failure) => Err(failure),
    }
}

/// Each event, and for the start of a term how long nobody had led.
pub fn with_gaps(events: Vec<LeaderEvent>) -> Vec<PastEvent> {
    // By role and fencing token, which is the order of terms.
    let mut terms = BTreeMap::<_, (String, Option<u64>)>::new();
    for event in &events {
        let term = (event.role.clone(), event.fencing_token);
        let term = terms.entry(term).or_default();
        term.0.clone_from(&event.instance_id);
        if let LeaderChange::TermEnded { .. } = event.change {
            term.1 = Some(event.at_ms);
        }
    }
    // By the clocks of the two instances.
    let by_clocks = |event: &LeaderEvent| {
        let LeaderChange::TermStarted {
            previous: Some(previous),
            vacancy,
            ..
        } = &event.change
        else {
            return None;
        };
        let before = ..(event.role.clone(), event.fencing_token);
        let ((role, _), (leader, ended)) = terms.range(before).next_back()?;
        // Between the two somebody may have led who tells nothing.
        let is_it = *role == event.role && leader == previous;
        let ended = ended.filter(|_| is_it)?;
        // Of two clocks: the new one may be behind. And no lease runs out within no time.
        let gap = event.at_ms.checked_sub(ended)?;
        (gap > 0 || vacancy != "expired").then_some(Duration::from_millis(gap))
    };
    let gap = |event: &LeaderEvent| {
        let by_clocks = by_clocks(event);
        let LeaderChange::TermStarted {
            silence: Some(silence),
            vacancy,
            ..
        } = &event.change
        else {
            return by_clocks.map(Gap::Of);
        };
        // The new leader measured it on one clock.
        if ["released", "handed_over"].contains(&vacancy.as_str()) {
            return Some(Gap::Of(*silence));
        }
        let within = by_clocks.filter(|gap| gap <= silence);
        Some(within.map_or(Gap::AtMost(*silence), Gap::Of))
    };
    let gaps: Vec<_> = events.iter().map(gap).collect();
    let past = events.into_iter().zip(gaps);
    past.map(|(event, gap)| PastEvent { event, gap }).collect()
}

impl PastEvent {
    /// For programs.
    pub fn json(&self) -> Value {
        json!(Event::from(self))
    }

    /// What happened, in words.
    pub fn what(&self) -> String {
        match &self.event.change {
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
                // Of what came from outside nothing else is to be expected.
                let is_plain = *released || INVOLUNTARY.contains(&cause.as_str());
                let kept = if is_plain { "" } else { ", not freed" };
                let cause = cause.replace('_', " ");
                format!("ended: {cause} after {}{kept}", lasted(*time))
            }
            _ => self.event.name().to_owned(),
        }
    }

    /// The gap in words, if there may have been one.
    pub fn gap(&self) -> String {
        match (&self.event.change, self.gap) {
            (LeaderChange::TermStarted { .. }, Some(gap)) => gap.to_string(),
            (LeaderChange::TermStarted { vacancy, .. }, None) if vacancy != "untouched" => {
                "unknown".into()
            }
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(sequence: u8, who: &str, at: u64, change: &str) -> LeaderEvent {
        let json = format!(
            "{{\"v\":1,\"bucket\":\"b\",\"role\":\"r\",\"instance_id\":\"{who}\",\
             \"incarnation\":\"00000000-0000-0000-0000-000000000001\",\"correlation_id\":\"c\",\
             \"fencing_token\":\"{sequence:032x}\",\"at_ms\":{at},{change}}}"
        );
        LeaderEvent::parse(json.as_bytes()).expect("an event")
    }

    fn started(sequence: u8, who: &str, at: u64, after: &str) -> LeaderEvent {
        let change =
            format!("\"event\":\"term_started\",\"vacancy\":\"expired\",\"previous\":\"{after}\"");
        event(sequence, who, at, &change)
    }

    fn ended(sequence: u8, who: &str, at: u64) -> LeaderEvent {
        let change =
            "\"event\":\"term_ended\",\"cause\":\"stopped\",\"lasted_seconds\":1,\"released\":true";
        event(sequence, who, at, change)
    }

    #[test]
    fn a_gap_is_told_between_the_ends_and_starts_of_terms_that_follow_each_other() {
        let events = with_gaps(vec![
            started(1, "a", 100, "nobody"),
            started(2, "b", 900, "a"),
            // It was cut off, and tells it later.
            ended(1, "a", 700),
            ended(2, "b", 1000),
            started(3, "c", 990, "b"),
            // It crashed.
            started(4, "d", 2000, "c"),
            ended(4, "d", 2100),
            // After one who tells nothing.
            started(6, "f", 3000, "e"),
        ]);
        let gaps: Vec<_> = events.iter().filter_map(|one| one.gap).collect();
        // The clock of c is behind that of b.
        assert_eq!(gaps, [Gap::Of(ms(200))]);
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The start of a term, as a leader reports it that saw the last sign of the one before.
    fn seen(sequence: u8, at: u64, how: &str, silence: &str) -> LeaderEvent {
        let change = format!(
            "\"event\":\"term_started\",\"vacancy\":\"{how}\",\"previous\":\"a\",\"silence_seconds\":{silence}"
        );
        event(sequence, "b", at, &change)
    }

    #[test]
    fn the_new_leaders_own_measure_goes_before_two_clocks() {
        let gap = |events: Vec<LeaderEvent>| with_gaps(events).pop().expect("an event").gap;
        // The leader crashed: nothing tells of its end.
        let crashed = gap(vec![
            started(1, "a", 100, "x"),
            seen(2, 9000, "expired", "3.2"),
        ]);
        assert_eq!(crashed, Some(Gap::AtMost(ms(3200))));
        assert_eq!(crashed.expect("it").to_string(), "≤ 3.2s");
        // It was cut off, and told of its end later: the clocks agree with the measure.
        let cut_off = gap(vec![ended(1, "a", 8600), seen(2, 9000, "expired", "3.2")]);
        assert_eq!(cut_off, Some(Gap::Of(ms(400))));
        // By the clock of a, which is behind, nobody led for longer than that.
        let odd = gap(vec![ended(1, "a", 2000), seen(2, 9000, "expired", "3.2")]);
        assert_eq!(odd, Some(Gap::AtMost(ms(3200))));
        let freed = gap(vec![
            ended(1, "a", 2000),
            seen(2, 9000, "released", "0.004"),
        ]);
        assert_eq!(freed, Some(Gap::Of(ms(4))));
        let old = gap(vec![
            started(1, "a", 100, "x"),
            seen(2, 9000, "expired", "null"),
        ]);
        assert_eq!(old, None);
    }
}
