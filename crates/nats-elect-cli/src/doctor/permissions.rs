//! What the user may do, by trying it where nothing comes of it.
//!
//! Requests to instances go to an incarnation that does not exist; letters are empty, which is no
//! question; keys are written on conditions that can't be fulfilled. Subscriptions last for a
//! moment: meanwhile a candidate that looks for another one is not told at once that nobody is
//! there, but waits for as long as it would if somebody were.

use std::collections::BTreeSet;
use std::str::FromStr;

use nats_elect::permissions::{self as library, Need, Scope};
use nats_elect::{Denied, ObservedGroups};
use serde_json::{Value, json};
use uuid::Uuid;

use super::examined::{Examined, Part};
use super::findings::{Findings, Verdict};
use crate::exit::{grant, verb};
use crate::line::Answer;
use crate::text::joined;

/// The code of the refusal that is asked for, as servers say it in either of two ways.
const WRONG_LAST_SEQUENCE: [u64; 2] = [10071, 10164];

/// The name of a member that there is not.
const NO_EPOCH: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// The names, which were checked before.
fn parsed<N: FromStr>(names: &[String]) -> Vec<N> {
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

/// What is tried, and what is lost where it is denied.
#[derive(Clone, Copy)]
struct Trial<'a> {
    check: &'static str,
    lost: &'a str,
    /// The verdict if it is denied: a warning, if elections are held without it all the same.
    denied: Verdict,
}

impl<'a> Trial<'a> {
    const fn needed(check: &'static str, lost: &'a str) -> Self {
        let denied = Verdict::Fail;
        Self {
            check,
            lost,
            denied,
        }
    }

    const fn dispensable(check: &'static str, lost: &'a str) -> Self {
        let mut trial = Self::needed(check, lost);
        trial.denied = Verdict::Warn;
        trial
    }
}

