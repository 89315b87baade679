//! `history`: who led, and why it changed.

use clap::Args;
use comfy_table::Cell;
use nats_elect::{LeaderChange, LeaderEvent};

use crate::columns::Layout;
use crate::exit::Outcome;
use crate::fleet::Event;
use crate::options::{Shared, duration};
use crate::output::Output;
use crate::past_event::{gap, past_events, what};
use crate::text::{ms_of, stamp_of, to_the_second, wall_clock};

const LAYOUT: Layout = Layout {
    all: "WHEN ROLE INSTANCE WHAT GAP FENCING TERM",
    wide: "TERM",
    flexible: "WHAT",
};

const MORE: &str = "\
Columns:
  WHEN      the time in UTC, by the clock of the reporting instance
  ROLE      the role
  INSTANCE  the instance that leads or led
  WHAT      leads: how the role had become free, and by whom; ended: why, and after how long
  GAP       how long nobody led, as the new leader measured it from the last leader's release.
            ≤ is from its last heartbeat: after a crash nobody led for at most that long
  FENCING   the end of the term's fencing token, greater in the later term; --json has all of it
  TERM      the correlation id of the term in logs and traces, with --output wide
--output wide has whole tokens and milliseconds, too.

Exit codes: those of `nats-elect --help`. 3 if no history is kept: `nats-elect create-bucket`
makes its stream

Examples:
  nats-elect history
  nats-elect history scheduler -n 100
  nats-elect history scheduler --since 1h
  nats-elect history 'worker-*'
  nats-elect history --since 2026-03-01T08:00:00Z
  nats-elect history --json | jq -r 'select(.cause == \"lease_expired\") | .instance_id'";

/// Show past leaders, and why they changed
///
/// The command reads the stream that keeps the leader events of a bucket. `nats-elect create-bucket`
/// makes the stream, and so do instances that create the bucket. It keeps a week of events;
/// instances with `events = { keep = "30d" }` make it for another time. The oldest event comes
/// first, and the terms of each role are in their order. Events are reports, not proofs: see
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
    since: Option<u64>,
}

impl History {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let since = self.since.unwrap_or(0);
        let events = past_events(shared, self.role.as_deref(), since, self.last).await?;
        if output.is_data() {
            for one in &events {
                output.data(&Event::from(one))?;
            }
        } else if events.is_empty() {
            output.note("the history has no such event; instances with `events.publish = false` publish none");
        } else {
            show(&events, output)?;
        }
        Ok(0)
    }
}

pub fn show(events: &[LeaderEvent], output: Output) -> std::io::Result<()> {
    let rows = events.iter().map(|event| {
        let gap = match (&event.change, gap(event)) {
            (_, Some(gap)) => gap.to_string(),
            (LeaderChange::TermStarted { vacancy, .. }, None) if vacancy != "untouched" => {
                "unknown".into()
            }
            _ => String::new(),
        };
        // Milliseconds are for programs: two clocks differ by more.
        let when = if output.is_wide() {
            stamp_of(event.at_ms)
        } else {
            to_the_second(event.at_ms)
        };
        vec![
            Cell::new(when),
            Cell::new(&event.role),
            Cell::new(&event.instance_id),
            Cell::new(what(event)),
            Cell::new(gap),
            Cell::new(output.token(event.fencing_token)),
            Cell::new(event.correlation_id.to_string()),
        ]
    });
    LAYOUT.show(rows, output)
}

/// A time, or how long ago it was, in milliseconds since the Unix epoch.
pub fn since(text: &str) -> Result<u64, String> {
    let at = match duration(text) {
        Ok(ago) => wall_clock().checked_sub(ago),
        Err(_) => Some(humantime::parse_rfc3339_weak(text).map_err(|error| {
            format!("{error}: it must be a time like 2026-03-01T08:00:00Z, or an age like 90m")
        })?),
    };
    Ok(at.map_or(0, ms_of))
}
