//! `inspect`: everything about one role.

use std::time::Duration;

use clap::Args;
use nats_elect::duration::seconds::Seconds;
use nats_elect::{
    Error, LeaderProof, Observed, Observer, RoleName, Standing, TrustedKeys, VerifiedLeader,
};
use serde_json::{Value, json};

use super::candidates::{self, Candidate, candidates};
use super::history;
use crate::cli::{Shared, duration};
use crate::exit::{Code, Failure, Outcome};
use crate::operating::Whose;
use crate::output::Output;
use crate::past_event::{PastEvent, past_events};
use crate::record::Written;
use crate::roles::unknown;
use crate::seen::{Seen, led_for, state, why_nobody};
use crate::text::{ago, bar, lasted, stamp, wall_clock};
use crate::trust::Trust;

/// Heartbeats that are watched.
const BEATS: usize = 3;
/// How often they are looked for.
const LOOK: Duration = Duration::from_millis(10);
/// Events of the history that are shown.
const EVENTS: usize = 5;

const MORE: &str = "\
The command shows:
  the leader, since when it leads by the server's clock, and the whole fencing token
  the lease, and how regularly heartbeats come
  the record as its leader wrote it, with four characters of the lease token; the fence record
  whether the leader's signature is valid, if there are keys to check it with
  the candidates for the role, as the instances report it (`nats-elect candidates`)
  the latest changes, if a history is kept (`nats-elect history`)

Exit codes:
  0  success, also if nobody leads the role
  1  JetStream is off
  3  there is no such bucket, or no such role: it was never led, and no instance takes part in its
     election
  4  NATS refused the credentials or a permission
  5  NATS did not answer in time

Examples:
  nats-elect inspect scheduler
  nats-elect inspect scheduler --keys-file trusted.txt
  nats-elect inspect scheduler --json | jq .record.value.meta";

/// Show everything about one role
///
/// The command watches a few heartbeats, reads the role's keys, and asks the instances. If instances
/// do not answer or no history is kept, a note says so.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct Inspect {
    /// The role
    role: String,

    /// How long to watch heartbeats at most. The command watches three of them
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "3500ms")]
    wait: Duration,

    #[command(flatten)]
    trust: Trust,
}

/// What was found out.
struct Findings {
    bucket: String,
    seen: Seen,
    beats: Beats,
    record: Option<Written>,
    fence: Option<Written>,
    signature: Signature,
    candidates: Result<Vec<Candidate>, Failure>,
    history: Result<Vec<PastEvent>, Failure>,
}

/// What was seen of heartbeats.
#[derive(Default)]
struct Beats {
    seen: usize,
    shortest: Option<Duration>,
    longest: Option<Duration>,
    /// The greatest age that the lease had.
    oldest: Option<Duration>,
}

/// What the record's proof is worth.
enum Signature {
    None,
    /// No keys were named to check it with.
    Unchecked,
    Valid(Box<VerifiedLeader>),
    Invalid(String),
}

impl Inspect {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        RoleName::new(&self.role).map_err(Error::from)?;
        let keys = self.trust.keys()?;
        let role = std::slice::from_ref(&self.role);
        let observer = shared.observer(Some(role), &self.trust).await?;
        let (beats, candidates, history) = tokio::join!(
            Beats::watched(&observer, &self.role, self.wait),
            candidates(shared, Some(&self.role), Whose::Read),
            self.history(shared),
        );
        let Some(seen) = observer.role(&self.role) else {
            return Err(Failure::new(Code::Failed, "the role is not watched"));
        };
        let stands = async |client, name: String| {
            let bucket = shared.bucket_of(client, &name).await?;
            let record = Written::read(&bucket, &self.role).await?;
            let fence = Written::read(&bucket, &format!("_fence.{}", self.role)).await?;
            Ok((record, fence))
        };
        let (record, fence) = shared.reading(stands).await?;
        let nobody = candidates.as_ref().is_ok_and(Vec::is_empty);
        if record.is_none() && fence.is_none() && nobody {
            return Err(unknown(&self.role));
        }
        let findings = Findings {
            bucket: shared.config()?.bucket,
            seen: Seen {
                role: self.role.clone(),
                observed: seen,
            },
            beats,
            signature: Signature::of(record.as_ref(), keys.as_ref(), &self),
            record,
            fence,
            candidates,
            history,
        };
        if output.is_data() {
            output.data(&findings.json())?;
        } else {
            findings.show(output)?;
        }
        Ok(0)
    }

    async fn history(&self, shared: &Shared) -> Result<Vec<PastEvent>, Failure> {
        let reading = past_events(shared, Some(&self.role));
        let in_time = tokio::time::timeout(shared.patience(), reading).await;
        let late = || Failure::new(Code::Unreachable, "no answer in time");
        let mut events = in_time.map_err(|_| late())??;
        events.drain(..events.len().saturating_sub(EVENTS));
        Ok(events)
    }
}

