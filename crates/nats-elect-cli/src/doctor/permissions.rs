//! What the user may do, by trying it where nothing comes of it.
//!
//! Requests to instances go to an incarnation that does not exist; letters are empty, which is no
//! question; keys are written on conditions that can't be fulfilled. Subscriptions last for a
//! moment: meanwhile a candidate that looks for another one is not told at once that nobody is
//! there, but waits for as long as it would if somebody were.

use std::io;

use nats_elect::{Denied, ObservedGroups};
use serde_json::{Value, json};
use uuid::Uuid;

use super::findings::Findings;
use super::{Part, Roles};
use crate::line::{Answer, Line, advice};

/// The code of the refusal that is asked for, as servers say it in either of two ways.
const WRONG_LAST_SEQUENCE: [u64; 2] = [10071, 10164];

/// The name of a member that there is not.
const NO_EPOCH: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// More roles of the bucket are not tried.
const MOST_ROLES: usize = 100;

pub struct Trial<'a> {
    pub line: &'a Line,
    pub bucket: &'a str,
    /// What subjects of the admin service begin with; none where it is switched off.
    pub admin: Option<&'a str>,
    pub part: Part,
    pub roles: &'a Roles,
    /// The groups that somebody named.
    pub groups: &'a [String],
}

/// A group of subjects that is told on one line.
struct Group {
    check: &'static str,
    publish: Vec<String>,
    subscribe: Vec<String>,
    /// What does not work without.
    lost: &'static str,
    /// Whether elections do without.
    dispensable: bool,
}