impl Examined<'_> {
    /// Reads and watches: what everybody needs who looks into the bucket.
    /// Returns whether records can be read.
    pub async fn reading(&self, findings: &mut Findings) -> bool {
        let trial = Trial::needed("may read", "no record can be read");
        let (bucket, role) = (self.bucket(), &self.roles.names[0]);
        let read = format!("$JS.API.STREAM.MSG.GET.KV_{bucket}");
        let key = json!({ "last_by_subj": format!("$KV.{bucket}.{role}") });
        let answer = self.line.ask(&read, &key).await;
        // That nothing stands there is an answer, too.
        let readable = matches!(answer, Answer::Json(_));
        match answer {
            Answer::Json(_) => findings.ok(trial.check, "from the stream leader"),
            other => failed(trial, &read, &other, findings),
        }
        self.watch(findings).await;
        let nobody = Uuid::from_u128(rand::random());
        let flow = format!("$JS.FC.KV_{bucket}.doctor.{nobody}");
        let trial = Trial::needed("may pace watches", "a watch of many keys stalls");
        self.forbidden(trial, &[flow], &[], findings).await;
        readable
    }

    /// Makes a watch as the library does, over keys that do not exist; the server forgets it after
    /// a second.
    async fn watch(&self, findings: &mut Findings) {
        let lost = "changes are not seen: failovers take a lease, or do not happen";
        let (trial, bucket) = (Trial::needed("may watch", lost), self.bucket());
        let name = format!("elect-doctor-{}", Uuid::from_u128(rand::random()).simple());
        let filter = format!("$KV.{bucket}._doctor");
        let subject = format!("$JS.API.CONSUMER.CREATE.KV_{bucket}.{name}.{filter}");
        let inbox = self.line.client.new_inbox();
        let body = json!({
            "stream_name": format!("KV_{bucket}"),
            "config": {
                "name": name, "deliver_subject": inbox, "deliver_policy": "last_per_subject", "ack_policy": "none",
                "replay_policy": "instant", "max_deliver": 1, "inactive_threshold": 1_000_000_000_u64,
                "mem_storage": true, "num_replicas": 1, "filter_subject": filter,
            },
        });
        match self.line.ask(&subject, &body).await {
            Answer::Json(answer) if answer["error"].is_null() => {
                findings.ok(trial.check, "changes are seen as they come");
            }
            other => failed(trial, &subject, &other, findings),
        }
    }

    /// Writes what leaders write, so that it is refused. Returns the first role for which that may
    /// be done.
    pub async fn writing(&self, findings: &mut Findings) -> Option<&str> {
        let mut first = None;
        for role in &self.roles.names {
            let no_lead = format!("role {role:?} can't be claimed or kept");
            let no_store = format!("the leader of {role:?} has no `Term::store()`");
            let leads = Trial::needed("may lead", &no_lead);
            let keeps = Trial::dispensable("may keep data", &no_store);
            for (trial, need) in [(leads, Need::Lead), (keeps, Need::KeepData)] {
                let subjects = self.keys(need, role, &[]);
                let granted = self.granted(role);
                let may = self.writes(trial, &subjects, granted, findings).await;
                if may && need == Need::Lead {
                    first = first.or(Some(role.as_str()));
                }
            }
        }
        first
    }

    /// Writes what members of groups write, so that it is refused: in the present generation of each
    /// and in the next one.
    pub async fn owning(&self, seen: Option<&ObservedGroups>, findings: &mut Findings) {
        for group in self.groups {
            let known = seen.and_then(|seen| seen.groups.get(group));
            let present = known.map_or(1, |it| it.generation.max(1));
            let generations = [present, present.saturating_add(1)];
            let no_unit = format!("no unit of group {group:?} is owned here");
            let no_store = format!("owners of units of {group:?} have no `Term::store()`");
            let owns = Trial::needed("may own units", &no_unit);
            let keeps = Trial::dispensable("may keep data", &no_store);
            for (trial, need) in [(owns, Need::Own), (keeps, Need::KeepUnitData)] {
                let subjects = self.keys(need, group, &generations);
                let granted = format!("the keys of group {group:?}");
                self.writes(trial, &subjects, granted, findings).await;
            }
        }
    }

    /// Whether all of this may be written.
    async fn writes(
        &self,
        trial: Trial<'_>,
        subjects: &[String],
        granted: String,
        findings: &mut Findings,
    ) -> bool {
        let mut denied = Vec::new();
        let is_refused = |answer: &Value| {
            let code = answer["error"]["err_code"].as_u64();
            code.is_some_and(|code| WRONG_LAST_SEQUENCE.contains(&code))
        };
        for subject in subjects {
            match self.line.ask_for_refusal(subject).await {
                Answer::Json(answer) if is_refused(&answer) => {}
                Answer::Denied(denial) => denied.push(denial),
                other => {
                    failed(trial, subject, &other, findings);
                    return false;
                }
            }
        }
        if denied.is_empty() {
            findings.ok(trial.check, granted);
            return true;
        }
        self.tell(trial, &denied, findings);
        false
    }

    /// The keys of a need of candidates, of this role or group, as the table has them. Those of units
    /// in each of these generations.
    fn keys(&self, need: Need, name: &str, generations: &[u32]) -> Vec<String> {
        let mut scope = self.scope();
        let name = [name.to_owned()];
        (scope.roles, scope.groups) = (parsed(&name), parsed(&name));
        let rights = scope.rights(library::Part::Candidate);
        let rights = rights.filter(|right| right.need == need);
        let keys = rights.flat_map(|right| right.publish);
        let keys = keys.filter(|subject| subject.starts_with("$KV."));
        let tried = keys.flat_map(|pattern| {
            let of_units = |key: &str, rest: &str| {
                let keys = generations.iter();
                keys.map(|it| format!("{key}.{it}.0{rest}")).collect()
            };
            match pattern.strip_suffix(".>") {
                Some(key) if need == Need::KeepData => vec![format!("{key}._doctor")],
                Some(key) if key.contains("._gdata.") => of_units(key, "._doctor"),
                Some(key) => of_units(key, ""),
                None => vec![pattern.replace('*', NO_EPOCH)],
            }
        });
        tried.collect()
    }

    /// What the table is filled in with.
    fn scope(&self) -> Scope {
        let mut scope = Scope::default();
        if let Ok(bucket) = self.bucket().parse() {
            scope.bucket = bucket;
        }
        scope.groups = parsed(self.groups);
        scope.roles = match self.part {
            Part::Candidate => parsed(&self.roles.names),
            _ => parsed(self.roles.named()),
        };
        if self.config.admin.enabled {
            let prefix = &self.config.admin.subject_prefix;
            scope.admin_prefix.clone_from(prefix);
        }
        scope
    }

    /// What may be done where nothing is denied.
    fn granted(&self, role: &str) -> String {
        if self.roles.made_up {
            "the keys of a role; name yours with --role, if permissions differ by role".into()
        } else {
            format!("the keys of role {role:?}")
        }
    }

    /// Everything else: letters between candidates, and the admin service.
    pub async fn messages(&self, findings: &mut Findings) {
        if self.part == Part::Candidate {
            let lost = "no role can be handed to a named successor, or taken over by priority";
            let trial = Trial::dispensable("may hand over", lost);
            self.attempt(trial, &[Need::HandOver], findings).await;
        }
        if !self.config.admin.enabled {
            let why = "the configuration switches the admin service off";
            return findings.skipped("may be operated", why);
        }
        if self.part == Part::Candidate {
            let needs = [Need::BeOperated, Need::BeOperatedInGroups];
            let lost = "operators can't send these requests to an instance of this user";
            let trial = Trial::dispensable("may be operated", lost);
            return self.attempt(trial, &needs, findings).await;
        }
        let lost = "instances can't be found, or asked for their status";
        let trial = Trial::needed("may ask instances", lost);
        self.attempt(trial, &[Need::Ask], findings).await;
        if self.part == Part::Operator {
            let trial = Trial::needed("may operate", "instances can't be sent these requests");
            let needs = [Need::Operate, Need::OperateGroups];
            self.attempt(trial, &needs, findings).await;
        }
    }

    /// Tries the subjects of these needs, as the table has them.
    async fn attempt(&self, trial: Trial<'_>, needs: &[Need], findings: &mut Findings) {
        let part = match self.part {
            Part::Candidate => library::Part::Candidate,
            Part::Observer => library::Part::Observer,
            Part::Operator => library::Part::Operator,
        };
        let (mut publish, mut subscribe) = (Vec::new(), Vec::new());
        for right in self.scope().rights(part) {
            // The plan of groups is tried where one is named.
            let is_of_groups = right.need == Need::OperateGroups && self.groups.is_empty();
            if needs.contains(&right.need) && !is_of_groups {
                let tried = |patterns: Vec<String>| {
                    let tried = patterns.into_iter().map(|it| self.tried(&it));
                    tried.flatten().collect::<Vec<_>>()
                };
                publish.extend(tried(right.publish));
                subscribe.extend(tried(right.subscribe));
            }
        }
        self.forbidden(trial, &publish, &subscribe, findings).await;
    }

    async fn forbidden(
        &self,
        trial: Trial<'_>,
        publish: &[String],
        subscribe: &[String],
        findings: &mut Findings,
    ) {
        match self.line.forbidden(publish, subscribe).await {
            None => findings.skipped(trial.check, "the server did not answer in time"),
            Some(denied) if denied.is_empty() => {
                findings.ok(trial.check, "all permissions for it are granted");
            }
            Some(denied) => self.tell(trial, &denied, findings),
        }
    }

    /// Subjects of which a user has all who has this permission: nobody is there.
    fn tried(&self, pattern: &str) -> Vec<String> {
        let nobody = Uuid::from_u128(rand::random()).to_string();
        if let Some(rest) = pattern.strip_prefix("$SRV.*") {
            let rest = rest.replace('*', &nobody);
            return ["PING", "INFO", "STATS"]
                .map(|verb| format!("$SRV.{verb}{rest}"))
                .to_vec();
        }
        if let Some(beginning) = pattern.strip_suffix(".>") {
            let longer = format!("{beginning}.{nobody}.{nobody}");
            return vec![format!("{beginning}.{nobody}"), longer];
        }
        if let Some(beginning) = pattern.strip_suffix(".*.*") {
            // Of an instance, and of a role.
            let role = &self.roles.names[0];
            return vec![format!("{beginning}.{nobody}.{role}")];
        }
        vec![pattern.replace('*', &nobody)]
    }

    fn tell(&self, trial: Trial<'_>, denied: &[Denied], findings: &mut Findings) {
        let (check, role) = (trial.check, &self.roles.names[0]);
        if self.roles.made_up && denied.iter().all(|it| self.is_of_role(it)) {
            let why = format!("denied for a made-up role ({role})");
            let advice = "name one of yours with --role";
            return match trial.denied {
                Verdict::Fail => findings.warn(check, why, advice),
                _ => findings.skipped(check, format!("{why}; {advice}")),
            };
        }
        let advice = match denied {
            [only] => grant(only),
            _ => "grant them: `nats-elect permissions` prints all that a user needs".into(),
        };
        let found = format!("{}: {}", folded(denied), trial.lost);
        findings.add(check, trial.denied, found, Some(advice));
    }

    fn is_of_role(&self, denied: &Denied) -> bool {
        denied
            .subject
            .split('.')
            .any(|token| self.roles.names.iter().any(|role| role == token))
    }
}

/// Tells what is denied in one sentence, each permission once.
fn folded(denied: &[Denied]) -> String {
    let words = denied
        .iter()
        .map(|it| format!("{} to {:?}", verb(it), it.permission()));
    let words: BTreeSet<_> = words.collect();
    format!("this NATS user may not {}", joined(words))
}

fn failed(trial: Trial<'_>, subject: &str, answer: &Answer, findings: &mut Findings) {
    let (check, lost) = (trial.check, trial.lost);
    let (found, advice) = match answer {
        Answer::Denied(denied) => (format!("{denied}: {lost}"), grant(denied)),
        Answer::Nobody => (
            format!("no server answers {subject:?}: {lost}"),
            "the stream may have no leader just now: `nats stream info` shows it, and the servers' logs say why".into(),
        ),
        Answer::Silence => (
            format!("no answer to {subject:?} in time: {lost}"),
            "check the servers' logs, or wait longer with --timeout".into(),
        ),
        Answer::Json(answer) => {
            let what = answer["error"]["description"].as_str();
            let what = what.unwrap_or("an unexpected answer");
            (
                format!("the server answers {subject:?}: {what}; {lost}"),
                "check the limits of the bucket and of the account".into(),
            )
        }
    };
    findings.fail(check, found, advice);
}
