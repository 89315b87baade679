//! What must be true of the histories.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::path::Path;

use nats_elect::FencingToken;
use serde::{Deserialize, Serialize};

use super::Problem;
use super::fault::{Fault, Kind};
use super::gaps::{Gap, gaps};
use super::history::{Tenure, tenures};
use super::ledger::{Entry, Replay, Ruling, parse, path_of};
use super::onlooker::{SIGHTS, Sight};
use super::plan::{Folders, Role};
use super::shards::verdict::ShardsVerdict;
use super::shards::{self, Shards};
use super::view::ViewVerdict;
use ::drill::Moment;
use ::drill::journal::{Record, Tail};
use ::drill::ownership::{self, Finals, Ownership};

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
    /// The shards' counters, as they stood in the bucket at the end.
    pub finals: Finals,
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
    pub tenures: Vec<Tenure>,
    /// By role.
    pub ledgers: BTreeMap<String, Vec<Entry>>,
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
    /// Work that counts.
    pub work: u64,
    /// Work of processes that were paused between the look at their lease and the work, which the
    /// fencing token kept out: no violation, but what fencing is for.
    pub refused: u64,
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
        let mut read = Vec::new();
        for file in fs::read_dir(folders.histories)? {
            read.extend(tenures(&Tail::new(file?.path()).read()?));
        }
        let mut ledgers = BTreeMap::new();
        for role in &notes.roles {
            let path = path_of(&folders.ledgers, &role.name);
            // A role that was never led has none.
            let bytes = if path.exists() {
                fs::read(path)?
            } else {
                Vec::new()
            };
            ledgers.insert(role.name.clone(), parse(&bytes).collect());
        }
        let shards = match &notes.shards {
            Some(shards) => Some(Ownership {
                units: ownership::shards(shards.count),
                names: notes.instances.clone(),
                terms: shards::read(&folders.journals, &notes.instances)?,
                finals: notes.finals.clone(),
                kills: notes.kills(),
                last_wills: notes.last_wills,
            }),
            None => None,
        };
        Ok(Self {
            notes,
            tenures: read,
            ledgers,
            shards,
            onlooker: Tail::new(out.join(SIGHTS)).read()?,
        })
    }

    /// The terms of a role that were seen to be valid, in the order of their first valid act.
    pub fn terms_of(&self, role: &Role) -> Vec<(&Tenure, (Moment, Moment))> {
        let of_role = self.tenures.iter().filter(|term| term.role == role.name);
        let mut terms: Vec<_> = of_role
            .filter_map(|term| Some((term, term.valid?)))
            .collect();
        terms.sort_by_key(|(_, valid)| *valid);
        terms
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
            ..Self::default()
        };
        for role in &evidence.notes.roles {
            verdict.judge_terms(evidence, role);
            verdict.judge_work(evidence, role);
            verdict.judge_gaps(evidence, role);
        }
        if let (Some(shards), Some(ownership)) = (&evidence.notes.shards, &evidence.shards) {
            verdict.judge_shards(&evidence.notes, shards, ownership);
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

    /// Enters what is wrong with the group beside what is wrong with roles.
    fn judge_shards(&mut self, notes: &Notes, shards: &Shards, ownership: &Ownership) {
        let found = ShardsVerdict::on(notes, shards, ownership);
        self.overlaps.extend_from_slice(&found.overlaps);
        self.disorders.extend_from_slice(&found.disorders);
        self.lost.extend_from_slice(&found.counts.lost);
        self.doubled.extend_from_slice(&found.counts.doubled);
        self.stuck.extend_from_slice(&found.stuck);
        self.shards = Some(found);
    }

    /// Two terms seen to be valid at one time, and tokens that do not grow.
    fn judge_terms(&mut self, evidence: &Evidence, role: &Role) {
        // The one that lasts longest so far is the one that a later one overlaps.
        let mut longest: Option<(&Tenure, Moment)> = None;
        let mut greatest: Option<FencingToken> = None;
        for (term, (first, last)) in evidence.terms_of(role) {
            self.terms += 1;
            if let Some((other, until)) = longest.filter(|(_, until)| *until >= first) {
                self.overlaps.push(format!(
                    "{role}: {} was valid from {} on, and {} still at {}",
                    told(term),
                    evidence.time(first),
                    told(other),
                    evidence.time(until.min(last)),
                    role = role.name
                ));
            }
            if longest.is_none_or(|(_, until)| last > until) {
                longest = Some((term, last));
            }
            if let Some(before) = greatest.filter(|before| term.token <= *before) {
                self.disorders.push(format!(
                    "{}: {} began at {} after token {before}",
                    role.name,
                    told(term),
                    evidence.time(first)
                ));
            }
            greatest = greatest.max(Some(term.token));
        }
    }

    /// Work that is missing, that a valid leader did and that did not count, or that was done
    /// twice.
    fn judge_work(&mut self, evidence: &Evidence, role: &Role) {
        let nothing = Vec::new();
        let entries = evidence.ledgers.get(&role.name).unwrap_or(&nothing);
        let name = &role.name;
        let mut replay = Replay::default();
        // Numbers that a skip has told of already.
        let mut skipped = BTreeSet::new();
        for entry in entries {
            let Entry { instance, at, .. } = entry;
            let at_time = evidence.time(*at);
            let number = entry.number.unwrap_or_default();
            match replay.rule(entry) {
                Ruling::Begun => {}
                // Of a term that has done nothing yet: what is wrong with it is seen elsewhere.
                Ruling::Refused { .. } if entry.number.is_none() => {}
                Ruling::Counts => self.work += 1,
                Ruling::Refused { by } if *at < by => self.refused += 1,
                Ruling::Refused { by } => self.lost.push(format!(
                    "{name}: {instance} was valid at {at_time}, and its work {number} did not count: a greater token came \
                     at {}",
                    evidence.time(by)
                )),
                Ruling::Skips(count) => {
                    self.work += 1;
                    skipped.extend(number - count..number);
                    self.lost.push(format!(
                        "{name}: {count} missing before {number} of {instance} at {at_time}"
                    ));
                }
                Ruling::Repeats => self.doubled.push(format!(
                    "{name}: {number} done again by {instance} at {at_time}"
                )),
                Ruling::Unannounced => self.doubled.push(format!(
                    "{name}: {instance} did {number} at {at_time} without looking where to go on"
                )),
            }
        }
        let entered: BTreeSet<_> = entries
            .iter()
            .filter_map(|entry| Some((entry.token, entry.number?)))
            .collect();
        for term in evidence.tenures.iter().filter(|term| term.role == *name) {
            for number in &term.worked {
                if !entered.contains(&(term.token, *number)) && !skipped.contains(number) {
                    self.lost
                        .push(format!("{name}: {number} of {}", told(term)));
                }
            }
        }
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

fn told(term: &Tenure) -> String {
    let Tenure {
        instance, process, ..
    } = term;
    format!("{instance} (process {process}, token {})", term.token)
}
