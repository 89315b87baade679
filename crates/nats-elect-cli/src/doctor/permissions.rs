//! What the user may do, by trying it where nothing comes of it.
//!
//! Requests to instances go to an incarnation that does not exist; letters are empty, which is no
//! question; keys are written on conditions that can't be fulfilled. Subscriptions last for a
//! moment: meanwhile a candidate that looks for another one is not told at once that nobody is
//! there, but waits for as long as it would if somebody were.

use std::str::FromStr;

use nats_elect::permissions::{self as library, Need, Scope};
use nats_elect::{Denied, ObservedGroups};
use serde_json::{Value, json};
use uuid::Uuid;

use super::examined::{Examined, Part};
use super::findings::Findings;
use crate::denied::{advice, permission};
use crate::line::Answer;

/// The code of the refusal that is asked for, as servers say it in either of two ways.
const WRONG_LAST_SEQUENCE: [u64; 2] = [10071, 10164];

/// The name of a member that there is not.
const NO_EPOCH: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// More roles of the bucket are not tried.
const MOST_ROLES: usize = 100;

/// The names, which were checked before.
fn parsed<N: FromStr>(names: &[String]) -> Vec<N> {
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

/// What is tried, and what is lost where it is denied.
#[derive(Clone, Copy)]
struct Trial<'a> {
    check: &'static str,
    lost: &'a str,
    /// Whether elections are held without it all the same.
    dispensable: bool,
}

impl<'a> Trial<'a> {
    const fn needed(check: &'static str, lost: &'a str) -> Self {
        Self {
            check,
            lost,
            dispensable: false,
        }
    }

    const fn dispensable(check: &'static str, lost: &'a str) -> Self {
        Self {
            dispensable: true,
            ..Self::needed(check, lost)
        }
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
    /// be done. Where permissions for a made-up role are missing, those for the roles that stand in
    /// the bucket tell whether any can be led.
    pub async fn writing<'r>(
        &'r self,
        standing: &[&'r str],
        findings: &mut Findings,
    ) -> Option<&'r str> {
        let mut first = None;
        for role in &self.roles.names {
            let lost = format!("role {role:?} can't be claimed or kept");
            let trial = Trial::needed("may lead", &lost);
            let subjects = self.keys(Need::Lead, role, &[]);
            match self.refused(trial, &subjects, findings).await {
                Some(denied) if denied.is_empty() => {
                    findings.ok(trial.check, self.granted(role));
                    first = first.or(Some(role.as_str()));
                }
                Some(_) if self.roles.made_up => first = self.any_of(standing, findings).await,
                Some(denied) => self.tell(trial, &denied, findings),
                None => {}
            }
            let lost = format!("the leader of {role:?} has no `Term::store()`");
            let trial = Trial::dispensable("may keep data", &lost);
            let subjects = self.keys(Need::KeepData, role, &[]);
            let granted = self.granted(role);
            self.writes(trial, &subjects, granted, findings).await;
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

    async fn writes(
        &self,
        trial: Trial<'_>,
        subjects: &[String],
        granted: String,
        findings: &mut Findings,
    ) {
        match self.refused(trial, subjects, findings).await {
            Some(denied) if denied.is_empty() => findings.ok(trial.check, granted),
            Some(denied) => self.tell(trial, &denied, findings),
            None => {}
        }
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

    /// Looks for a role of the bucket that this user may lead.
    async fn any_of<'r>(&self, standing: &[&'r str], findings: &mut Findings) -> Option<&'r str> {
        let check = "may lead";
        let mut latest = None;
        for role in standing.iter().take(MOST_ROLES) {
            let lost = format!("role {role:?} can't be claimed or kept");
            let subjects = self.keys(Need::Lead, role, &[]);
            let trial = Trial::needed(check, &lost);
            match self.refused(trial, &subjects, findings).await {
                Some(denied) if denied.is_empty() => {
                    let found = format!(
                        "the keys of role {role:?} in the bucket, but not those of every role; name yours with --role"
                    );
                    findings.ok(check, found);
                    return Some(role);
                }
                Some(denied) => latest = denied.into_iter().next(),
                None => return None,
            }
        }
        match latest {
            Some(denied) => findings.fail(
                check,
                format!(
                    "{denied}: none of the {} tried roles of the bucket can be claimed or kept",
                    standing.len().min(MOST_ROLES)
                ),
                format!("{}; or name another role with --role", advice(&denied)),
            ),
            None => findings.warn(
                check,
                format!(
                    "denied for a made-up role ({}), and the bucket has no role to try",
                    self.roles.names[0]
                ),
                "name one of yours with --role",
            ),
        }
        None
    }

    /// What is denied of these; nothing, and it is told, where the answer is another one than
    /// expected.
    async fn refused(
        &self,
        trial: Trial<'_>,
        subjects: &[String],
        findings: &mut Findings,
    ) -> Option<Vec<Denied>> {
        let mut denied = Vec::new();
        for subject in subjects {
            match self.line.ask_for_refusal(subject).await {
                Answer::Json(answer) if is_the_refusal(&answer) => {}
                // The keys of two generations need one permission.
                Answer::Denied(denial) => {
                    let differs = |it: &Denied| it.to_string() != denial.to_string();
                    if denied.iter().all(differs) {
                        denied.push(denial);
                    }
                }
                other => {
                    failed(trial, subject, &other, findings);
                    return None;
                }
            }
        }
        Some(denied)
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
            let why = format!("denied for a made-up role ({role}); name one of yours with --role");
            return findings.skipped(check, why);
        }
        let found = format!("{}: {}", folded(denied), trial.lost);
        if trial.dispensable {
            findings.warn(check, found, advice_on_all(denied));
        } else {
            findings.fail(check, found, advice_on_all(denied));
        }
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
    let mut words: Vec<String> = Vec::new();
    for denied in denied {
        let text = if denied.inboxes().is_some() {
            denied.to_string()
        } else {
            let verb = if denied.publish {
                "publish"
            } else {
                "subscribe"
            };
            format!("this NATS user may not {verb} to {:?}", permission(denied))
        };
        let text = if words.is_empty() {
            text
        } else {
            text.replacen("this NATS user may not ", "", 1)
        };
        let is_told = |it: &String| it.ends_with(&*text) || text.ends_with(&**it);
        if !words.iter().any(is_told) {
            words.push(text);
        }
    }
    words.join(", ")
}

fn advice_on_all(denied: &[Denied]) -> String {
    match denied {
        [only] => advice(only),
        _ => "grant them: `nats-elect permissions` prints all that a user needs".into(),
    }
}

fn is_the_refusal(answer: &Value) -> bool {
    let code = answer["error"]["err_code"].as_u64();
    code.is_some_and(|code| WRONG_LAST_SEQUENCE.contains(&code))
}

fn failed(trial: Trial<'_>, subject: &str, answer: &Answer, findings: &mut Findings) {
    let (check, lost) = (trial.check, trial.lost);
    let (found, advice) = match answer {
        Answer::Denied(denied) => (format!("{denied}: {lost}"), advice(denied)),
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
