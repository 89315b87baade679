//! What must be true of the histories.

use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Problem;
use super::board;
use super::fault::{Fault, Kind};
use super::gaps::{Gap, gaps};
use super::onlooker::{SIGHTS, Sight};
use super::plan::{Folders, Role};
use super::shards::Shards;
use super::shards::verdict::ShardsVerdict;
use super::view::ViewVerdict;
use ::drill::journal::{Record, Tail};
use ::drill::ownership::{self, Counts, Finals, Ownership};
use ::drill::{Moment, Term};

/// What only the drill itself can tell; everything else is in the histories.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Notes {
    pub seed: u64,
    pub instances: Vec<String>,
    pub roles: Vec<Role>,
    /// The group beside them.
    pub shards: Option<Shards>,
    /// Whether instances that are killed free what they have at once.
    pub last_wills: bool,
    /// The counters of roles and of shards, as they stood in the bucket at the end.
    pub role_finals: Finals,
    pub shard_finals: Finals,
    /// When every role had a leader, before the first fault.
    pub begun: Moment,
    /// When all faults were over and undone.
    pub healed: Moment,
    /// When the instances were asked to stop.
    pub ended: Moment,
    pub faults: Vec<Fault>,
    /// The times in which NATS confirmed no write, whoever sent it.
    pub outages: Vec<(Moment, Moment)>,
    /// Processes that ended on their own, or not as they should.
    pub bad_ends: Vec<String>,
}

/// All that the verdict rests on.
#[derive(Clone, Debug)]
pub struct Evidence {
    pub notes: Notes,
    pub roles: Ownership,
    /// Nothing if there was no group.
    pub shards: Option<Ownership>,
    /// What was seen of `serve`; nothing if it was not there.
    pub onlooker: Vec<Record<Sight>>,
}

/// What was found: a text for each violation.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    pub overlaps: Vec<String>,
    pub disorders: Vec<String>,
    pub lost: Vec<String>,
    pub doubled: Vec<String>,
    pub stuck: Vec<String>,
    pub bad_ends: Vec<String>,
    /// What the leaders of roles counted.
    pub counts: Counts,
    pub terms: usize,
    pub gaps: Vec<Gap>,
    /// What is to be said of the group, if there was one. Its violations are among the others.
    pub shards: Option<ShardsVerdict>,
    /// What `serve` showed, if it was there.
    pub view: Option<ViewVerdict>,
}

const NOTES: &str = "drill.json";

impl Notes {
    pub fn write(&self, out: &Path) -> Result<(), Problem> {
        Ok(serde_json::to_writer(File::create(out.join(NOTES))?, self)?)
    }

    /// The instances that were killed, and when.
    fn kills(&self) -> Vec<(usize, Moment)> {
        let kills = self.faults.iter().filter(|fault| fault.kind == Kind::Kill);
        let kills = kills.filter_map(|fault| {
            let mut instances = self.instances.iter();
            let instance = instances.position(|name| *name == fault.target)?;
            Some((instance, fault.from))
        });
        kills.collect()
    }
}

impl Evidence {
    /// Reads what a drill has left in that folder.
    pub fn read(out: &Path) -> Result<Self, Problem> {
        let notes: Notes = serde_json::from_slice(&fs::read(out.join(NOTES))?)?;
        let folders = Folders::below(out);
        let ownership = |units, folder: &Path, finals: &Finals| -> Result<_, Problem> {
            Ok(Ownership {
                units,
                names: notes.instances.clone(),
                terms: board::read(folder, &notes.instances)?,
                finals: finals.clone(),
                kills: notes.kills(),
                last_wills: notes.last_wills,
            })
        };
        let roles = notes.roles.iter().map(|role| role.name.clone()).collect();
        let shards = notes.shards.as_ref().map(|shards| {
            let units = ownership::shards(shards.count);
            ownership(units, &folders.shards, &notes.shard_finals)
        });
        Ok(Self {
            roles: ownership(roles, &folders.roles, &notes.role_finals)?,
            shards: shards.transpose()?,
            onlooker: Tail::new(out.join(SIGHTS)).read()?,
            notes,
        })
    }

    /// The terms of a role, in the order in which they began.
    pub fn terms_of(&self, role: &Role) -> Vec<&Term> {
        let mut roles = self.roles.by_unit();
        let of_role = roles.find(|(_, name, _)| *name == role.name);
        of_role.map(|(_, _, terms)| terms).unwrap_or_default()
    }

    /// A point in time, for people.
    pub fn time(&self, moment: Moment) -> String {
        format!("{:.3} s", moment.since(self.notes.begun).as_secs_f64())
    }
}

impl Verdict {
    /// Judges.
    pub fn on(evidence: &Evidence) -> Self {
        let mut verdict = Self {
            bad_ends: evidence.notes.bad_ends.clone(),
            terms: evidence.roles.terms.all().count(),
            ..Self::default()
        };
        verdict.counts = verdict.judge(&evidence.roles);
        for role in &evidence.notes.roles {
            verdict.judge_gaps(evidence, role);
        }
        if let (Some(shards), Some(ownership)) = (&evidence.notes.shards, &evidence.shards) {
            let counts = verdict.judge(ownership);
            let found = ShardsVerdict::on(&evidence.notes, shards, ownership, counts);
            verdict.stuck.extend_from_slice(&found.stuck);
            verdict.shards = Some(found);
        }
        if !evidence.onlooker.is_empty() {
            verdict.view = Some(ViewVerdict::on(evidence));
        }
        verdict
    }

    /// Every kind of violation, with what was found.
    pub fn findings(&self) -> Vec<(&'static str, &[String])> {
        let mut findings: Vec<(_, &[String])> = vec![
            ("overlaps", &self.overlaps),
            ("token disorders", &self.disorders),
            ("lost work", &self.lost),
            ("double work", &self.doubled),
            ("stuck", &self.stuck),
            ("bad ends", &self.bad_ends),
        ];
        if let Some(shards) = &self.shards {
            findings.push(("uneven", &shards.uneven));
        }
        if let Some(view) = &self.view {
            findings.push(("wrong views", &view.wrong));
        }
        findings
    }

    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.findings().iter().all(|(_, found)| found.is_empty())
    }

    /// What must be true of all that has owners.
    fn judge(&mut self, ownership: &Ownership) -> Counts {
        self.overlaps.extend(ownership.overlaps());
        self.disorders.extend(ownership.disorders());
        let counts = ownership.counts();
        self.lost.extend_from_slice(&counts.lost);
        self.doubled.extend_from_slice(&counts.doubled);
        counts
    }

    /// Roles that were without a leader for longer than anything excuses.
    fn judge_gaps(&mut self, evidence: &Evidence, role: &Role) {
        for gap in gaps(evidence, role) {
            // One that was still open, after all faults, was awaited for as long as it may last.
            let patience = role.patience();
            if gap.quiet > patience || (!gap.closed && gap.from < evidence.notes.healed) {
                self.stuck.push(format!(
                    "{}: no leader from {} to {}, {:.1} s of it after NATS took writes and nobody touched the key; allowed {:.1} s",
                    role.name,
                    evidence.time(gap.from),
                    evidence.time(gap.to),
                    gap.quiet.as_secs_f64(),
                    patience.as_secs_f64()
                ));
            }
            self.gaps.push(gap);
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::new();
        for (what, found) in self.findings() {
            let separator = if line.is_empty() { "" } else { ", " };
            write!(line, "{separator}{what}: {}", found.len())?;
        }
        f.write_str(&line)
    }
}
