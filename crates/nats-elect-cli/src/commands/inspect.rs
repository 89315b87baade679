//! `inspect`: everything about one role.

use std::time::Duration;

use clap::Args;
use nats_elect::{LeaderProof, RoleName, TrustedKeys, VerifiedLeader};
use serde::Serialize;
use serde_json::Value;

use super::candidates::{self, candidates};
use super::history;
use crate::exit::{Code, Failure, Outcome};
use crate::instances::{Candidate, Whose};
use crate::options::{Shared, duration};
use crate::output::Output;
use crate::past_event::{PastEvent, past_events};
use crate::record::Written;
use crate::roles::unknown;
use crate::seen::{Seen, confirmed, led_for, state, why_nobody};
use crate::text::{ago, bar, lasted, stamp, wall_clock};
use crate::trust::Trust;

/// Events of the history that are shown.
const EVENTS: usize = 5;

const MORE: &str = "\
The command shows:
  the leader, since when it leads by the server's clock, and the whole fencing token
  the lease
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
/// The command waits for a heartbeat, reads the role's keys, and asks the instances. If instances
/// do not answer or no history is kept, a note says so.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct Inspect {
    /// The role
    role: String,

    /// How long to wait at most for a heartbeat of the leader. Heartbeats come each second by default
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2500ms")]
    wait: Duration,

    #[command(flatten)]
    trust: Trust,
}

/// What was found out.
struct Findings {
    bucket: String,
    seen: Seen,
    record: Option<Written>,
    fence: Option<Written>,
    signature: Signature,
    candidates: Result<Vec<Candidate>, Failure>,
    history: Result<Vec<PastEvent>, Failure>,
}

/// The same for programs.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    seen: Value,
    bucket: &'a str,
    record: &'a Option<Written>,
    fence: &'a Option<Written>,
    signature: ToldSignature<'a>,
    candidates: Option<Vec<Value>>,
    candidates_error: Option<&'a str>,
    history: Option<Vec<Value>>,
    history_error: Option<&'a str>,
}

#[derive(Serialize)]
struct ToldSignature<'a> {
    state: &'static str,
    signer: Option<&'a str>,
    why: Option<&'a str>,
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
        RoleName::new(&self.role)?;
        let keys = self.trust.keys()?;
        let role = std::slice::from_ref(&self.role);
        let observer = shared.observer(Some(role), &self.trust).await?;
        let ((), candidates, history) = tokio::join!(
            confirmed(&observer, self.wait),
            candidates(shared, Some(&self.role), Whose::Read),
            self.history(shared),
        );
        let Some(seen) = observer.role(&self.role) else {
            return Err(Failure::failed("the role is not watched"));
        };
        let stands = async |client, name: String| {
            let bucket = shared.bucket_of(client, &name).await?;
            Written::of_role(&bucket, &self.role).await
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
            signature: Signature::of(record.as_ref(), keys.as_ref(), &self),
            record,
            fence,
            candidates,
            history,
        };
        if output.is_data() {
            output.data(&findings.told())?;
        } else {
            findings.show(output)?;
        }
        Ok(0)
    }

    async fn history(&self, shared: &Shared) -> Result<Vec<PastEvent>, Failure> {
        let reading = past_events(shared, Some(&self.role));
        let in_time = tokio::time::timeout(shared.patience(), reading).await;
        let late = || Failure::unreachable("no answer in time");
        let mut events = in_time.map_err(|_| late())??;
        events.drain(..events.len().saturating_sub(EVENTS));
        Ok(events)
    }
}

impl Signature {
    fn of(record: Option<&Written>, keys: Option<&TrustedKeys>, inspect: &Inspect) -> Self {
        let proof = record.and_then(|record| record.fields.as_ref()?.get("proof")?.as_str());
        let Some(proof) = proof else {
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

    fn told(&self) -> ToldSignature<'_> {
        let (state, signer, why) = match self {
            Self::None => ("none", None, None),
            Self::Unchecked => ("unchecked", None, None),
            Self::Valid(leader) => ("valid", Some(leader.signer.as_str()), None),
            Self::Invalid(why) => ("invalid", None, Some(why.as_str())),
        };
        ToldSignature { state, signer, why }
    }
}

impl Findings {
    fn told(&self) -> Told<'_> {
        let candidates = self.candidates.as_ref();
        let history = self.history.as_ref();
        Told {
            seen: self.seen.json(),
            bucket: &self.bucket,
            record: &self.record,
            fence: &self.fence,
            signature: self.signature.told(),
            candidates: candidates
                .ok()
                .map(|it| it.iter().map(Candidate::json).collect()),
            candidates_error: candidates.err().map(|it| it.what.as_str()),
            history: history
                .ok()
                .map(|it| it.iter().map(PastEvent::json).collect()),
            history_error: history.err().map(|it| it.what.as_str()),
        }
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

    fn lease(&self) -> Option<(String, String)> {
        let seen = &self.seen.observed;
        let (left, ttl) = seen.remaining.zip(seen.ttl)?;
        let (bar, left, ttl) = (bar(left, ttl, 10), lasted(left), lasted(ttl));
        Some(("lease".to_owned(), format!("{bar} {left} of {ttl} left")))
    }
}