impl Trial<'_> {
    /// Reads and watches: what everybody needs who looks into the bucket.
    /// Returns whether records can be read.
    pub async fn reading(&self, findings: &mut Findings) -> io::Result<bool> {
        let check = "may read";
        let read = format!("$JS.API.STREAM.MSG.GET.KV_{}", self.bucket);
        let key = json!({ "last_by_subj": format!("$KV.{}.{}", self.bucket, self.roles.names[0]) });
        let answer = self.line.ask(&read, &key).await;
        // That nothing stands there is an answer, too.
        let readable = matches!(answer, Answer::Json(_));
        match answer {
            Answer::Json(_) => findings.ok(check, "from the stream leader")?,
            other => failed(check, &read, &other, "no record can be read", findings)?,
        }
        self.watch(findings).await?;
        let flow = vec![format!(
            "$JS.FC.KV_{}.doctor.{}",
            self.bucket,
            Uuid::from_u128(rand::random())
        )];
        let group = Group {
            check: "may pace watches",
            publish: flow,
            subscribe: Vec::new(),
            lost: "a watch of many keys stalls",
            dispensable: false,
        };
        self.attempt(group, findings).await?;
        Ok(readable)
    }

    /// Makes a watch as the library does, over keys that do not exist; the server forgets it after
    /// a second.
    async fn watch(&self, findings: &mut Findings) -> io::Result<()> {
        let (check, bucket) = ("may watch", self.bucket);
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
                findings.ok(check, "changes are seen as they come")
            }
            other => failed(
                check,
                &subject,
                &other,
                "changes are not seen: failovers take a lease, or do not happen",
                findings,
            ),
        }
    }

    /// Writes what leaders write, so that it is refused. Returns the first role for which that may
    /// be done. Where permissions for a made-up role are missing, those for the roles that stand in
    /// the bucket tell whether any can be led.
    pub async fn writing<'r>(
        &'r self,
        standing: &[&'r str],
        findings: &mut Findings,
    ) -> io::Result<Option<&'r str>> {
        let mut first = None;
        for role in &self.roles.names {
            let lost = format!("role {role:?} can't be claimed or kept");
            let refused = self
                .refused("may lead", &self.of_election(role), &lost, findings)
                .await?;
            match refused {
                Some(denied) if denied.is_empty() => {
                    self.may("may lead", role, findings)?;
                    first = first.or(Some(role.as_str()));
                }
                Some(_) if self.roles.made_up => first = self.any_of(standing, findings).await?,
                Some(denied) => self.tell("may lead", &denied, &lost, false, findings)?,
                None => {}
            }
            let lost = format!("the leader of {role:?} has no `Term::store()`");
            let refused = self
                .refused("may keep data", &self.of_store(role), &lost, findings)
                .await?;
            match refused {
                Some(denied) if denied.is_empty() => self.may("may keep data", role, findings)?,
                Some(denied) => self.tell("may keep data", &denied, &lost, true, findings)?,
                None => {}
            }
        }
        Ok(first)
    }

    /// Writes what members of groups write, so that it is refused: in the present generation of each
    /// and in the next one.
    pub async fn owning(
        &self,
        seen: Option<&ObservedGroups>,
        findings: &mut Findings,
    ) -> io::Result<()> {
        for group in self.groups {
            let known = seen.and_then(|seen| seen.groups.get(group));
            let present = known.map_or(1, |it| it.generation.max(1));
            let generations = [present, present.saturating_add(1)];
            let lost = format!("no unit of group {group:?} is owned here");
            let (check, subjects) = ("may own units", self.of_group(group, generations));
            self.owns(check, group, &subjects, &lost, false, findings)
                .await?;
            let lost = format!("owners of units of {group:?} have no `Term::store()`");
            let (check, subjects) = ("may keep data", self.of_units_store(group, generations));
            self.owns(check, group, &subjects, &lost, true, findings)
                .await?;
        }
        Ok(())
    }

    async fn owns(
        &self,
        check: &'static str,
        group: &str,
        subjects: &[String],
        lost: &str,
        dispensable: bool,
        findings: &mut Findings,
    ) -> io::Result<()> {
        match self.refused(check, subjects, lost, findings).await? {
            Some(denied) if denied.is_empty() => {
                findings.ok(check, format!("the keys of group {group:?}"))
            }
            Some(denied) => self.tell(check, &denied, lost, dispensable, findings),
            None => Ok(()),
        }
    }

    fn of_group(&self, group: &str, generations: [u32; 2]) -> Vec<String> {
        let bucket = self.bucket;
        let units = generations.map(|it| format!("$KV.{bucket}._group.u.{group}.{it}.0"));
        let mut subjects = vec![
            format!("$KV.{bucket}._group.m.{NO_EPOCH}"),
            format!("$KV.{bucket}._group.g.{group}"),
        ];
        subjects.extend(units);
        subjects
    }

    fn of_units_store(&self, group: &str, generations: [u32; 2]) -> Vec<String> {
        let bucket = self.bucket;
        let both = generations.map(|generation| {
            [
                format!("$KV.{bucket}._gdata.{group}.{generation}.0._doctor"),
                format!("$KV.{bucket}._guard.{group}.{generation}.0"),
            ]
        });
        both.into_iter().flatten().collect()
    }

    fn of_election(&self, role: &str) -> [String; 2] {
        let bucket = self.bucket;
        [
            format!("$KV.{bucket}.{role}"),
            format!("$KV.{bucket}._fence.{role}"),
        ]
    }

    fn of_store(&self, role: &str) -> [String; 2] {
        let bucket = self.bucket;
        [
            format!("$KV.{bucket}._data.{role}._doctor"),
            format!("$KV.{bucket}._guard.{role}"),
        ]
    }

    /// Looks for a role of the bucket that this user may lead.
    async fn any_of<'r>(
        &self,
        standing: &[&'r str],
        findings: &mut Findings,
    ) -> io::Result<Option<&'r str>> {
        let check = "may lead";
        let mut latest = None;
        for role in standing.iter().take(MOST_ROLES) {
            let lost = format!("role {role:?} can't be claimed or kept");
            let subjects = self.of_election(role);
            match self.refused(check, &subjects, &lost, findings).await? {
                Some(denied) if denied.is_empty() => {
                    let found = format!(
                        "the keys of role {role:?} in the bucket, but not those of every role; name yours with --role"
                    );
                    findings.ok(check, found)?;
                    return Ok(Some(role));
                }
                Some(denied) => latest = denied.into_iter().next(),
                None => return Ok(None),
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
            )?,
            None => findings.warn(
                check,
                format!(
                    "denied for a made-up role ({}), and the bucket has no role to try",
                    self.roles.names[0]
                ),
                "name one of yours with --role",
            )?,
        }
        Ok(None)
    }

    /// What is denied of these; nothing, and it is told, where the answer is another one than
    /// expected.
    async fn refused(
        &self,
        check: &'static str,
        subjects: &[String],
        lost: &str,
        findings: &mut Findings,
    ) -> io::Result<Option<Vec<Denied>>> {
        let mut denied = Vec::new();
        for subject in subjects {
            match self.line.ask_for_refusal(subject).await {
                Answer::Json(answer) if is_the_refusal(&answer) => {}
                // The keys of two generations need one permission.
                Answer::Denied(denial) => {
                    if denied
                        .iter()
                        .all(|it: &Denied| it.to_string() != denial.to_string())
                    {
                        denied.push(denial);
                    }
                }
                other => {
                    failed(check, subject, &other, lost, findings)?;
                    return Ok(None);
                }
            }
        }
        Ok(Some(denied))
    }

    fn may(&self, check: &'static str, role: &str, findings: &mut Findings) -> io::Result<()> {
        if self.roles.made_up {
            let found = "the keys of a role; name yours with --role, if permissions differ by role";
            return findings.ok(check, found);
        }
        findings.ok(check, format!("the keys of role {role:?}"))
    }

    /// Everything else: letters between candidates, and the admin service.
    pub async fn messages(&self, findings: &mut Findings) -> io::Result<()> {
        let nobody = Uuid::from_u128(rand::random());
        let mut groups = Vec::new();
        if self.part == Part::Candidate {
            groups.push(self.letters(nobody));
        }
        match (self.admin, self.part) {
            (None, _) => findings.skipped(
                "may be operated",
                "the configuration switches the admin service off",
            )?,
            (Some(prefix), Part::Candidate) => groups.push(self.answering(prefix, nobody)),
            (Some(prefix), part) => groups.extend(self.asking(prefix, nobody, part)),
        }
        for group in groups {
            self.attempt(group, findings).await?;
        }
        Ok(())
    }

    fn letters(&self, nobody: Uuid) -> Group {
        let base = format!("nats-elect.{}", self.bucket);
        let mut publish = vec![format!("{base}._answer.{nobody}.{nobody}")];
        for role in &self.roles.names {
            publish.extend([format!("{base}.{role}"), format!("{base}.{role}.{nobody}")]);
        }
        Group {
            check: "may hand over",
            publish,
            subscribe: vec![
                format!("{base}.*"),
                format!("{base}.*.{nobody}"),
                format!("{base}._answer.{nobody}.*"),
            ],
            lost: "no role can be handed to a named successor, or taken over by priority",
            dispensable: true,
        }
    }

    fn answering(&self, prefix: &str, nobody: Uuid) -> Group {
        let base = format!("{prefix}.{}", self.bucket);
        let mut subscribe = vec![format!("{base}.instances")];
        for verb in ["PING", "INFO", "STATS"] {
            let ours = format!("$SRV.{verb}.nats-elect");
            subscribe.extend([format!("$SRV.{verb}"), format!("{ours}.{nobody}"), ours]);
        }
        for verb in ["status", "pause", "resume", "cordon"] {
            subscribe.push(format!("{base}.{verb}.{nobody}"));
        }
        for verb in [
            "status",
            "step-down",
            "end-lease",
            "pause",
            "resume",
            "cordon",
        ] {
            subscribe.push(format!("{base}.{verb}.{nobody}.*"));
        }
        if !self.groups.is_empty() {
            for verb in ["group-plan", "take-unit"] {
                subscribe.push(format!("{base}.{verb}.{nobody}.*"));
            }
        }
        Group {
            check: "may be operated",
            publish: vec![format!("{base}._answer.{nobody}")],
            subscribe,
            lost: "operators can't send these requests to an instance of this user",
            dispensable: true,
        }
    }

    fn asking(&self, prefix: &str, nobody: Uuid, part: Part) -> Vec<Group> {
        let base = format!("{prefix}.{}", self.bucket);
        let of_role = |verb: &str| {
            let of = |role: &String| format!("{base}.{verb}.{nobody}.{role}");
            self.roles.names.iter().map(of).collect::<Vec<_>>()
        };
        let mut look = of_role("status");
        look.extend([
            format!("{base}.status.{nobody}"),
            format!("$SRV.PING.nats-elect.{nobody}"),
        ]);
        let mut groups = vec![Group {
            check: "may ask instances",
            publish: look,
            subscribe: vec![format!("{base}._answer.{nobody}")],
            lost: "instances can't be found, or asked for their status",
            dispensable: false,
        }];
        if part == Part::Operator {
            let mut act = of_role("step-down");
            act.extend(of_role("end-lease"));
            for group in self.groups {
                let of_group = ["group-plan", "take-unit"];
                act.extend(of_group.map(|verb| format!("{base}.{verb}.{nobody}.{group}")));
            }
            for verb in ["pause", "resume", "cordon"] {
                act.push(format!("{base}.{verb}.{nobody}"));
                act.extend(of_role(verb));
            }
            groups.push(Group {
                check: "may operate",
                publish: act,
                subscribe: Vec::new(),
                lost: "instances can't be sent these requests",
                dispensable: false,
            });
        }
        groups
    }

    async fn attempt(&self, group: Group, findings: &mut Findings) -> io::Result<()> {
        let Group {
            check,
            publish,
            subscribe,
            lost,
            dispensable,
        } = group;
        match self.line.forbidden(&publish, &subscribe).await {
            None => findings.skipped(check, "the server did not answer in time"),
            Some(denied) if denied.is_empty() => {
                findings.ok(check, "all permissions for it are granted")
            }
            Some(denied) => self.tell(check, &denied, lost, dispensable, findings),
        }
    }

    fn tell(
        &self,
        check: &'static str,
        denied: &[Denied],
        lost: &str,
        dispensable: bool,
        findings: &mut Findings,
    ) -> io::Result<()> {
        if self.roles.made_up && denied.iter().all(|it| self.is_of_role(it)) {
            return findings.skipped(
                check,
                format!(
                    "denied for a made-up role ({}); name one of yours with --role",
                    self.roles.names[0]
                ),
            );
        }
        for denied in denied {
            let (found, advice) = (format!("{denied}: {lost}"), advice(denied));
            if dispensable {
                findings.warn(check, found, advice)?;
            } else {
                findings.fail(check, found, advice)?;
            }
        }
        Ok(())
    }

    fn is_of_role(&self, denied: &Denied) -> bool {
        denied
            .subject
            .split('.')
            .any(|token| self.roles.names.iter().any(|role| role == token))
    }
}

fn is_the_refusal(answer: &Value) -> bool {
    let code = answer["error"]["err_code"].as_u64();
    code.is_some_and(|code| WRONG_LAST_SEQUENCE.contains(&code))
}

fn failed(
    check: &'static str,
    subject: &str,
    answer: &Answer,
    lost: &str,
    findings: &mut Findings,
) -> io::Result<()> {
    match answer {
        Answer::Denied(denied) => {
            findings.fail(check, format!("{denied}: {lost}"), advice(denied))
        }
        Answer::Nobody => findings.fail(
            check,
            format!("no server answers {subject:?}: {lost}"),
            "the stream may have no leader just now: `nats stream info` shows it, and the servers' logs say why",
        ),
        Answer::Silence => findings.fail(
            check,
            format!("no answer to {subject:?} in time: {lost}"),
            "check the servers' logs, or wait longer with --timeout",
        ),
        Answer::Json(answer) => {
            let what = answer["error"]["description"]
                .as_str()
                .unwrap_or("an unexpected answer");
            findings.fail(
                check,
                format!("the server answers {subject:?}: {what}; {lost}"),
                "check the limits of the bucket and of the account",
            )
        }
    }
}
