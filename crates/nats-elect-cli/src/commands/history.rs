//! `history`: who led, and why it changed.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use clap::Args;
use comfy_table::Cell;
use nats_elect::duration::seconds::Seconds;
use nats_elect::{History as Kept, LeaderChange, LeaderEvent};
use serde_json::{Value, json};

use crate::cli::{Shared, duration};
use crate::columns::{Chosen, Columns, Layout};
use crate::exit::{Code, Failure, Outcome};
use crate::follow::Follow;
use crate::output::Output;
use crate::reading::unread;
use crate::roles::{Roles, is_pattern};
use crate::text::{clean, lasted, short, stamp_of, wall_clock};

/// More than these are not read: of a role no more are kept.
const MOST: usize = 10_000;

/// The table of all roles.
const OF_ALL: Layout = Layout {
    all: &["WHEN", "INSTANCE", "WHAT", "GAP", "FENCING", "ROLE", "TERM"],
    wide: &["TERM"],
    flexible: "WHAT",
};
/// The table of one role.
const OF_ONE: Layout = Layout {
    wide: &["ROLE"],
    ..OF_ALL
};

/// Causes by which a term ends without its leader's doing: then it can't free the role.
const INVOLUNTARY: [&str; 6] = [
    "lease_expired",
    "connection_lost",
    "superseded",
    "deleted",
    "regressed",
    "bucket_lost",
];

const MORE: &str = "\
Columns:
  WHEN      the time in UTC, by the clock of the reporting instance
  ROLE      the role, if the table is about all roles
  INSTANCE  the instance that leads or led
  WHAT      leads: how the role had become free, and by whom; ended: why, and after how long
  GAP       how long nobody led: from the end of the last term to the start of this one, by the
            clocks of the two instances; unknown after a crash, or if the clocks contradict
  FENCING   the end of the term's fencing token, greater in the later term; --json has all of it
  TERM      the correlation id of the term in logs and traces, if the table is about one role
--output wide has both, whole tokens, and milliseconds.

With --follow each event is a line, in the order in which the events arrive, until Ctrl-C.

Exit codes:
  0  success, also if nothing has happened yet
  1  JetStream is off
  3  no history is kept
  4  NATS refused the credentials or a permission
  5  NATS did not answer in time

Examples:
  nats-elect history
  nats-elect history scheduler -n 100
  nats-elect history scheduler --since 1h
  nats-elect history 'worker-*' --follow
  nats-elect history --since 2026-03-01T08:00:00Z
  nats-elect history --json | jq -r 'select(.cause == \"lease_expired\") | .instance_id'";

/// Show past leaders, and why they changed
///
/// The command reads the stream that keeps the leader events of a bucket. Instances write it if
/// their settings have `events = { publish = true, keep = "30d" }`. The oldest event comes first,
/// and the terms of each role are in their order. Events are reports, not proofs: see
/// docs/events.md.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct History {
    /// Show only this role. With * and ? it is a pattern
    role: Option<String>,

    /// The number of events: the latest ones are shown
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 20)]
    last: usize,

    /// Show no older events. A time like 2026-03-01T08:00:00Z, or an age like 90m
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<SystemTime>,

    /// Go on with each event that comes, as lines
    #[arg(short, long)]
    follow: bool,

    #[command(flatten)]
    columns: Columns,
}

/// An event, and for how long nobody had led before it.
pub struct PastEvent {
    event: LeaderEvent,
    gap: Option<Duration>,
}

impl History {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let of_one = self.role.as_deref().is_some_and(|role| !is_pattern(role));
        let columns = self
            .columns
            .of(if of_one { OF_ONE } else { OF_ALL }, output)?;
        if !self.follow {
            return self.show(shared, &columns, output).await;
        }
        tokio::select! {
            ended = self.follow(shared, output) => ended,
            _ = tokio::signal::ctrl_c() => Ok(0),
            () = unread() => Ok(0),
        }
    }

    /// The events that were asked for, the oldest first.
    async fn events(&self, shared: &Shared) -> Result<Vec<PastEvent>, Failure> {
        let mut events = past_events(shared, self.role.as_deref()).await?;
        if let Some(since) = self.since {
            let since = since.duration_since(SystemTime::UNIX_EPOCH);
            let since = since.unwrap_or_default().as_millis();
            events.retain(|one| u128::from(one.event.at_ms) >= since);
        }
        events.drain(..events.len().saturating_sub(self.last));
        Ok(events)
    }

    async fn show(&self, shared: &Shared, columns: &Chosen, output: Output) -> Outcome {
        let events = self.events(shared).await?;
        if output.is_data() {
            for one in &events {
                output.data(&one.json())?;
            }
        } else if events.is_empty() {
            output.note("the history has no event in the requested time; instances publish events only if their configuration says so, and so does `exec`");
        } else {
            show_columns(&events, columns, output)?;
        }
        Ok(0)
    }

    /// Tells the past, and then each event as it comes.
    async fn follow(&self, shared: &Shared, output: Output) -> Outcome {
        let following = async |client, bucket: String| {
            // Events that are published while the past is read are in both.
            let later = Follow::from_now(client, &bucket).await;
            // If there is no history, the past says so better.
            let past = self.events(shared).await?;
            let mut known: Vec<LeaderEvent> = Vec::new();
            for one in past {
                one.tell(output)?;
                known.push(one.event);
            }
            let words = self.role.as_slice();
            let roles = Roles::of(words);
            let tell = |event: LeaderEvent| -> Result<(), Failure> {
                let is_new = !known.contains(&event);
                if !is_new || !roles.has(&event.role) {
                    return Ok(());
                }
                known.push(event);
                // The end of the term before this one is among the last of them.
                known.drain(..known.len().saturating_sub(MOST));
                if let Some(one) = with_gaps(known.clone()).pop() {
                    one.tell(output)?;
                }
                Ok(())
            };
            later?.each(tell).await
        };
        shared.reading(following).await?;
        Ok(0)
    }
}

