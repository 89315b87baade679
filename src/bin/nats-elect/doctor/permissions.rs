//! What the user may do, by trying it where nothing comes of it.
//!
//! Requests to instances go to an incarnation that does not exist; letters are empty, which is no question; keys are written on
//! conditions that can't be fulfilled. Subscriptions last for a moment: meanwhile a candidate that looks for another one
//! is not told at once that nobody is there, but waits for as long as it would if somebody were.

use std::io;

use serde_json::{Value, json};
use uuid::Uuid;

use super::findings::Findings;
use super::line::{Answer, Denied, Line};
use super::{Part, Roles};

/// The code of the refusal that is asked for, as servers say it in either of two ways.
const WRONG_LAST_SEQUENCE: [u64; 2] = [10071, 10164];

pub struct Trial<'a> {
    pub line: &'a Line,
    pub bucket: &'a str,
    /// What subjects of the admin service begin with; none where it is switched off.
    pub admin: Option<&'a str>,
    pub part: Part,
    pub roles: &'a Roles,
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

    /// Makes a watch as the library does, over keys that do not exist; the server forgets it after a second.
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

    /// Writes what leaders write, so that it is refused. Returns whether that may be done for the first role.
    pub async fn writing(&self, findings: &mut Findings) -> io::Result<bool> {
        let mut first = None;
        for role in &self.roles.names {
            let key = |rest: String| format!("$KV.{}.{rest}", self.bucket);
            let of_election = [key(role.clone()), key(format!("_fence.{role}"))];
            let of_store = [
                key(format!("_data.{role}._doctor")),
                key(format!("_guard.{role}")),
            ];
            let lost = format!("role {role:?} can't be claimed or kept");
            let may = self
                .refused("may lead", role, &of_election, &lost, false, findings)
                .await?;
            first = first.or(Some(may));
            let lost = format!("the leader of {role:?} has no `Term::store()`");
            self.refused("may keep data", role, &of_store, &lost, true, findings)
                .await?;
        }
        Ok(first == Some(true))
    }

    async fn refused(
        &self,
        check: &'static str,
        role: &str,
        subjects: &[String],
        lost: &str,
        dispensable: bool,
        findings: &mut Findings,
    ) -> io::Result<bool> {
        let mut denied = Vec::new();
        for subject in subjects {
            match self.line.ask_for_refusal(subject).await {
                Answer::Json(answer) if is_the_refusal(&answer) => {}
                Answer::Denied(denial) => denied.push(denial),
                other => {
                    failed(check, subject, &other, lost, findings)?;
                    return Ok(false);
                }
            }
        }
        if denied.is_empty() {
            let found = if self.roles.made_up {
                "the keys of a role; name yours with --role, if permissions differ by role".into()
            } else {
                format!("the keys of role {role:?}")
            };
            findings.ok(check, found)?;
            return Ok(true);
        }
        self.tell(check, &denied, lost, dispensable, findings)?;
        Ok(false)
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
                "the admin service is switched off in the configuration",
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
        let mut publish = vec![format!("{base}._answer.{nobody}")];
        for role in &self.roles.names {
            publish.extend([format!("{base}.{role}"), format!("{base}.{role}.{nobody}")]);
        }
        Group {
            check: "may hand over",
            publish,
            subscribe: vec![
                format!("{base}.*"),
                format!("{base}.*.{nobody}"),
                format!("{base}._answer.{nobody}"),
            ],
            lost: "roles are not handed to a named successor, and not taken over by priority",
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
        for verb in ["status", "step-down", "pause", "resume", "cordon"] {
            subscribe.push(format!("{base}.{verb}.{nobody}.*"));
        }
        Group {
            check: "may be operated",
            publish: vec![format!("{base}._answer.{nobody}")],
            subscribe,
            lost: "an instance of this user can't be asked, or have things done, by these",
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
            lost: "instances can't be found, or not be asked how they are",
            dispensable: false,
        }];
        if part == Part::Operator {
            let mut act = of_role("step-down");
            for verb in ["pause", "resume", "cordon"] {
                act.push(format!("{base}.{verb}.{nobody}"));
                act.extend(of_role(verb));
            }
            groups.push(Group {
                check: "may operate",
                publish: act,
                subscribe: Vec::new(),
                lost: "instances can't be made to do these",
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
                findings.ok(check, "nothing of what it takes is denied")
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
                    "denied for a role that is made up ({}); name one of yours with --role",
                    self.roles.names[0]
                ),
            );
        }
        for denied in denied {
            let (found, advice) = (format!("{denied}: {lost}"), denied.advice());
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
            findings.fail(check, format!("{denied}: {lost}"), denied.advice())
        }
        Answer::Nobody => findings.fail(
            check,
            format!("nobody answers {subject:?}: {lost}"),
            "the stream may have no leader just now: `nats stream info` tells, and the servers' logs say why",
        ),
        Answer::Silence => findings.fail(
            check,
            format!("no answer to {subject:?} in time: {lost}"),
            "look at the servers' logs, or wait longer with --timeout",
        ),
        Answer::Json(answer) => {
            let what = answer["error"]["description"]
                .as_str()
                .unwrap_or("nothing of use");
            findings.fail(
                check,
                format!("the server answers {subject:?}: {what}; {lost}"),
                "look at the bucket's and the account's limits",
            )
        }
    }
}
