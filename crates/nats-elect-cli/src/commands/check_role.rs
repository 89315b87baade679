//! `check-role`: one role, as monitoring systems in the style of Nagios ask for it.

use std::fmt::Write;
use std::time::Duration;

use clap::Args;
use nats_elect::duration::{exact, seconds::Seconds};
use nats_elect::{Error, Observed, RoleName, Standing};
use serde_json::json;

use crate::cli::{Shared, duration};
use crate::exit::{Failure, Outcome};
use crate::output::Output;
use crate::past_event::{PastEvent, past_events};
use crate::record::Written;
use crate::seen::{confirmed, name, why_nobody};
use crate::text::{clean, lasted, wall_clock};
use crate::trust::Trust;

const MORE: &str = "\
The output is one line: the state, the reason, and after | the performance data:
  silence  seconds since the last heartbeat of a leader, with both thresholds
  lease    seconds that are left of the lease, with its length as the maximum
  changes  terms that began within --period, with one of the options for changes

Exit codes:
  0  OK
  1  WARNING: no heartbeat for longer than --warning, or more changes than --warning-changes
  2  CRITICAL: no heartbeat for longer than --critical, or more changes than --critical-changes, or
     never led, or no key of --key and --keys-file signed the leader's record
  3  UNKNOWN: the role can't be seen, or the command line is wrong

Examples:
  nats-elect check-role scheduler
  nats-elect check-role scheduler -w 5s -c 15s
  nats-elect check-role scheduler --warning-changes 3 --critical-changes 10 --period 1h";

/// Check one role for Nagios, Icinga and the like
///
/// The thresholds are for the time since the last heartbeat of a leader. A leader sends one each
/// second by default, so they also bound the time without any leader. The command watches until the
/// leader's next heartbeat. If none comes it counts from the last message under the role's key, by
/// the clocks of this machine and of the NATS server.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct CheckRole {
    /// The role
    role: String,

    /// Warning if there was no heartbeat for longer than this
    #[arg(short, long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    warning: Duration,

    /// Critical if there was no heartbeat for longer than this
    #[arg(short, long, value_name = "TIME", value_parser = duration, default_value = "15s")]
    critical: Duration,

    /// Warning if there were more changes than this within --period. Needs a history
    #[arg(long, value_name = "COUNT")]
    warning_changes: Option<usize>,

    /// Critical if there were more changes than this within --period. Needs a history
    #[arg(long, value_name = "COUNT")]
    critical_changes: Option<usize>,

    /// The period in which changes count
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1h")]
    period: Duration,

    /// How long to wait at most for a heartbeat
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2500ms")]
    wait: Duration,

    #[command(flatten)]
    trust: Trust,
}

/// The states of such checks. The numbers are the exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Ok = 0,
    Warning = 1,
    Critical = 2,
    Unknown = 3,
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// The state of a value with these thresholds.
    fn of<T: Copy + PartialOrd>(value: T, warning: Option<T>, critical: Option<T>) -> Self {
        if critical.is_some_and(|most| value > most) {
            Self::Critical
        } else if warning.is_some_and(|most| value > most) {
            Self::Warning
        } else {
            Self::Ok
        }
    }
}

/// The exit code if the state is not known.
pub const UNKNOWN: u8 = State::Unknown as u8;

/// The findings about the role.
struct Found {
    observed: Observed,
    /// The time since the last heartbeat. `None` if there never was one.
    silence: Option<Duration>,
    changes: Option<usize>,
}