/// What is kept, of a role or of all, the oldest first.
pub async fn past_events(shared: &Shared, role: Option<&str>) -> Result<Vec<PastEvent>, Failure> {
    let kept = async |client, bucket: String| {
        let opened = tokio::time::timeout(shared.patience(), Kept::open(client, &bucket)).await;
        let late = "NATS did not answer in time whether a history is kept";
        let history = opened.map_err(|_| Failure::new(Code::Unreachable, late))??;
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
fn with_gaps(events: Vec<LeaderEvent>) -> Vec<PastEvent> {
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
    let gap = |event: &LeaderEvent| {
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
    let gaps: Vec<_> = events.iter().map(gap).collect();
    let past = events.into_iter().zip(gaps);
    past.map(|(event, gap)| PastEvent { event, gap }).collect()
}

impl PastEvent {
    /// The published event, and the gap.
    pub fn json(&self) -> Value {
        let published: Value = serde_json::from_str(&self.event.to_json()).unwrap_or_default();
        let mut value = json!({ "at": stamp_of(self.event.at_ms) });
        if let (Value::Object(value), Value::Object(published)) = (&mut value, published) {
            value.extend(published);
            let gap = self.gap.map(Seconds);
            value.insert("gap_seconds".into(), json!(gap));
        }
        value
    }

    /// When a term began, if this event is the beginning of one, in milliseconds since 1970.
    pub fn began_at(&self) -> Option<u64> {
        let begins = matches!(self.event.change, LeaderChange::TermStarted { .. });
        begins.then_some(self.event.at_ms)
    }

    /// A line of its own.
    fn tell(&self, output: Output) -> std::io::Result<()> {
        if output.is_data() {
            return output.data(&self.json());
        }
        let event = &self.event;
        let gap = match self.gap() {
            gap if gap.is_empty() => gap,
            gap => format!(", gap {gap}"),
        };
        let at = stamp_of(event.at_ms);
        let text = format!(
            "{at}  {}  {}  {}{gap}",
            event.role,
            event.instance_id,
            self.what()
        );
        output.line(clean(&text))
    }

    fn what(&self) -> String {
        match &self.event.change {
            LeaderChange::TermStarted { vacancy, previous } => {
                let by = previous.as_deref().unwrap_or("somebody");
                let free = match vacancy.as_str() {
                    "untouched" => "no earlier leader".into(),
                    "released" => format!("freed by {by}"),
                    "handed_over" => format!("handed over by {by}"),
                    "deleted" => "the key was deleted".into(),
                    "expired" => format!("lease of {by} ran out"),
                    "forced" => format!("taken from {by}"),
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

    fn gap(&self) -> String {
        match (&self.event.change, self.gap) {
            (LeaderChange::TermStarted { .. }, Some(gap)) => lasted(gap),
            (LeaderChange::TermStarted { vacancy, .. }, None) if vacancy != "untouched" => {
                "unknown".into()
            }
            _ => String::new(),
        }
    }
}

/// The table: of one role it names the terms, of all roles the roles.
pub fn show(events: &[PastEvent], of_all: bool, output: Output) -> std::io::Result<()> {
    let layout = if of_all { OF_ALL } else { OF_ONE };
    show_columns(events, &Chosen::usual(layout, output), output)
}

fn show_columns(events: &[PastEvent], columns: &Chosen, output: Output) -> std::io::Result<()> {
    let rows = events.iter().map(|one| {
        let event = &one.event;
        let (when, token) = if output.is_wide() {
            (stamp_of(event.at_ms), event.fencing_token.to_string())
        } else {
            (to_the_second(event.at_ms), short(event.fencing_token))
        };
        vec![
            Cell::new(when),
            Cell::new(&event.instance_id),
            Cell::new(one.what()),
            Cell::new(one.gap()),
            Cell::new(token),
            Cell::new(&event.role),
            Cell::new(event.correlation_id.to_string()),
        ]
    });
    columns.show(rows, output)
}

/// Milliseconds are for programs: two clocks differ by more.
fn to_the_second(ms: u64) -> String {
    stamp_of(ms).replacen(&format!(".{:03}Z", ms % 1000), "Z", 1)
}

/// A time, or how long ago it was.
fn since(text: &str) -> Result<SystemTime, String> {
    if let Ok(ago) = duration(text) {
        return Ok(wall_clock()
            .checked_sub(ago)
            .unwrap_or(SystemTime::UNIX_EPOCH));
    }
    humantime::parse_rfc3339_weak(text).map_err(|error| {
        format!("{error}: it must be a time like 2026-03-01T08:00:00Z, or an age like 90m")
    })
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
        let ms = Duration::from_millis;
        // The clock of c is behind that of b.
        assert_eq!(gaps, [ms(200)]);
    }
}