impl Beats {
    /// Watches until so many were seen, or the time is over.
    async fn watched(observer: &Observer, role: &str, within: Duration) -> Self {
        let mut beats = Self::default();
        let _ = tokio::time::timeout(within, beats.watch(observer, role)).await;
        beats
    }

    async fn watch(&mut self, observer: &Observer, role: &str) {
        let mut last: Option<(u64, Duration)> = None;
        while self.seen < BEATS {
            let seen = observer.role(role);
            if let Some(now) = seen.and_then(|it| Some((it.revision?, it.age?))) {
                self.oldest = self.oldest.max(Some(now.1));
                if let Some((_, age)) = last.filter(|last| last.0 != now.0) {
                    self.count(age);
                }
                last = Some(now);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// A heartbeat came when the one before it was so old.
    fn count(&mut self, age: Duration) {
        self.seen += 1;
        // The first one that was shown may have been written long before.
        if self.seen > 1 {
            self.shortest = Some(self.shortest.map_or(age, |it| it.min(age)));
            self.longest = self.longest.max(Some(age));
        }
    }

    fn words(&self) -> String {
        match (self.seen, self.shortest.zip(self.longest)) {
            (0, _) => "none seen".into(),
            (seen, None) => format!("{seen} seen"),
            (seen, Some((shortest, longest))) => {
                format!(
                    "{seen} seen, {} to {} apart",
                    lasted(shortest),
                    lasted(longest)
                )
            }
        }
    }
}

impl Signature {
    fn of(record: Option<&Written>, keys: Option<&TrustedKeys>, inspect: &Inspect) -> Self {
        let Some(proof) = record.and_then(|record| record.proof.as_ref()) else {
            return Self::None;
        };
        let Some(keys) = keys else {
            return Self::Unchecked;
        };
        let skew = inspect.trust.max_skew;
        let proof = proof.parse::<LeaderProof>();
        match proof.and_then(|proof| proof.verify(keys, wall_clock(), skew)) {
            Ok(leader) if leader.role.as_str() == inspect.role => Self::Valid(Box::new(leader)),
            Ok(leader) => Self::Invalid(format!("it is about the role {:?}", leader.role.as_str())),
            Err(error) => Self::Invalid(error.to_string()),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::None => "none".into(),
            Self::Unchecked => "there is one; check it with --key or --keys-file".into(),
            Self::Valid(leader) => format!("valid, by {}", leader.signer),
            Self::Invalid(why) => format!("not valid: {why}"),
        }
    }

    fn json(&self) -> Value {
        let (word, signer, why) = match self {
            Self::None => ("none", None, None),
            Self::Unchecked => ("unchecked", None, None),
            Self::Valid(leader) => ("valid", Some(leader.signer.as_str()), None),
            Self::Invalid(why) => ("invalid", None, Some(why)),
        };
        json!({ "state": word, "signer": signer, "why": why })
    }
}

impl Findings {
    fn json(&self) -> Value {
        let mut value = self.seen.json();
        let beats = &self.beats;
        let rest = json!({
            "bucket": self.bucket,
            "heartbeats": {
                "seen": beats.seen,
                "shortest_seconds": beats.shortest.map(Seconds),
                "longest_seconds": beats.longest.map(Seconds),
                "oldest_seconds": beats.oldest.map(Seconds),
            },
            "record": self.record.as_ref().map(Written::json),
            "fence": self.fence.as_ref().map(Written::json),
            "signature": self.signature.json(),
            "candidates": self.candidates.as_ref().ok().map(|it| it.iter().map(Candidate::json).collect::<Vec<_>>()),
            "candidates_error": self.candidates.as_ref().err().map(|error| &error.what),
            "history": self.history.as_ref().ok().map(|it| it.iter().map(PastEvent::json).collect::<Vec<_>>()),
            "history_error": self.history.as_ref().err().map(|error| &error.what),
        });
        if let (Value::Object(value), Value::Object(rest)) = (&mut value, rest) {
            value.extend(rest);
        }
        value
    }

    fn show(&self, output: Output) -> std::io::Result<()> {
        output.line(format!("role {}, bucket {}", self.seen.role, self.bucket))?;
        let rows = self.leader().into_iter().chain(self.lease());
        for (name, value) in rows {
            output.line(format!("  {name:<14} {value}"))?;
        }
        for (name, written) in [("record", &self.record), ("fence record", &self.fence)] {
            let title = written
                .as_ref()
                .map_or_else(|| "its key is missing".into(), Written::title);
            output.line(format!("\n{name}: {title}"))?;
            for line in written.iter().flat_map(Written::lines) {
                output.line(format!("  {line}"))?;
            }
        }
        output.line("\ncandidates")?;
        match &self.candidates {
            Ok(found) if found.is_empty() => {
                output.line("  no instance that answers takes part in the election")?;
            }
            Ok(found) => candidates::show(found, output)?,
            Err(error) => output.line(format!("  not known: {}", error.what))?,
        }
        output.line("\nhistory")?;
        match &self.history {
            Ok(events) if events.is_empty() => {
                output.line("  the history has no event of this role")
            }
            Ok(events) => history::show(events, false, output),
            Err(error) if error.code == Code::NotFound => {
                output.line("  none is kept; `nats-elect history` says what to set")
            }
            Err(error) => output.line(format!("  not known: {}", error.what)),
        }
    }

    fn leader(&self) -> Vec<(String, String)> {
        let seen = &self.seen.observed;
        let row = |name: &str, value: String| (name.to_owned(), value);
        let Some(leader) = &seen.leader else {
            let mut rows = vec![row(
                "leader",
                format!("nobody, {}: {}", state(seen), why_nobody(seen)),
            )];
            if let Some(last) = &seen.last_leader {
                rows.push(row("last leader", crate::seen::name(last)));
            }
            return rows;
        };
        let mut rows = vec![row(
            "leader",
            format!("{} ({})", self.seen.who(), state(seen)),
        )];
        if let Some(incarnation) = leader.incarnation {
            rows.push(row("incarnation", incarnation.to_string()));
        }
        if let (Some(since), Some(led_for)) = (seen.since_at, led_for(seen)) {
            rows.push(row("since", format!("{} ({})", stamp(since), ago(led_for))));
        }
        let token = seen.fencing_token.map(|token| token.to_string());
        rows.push(row(
            "fencing token",
            token.unwrap_or_else(|| "not known".into()),
        ));
        rows.push(row("priority", leader.priority.to_string()));
        let meta = leader.meta.iter();
        rows.extend(meta.map(|(name, value)| (format!("meta.{name}"), value.clone())));
        rows.push(row("signature", self.signature.words()));
        rows
    }

    fn lease(&self) -> Vec<(String, String)> {
        let Observed {
            ttl,
            remaining,
            standing,
            ..
        } = self.seen.observed;
        let mut rows = Vec::new();
        if let Some((left, ttl)) = remaining.zip(ttl) {
            let text = format!(
                "{} {} of {} left",
                bar(left, ttl, 10),
                lasted(left),
                lasted(ttl)
            );
            rows.push(("lease".to_owned(), text));
        }
        if standing == Standing::Led || self.beats.seen > 0 {
            rows.push(("heartbeats".to_owned(), self.beats.words()));
        }
        rows
    }
}