impl CheckRole {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        match Box::pin(self.found(shared)).await {
            Ok(found) => self.tell(&found, output),
            Err(failure) => {
                let state = State::Unknown;
                if output.is_data() {
                    output.data(&json!({
                        "role": self.role, "state": state.word(), "message": failure.what,
                    }))?;
                } else {
                    let why = failure.what.replace(['\n', '|'], " ");
                    output.line(format!("ROLE {} - {}", state.word(), clean(&why)))?;
                }
                Ok(state as u8)
            }
        }
    }

    async fn found(&self, shared: &Shared) -> Result<Found, Failure> {
        RoleName::new(&self.role).map_err(Error::from)?;
        self.check_thresholds()?;
        let role = std::slice::from_ref(&self.role);
        let observer = shared.observer(Some(role), &self.trust).await?;
        confirmed(&observer, self.wait).await;
        let seen = observer
            .role(&self.role)
            .ok_or_else(|| Failure::not_found("the role is not watched"))?;
        let silence = if seen.confirmed {
            seen.age
        } else {
            let read = async |client, name: String| {
                let bucket = shared.bucket_of(client, &name).await?;
                Written::read(&bucket, &self.role).await
            };
            let written = shared.reading(read).await?;
            let is_led = seen.leader.is_some();
            written.map(|it| {
                let silence = wall_clock().duration_since(it.time()).unwrap_or_default();
                // The clocks may differ, but this one was watched.
                if is_led {
                    silence.max(self.wait)
                } else {
                    silence
                }
            })
        };
        let changes = if self.warning_changes.or(self.critical_changes).is_some() {
            let since = wall_clock().checked_sub(self.period);
            let since = since.and_then(|it| it.duration_since(std::time::UNIX_EPOCH).ok());
            let since = since.map_or(0, |since| {
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            });
            let events = past_events(shared, Some(&self.role)).await?;
            let begun = events.iter().filter_map(PastEvent::began_at);
            Some(begun.filter(|&at| at >= since).count())
        } else {
            None
        };
        Ok(Found {
            observed: seen,
            silence,
            changes,
        })
    }

    /// Refuses thresholds of which the warning could never be told.
    fn check_thresholds(&self) -> Result<(), Failure> {
        let changes = self.warning_changes.zip(self.critical_changes);
        let (name, warning, critical) = if self.warning > self.critical {
            let (warning, critical) = (exact(self.warning), exact(self.critical));
            ("", warning.to_string(), critical.to_string())
        } else if let Some((warning, critical)) = changes.filter(|(most, least)| most > least) {
            ("-changes", warning.to_string(), critical.to_string())
        } else {
            return Ok(());
        };
        Err(Failure::usage(format!(
            "--warning{name} must not be more than --critical{name}, but {warning} is more than {critical}"
        )))
    }

    fn state(&self, found: &Found) -> State {
        let silence = match found.observed.standing {
            Standing::Unknown => return State::Unknown,
            Standing::Untrusted => State::Critical,
            _ => found.silence.map_or(State::Critical, |silence| {
                State::of(silence, Some(self.warning), Some(self.critical))
            }),
        };
        let changes = found.changes.map_or(State::Ok, |changes| {
            State::of(changes, self.warning_changes, self.critical_changes)
        });
        silence.max(changes)
    }

    fn tell(&self, found: &Found, output: Output) -> Outcome {
        let state = self.state(found);
        let seen = &found.observed;
        if output.is_data() {
            output.data(&json!({
                "role": self.role,
                "state": state.word(),
                "leader": seen.leader.as_ref().map(crate::seen::leader_json),
                "standing": seen.standing,
                "confirmed": seen.confirmed,
                "silence_seconds": found.silence.map(Seconds),
                "remaining_seconds": seen.remaining.map(Seconds),
                "ttl_seconds": seen.ttl.map(Seconds),
                "changes": found.changes,
            }))?;
            return Ok(state as u8);
        }
        let mut text = match &seen.leader {
            Some(leader) => format!("{} leads", name(leader).replace('|', " ")),
            None => format!("nobody leads, {}", why_nobody(seen)),
        };
        if let Some(silence) = found.silence {
            let _ = write!(text, ", last heartbeat {} ago", lasted(silence));
        }
        let mut data = Vec::new();
        if let Some(silence) = found.silence {
            data.push(format!(
                "silence={:.3}s;{};{};0",
                silence.as_secs_f64(),
                self.warning.as_secs_f64(),
                self.critical.as_secs_f64()
            ));
        }
        if let Some((left, ttl)) = seen.remaining.zip(seen.ttl) {
            let _ = write!(text, ", {} of the lease left", lasted(left));
            let (left, ttl) = (left.as_secs_f64(), ttl.as_secs_f64());
            data.push(format!("lease={left:.3}s;;;0;{ttl}"));
        }
        if let Some(changes) = found.changes {
            let plural = if changes == 1 { "" } else { "s" };
            let period = lasted(self.period);
            let _ = write!(text, ", {changes} change{plural} in {period}");
            let limit = |most: Option<usize>| most.map_or_else(String::new, |it| it.to_string());
            let (warning, critical) = (limit(self.warning_changes), limit(self.critical_changes));
            data.push(format!("changes={changes};{warning};{critical};0"));
        }
        let mut line = format!("ROLE {} - {}: {text}", state.word(), self.role);
        if !data.is_empty() {
            let _ = write!(line, " | {}", data.join(" "));
        }
        output.line(clean(&line))?;
        Ok(state as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_as_bad_as_the_highest_threshold_that_it_exceeds() {
        let of = |value| State::of(value, Some(5), Some(15));
        assert_eq!(
            [of(5), of(6), of(15), of(16)],
            [State::Ok, State::Warning, State::Warning, State::Critical]
        );
        assert_eq!(State::of(9, None, Some(5)), State::Critical);
        assert_eq!(State::of(9, None, None), State::Ok);
    }
}
