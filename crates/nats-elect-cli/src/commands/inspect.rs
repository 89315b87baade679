//! `inspect`: everything about one role.

use clap::Args;
use nats_elect::{LeaderEvent, Observed, RoleName};
use serde::Serialize;
use serde_json::{Value, json};

use super::candidates::{self, candidates};
use super::history;
use crate::exit::{Code, Failure, Outcome};
use crate::fleet::{Event, Instance, Role};
use crate::instances::{Candidate, Whose};
use crate::options::{Heartbeats, Shared};
use crate::output::Output;
use crate::past_event::past_events;
use crate::record::Written;
use crate::seen::{confirmed, led_for, state, who, why_nobody};
use crate::text::{ago, bar, lasted, row, stamp};
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

Exit codes: those of `nats-elect --help`. 0 also if nobody leads the role. 3 if it was never led,
and no instance takes part in its election

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
    role: RoleName,

    #[command(flatten)]
    heartbeats: Heartbeats,

    #[command(flatten)]
    trust: Trust,
}

/// What was found out.
struct Findings {
    bucket: String,
    role: String,
    seen: Observed,
    record: Option<Written>,
    fence: Option<Written>,
    /// Whether keys were named to check the record's signature with.
    checks_signatures: bool,
    candidates: Result<Vec<Candidate>, Failure>,
    history: Result<Vec<LeaderEvent>, Failure>,
}

/// The verdict on the record's proof.
#[derive(Serialize)]
struct Signature<'a> {
    state: &'static str,
    signer: Option<&'a str>,
    why: Option<&'static str>,
}

impl Inspect {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let role = self.role.as_str();
        let observer = shared
            .observer(Some(&[role.to_owned()]), &self.trust, false)
            .await?;
        let ((), candidates, history) = tokio::join!(
            confirmed(&observer, self.heartbeats.wait),
            candidates(shared, Some(role), Whose::Read),
            past_events(shared, Some(role), 0, EVENTS),
        );
        let Some(seen) = observer.role(role) else {
            return Err(Failure::failed("the role is not watched"));
        };
        let stands = async |bucket| Written::of_role(&bucket, role).await;
        let (record, fence) = shared.in_bucket(stands).await?;
        let nobody = candidates.as_ref().is_ok_and(Vec::is_empty);
        if record.is_none() && fence.is_none() && nobody {
            let what = format!(
                "role {role:?} is unknown: it was never led, and no instance that answers takes part in its election"
            );
            return Err(Failure::not_found(what).advice("`nats-elect ls` lists the roles"));
        }
        let findings = Findings {
            bucket: shared.config()?.bucket,
            role: role.to_owned(),
            seen,
            checks_signatures: self.trust.is_given(),
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
}

impl Findings {
    /// The same for programs.
    fn told(&self) -> Value {
        let mut told = json!(Role::of(&self.role, &self.seen));
        told["bucket"] = json!(self.bucket);
        told["record"] = json!(self.record);
        told["fence"] = json!(self.fence);
        told["signature"] = json!(self.signature());
        let (candidates, history) = (self.candidates.as_ref(), self.history.as_ref());
        let instances =
            |it: &Vec<Candidate>| it.iter().map(|it| json!(Instance::from(it))).collect();
        told["candidates"] = candidates.map_or(Value::Null, instances);
        told["candidates_error"] = json!(candidates.err().map(|it| &it.what));
        let events = |it: &Vec<LeaderEvent>| it.iter().map(|it| json!(Event::from(it))).collect();
        told["history"] = history.map_or(Value::Null, events);
        told["history_error"] = json!(history.err().map(|it| &it.what));
        told
    }

    fn signature(&self) -> Signature<'_> {
        let fields = self.record.as_ref().and_then(|it| it.fields.as_ref());
        let has_proof = fields.is_some_and(|it| it.get("proof").is_some_and(Value::is_string));
        let seen = &self.seen;
        let signer = seen.leader.as_ref().and_then(|it| it.signer.as_deref());
        let (state, why) = match (has_proof, self.checks_signatures, signer) {
            (false, ..) => ("none", None),
            (_, false, _) => ("unchecked", None),
            (.., Some(_)) => ("valid", None),
            (.., None) => {
                let why = seen.distrust.map_or(state(seen), |it| it.as_str());
                ("invalid", Some(why))
            }
        };
        Signature { state, signer, why }
    }

    fn show(&self, output: Output) -> std::io::Result<()> {
        output.line(format!("role {}, bucket {}", self.role, self.bucket))?;
        let rows = self.leader().into_iter().chain(self.lease());
        for line in rows {
            output.line(line)?;
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
            Ok(events) => history::show(events, output),
            Err(error) if error.code == Code::NotFound => {
                output.line("  none is kept; `nats-elect history` says what to set")
            }
            Err(error) => output.line(format!("  not known: {}", error.what)),
        }
    }

    fn leader(&self) -> Vec<String> {
        let seen = &self.seen;
        let Some(leader) = &seen.leader else {
            let nobody = format!("nobody, {}: {}", state(seen), why_nobody(seen));
            let last = seen.last_leader.as_ref();
            let last = last.map(|last| row("last leader", &crate::seen::name(last)));
            return [row("leader", &nobody)].into_iter().chain(last).collect();
        };
        let who = format!("{} ({})", who(seen), state(seen));
        let mut rows = vec![row("leader", &who)];
        if let Some(incarnation) = leader.incarnation {
            rows.push(row("incarnation", &incarnation.to_string()));
        }
        if let (Some(since), Some(led_for)) = (seen.since_at, led_for(seen)) {
            let since = format!("{} ({})", stamp(since), ago(led_for));
            rows.push(row("since", &since));
        }
        let token = seen.fencing_token.map(|token| token.to_string());
        rows.push(row(
            "fencing token",
            token.as_deref().unwrap_or("not known"),
        ));
        rows.push(row("priority", &leader.priority.to_string()));
        let meta = leader.meta.iter();
        rows.extend(meta.map(|(name, value)| row(&format!("meta.{name}"), value)));
        let signature = self.signature();
        let signature = match signature.signer {
            Some(signer) => format!("valid, by {signer}"),
            None if signature.state == "unchecked" => {
                "there is one; check it with --key or --keys-file".into()
            }
            None => signature.state.into(),
        };
        rows.push(row("signature", &signature));
        rows
    }

    fn lease(&self) -> Option<String> {
        let seen = &self.seen;
        let (left, ttl) = seen.remaining.zip(seen.ttl)?;
        let (bar, left, ttl) = (bar(left, ttl, 10), lasted(left), lasted(ttl));
        Some(row("lease", &format!("{bar} {left} of {ttl} left")))
    }
}
