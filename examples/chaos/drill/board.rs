//! Who leads and owns what at this moment, as the instances write it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use super::Problem;
use super::plan::Plan;
use ::drill::journal::{Event, Tail};
use ::drill::{Moment, Term, Terms};

/// Who was not heard for so long does not lead any more, as far as this board is concerned.
const FRESH: Duration = Duration::from_millis(300);

/// Reads along while the journals are written.
#[derive(Debug)]
pub struct Board {
    names: Vec<String>,
    /// Who leads the roles.
    pub roles: Live,
    /// Who owns the group's shards.
    pub shards: Live,
}

impl Board {
    pub fn new(plan: &Plan) -> Self {
        Self {
            names: plan.roles.iter().map(|role| role.name.clone()).collect(),
            roles: Live::new(plan.instances),
            shards: Live::new(plan.instances),
        }
    }

    /// The term of the role that was seen last, be it over or not.
    fn last_term(&self, role: usize) -> Option<&Term> {
        let terms = self.roles.terms.of(u32::try_from(role).ok()?);
        terms.into_iter().max_by_key(|term| term.seen)
    }

    /// Who led the role last, be it now or not.
    pub fn last_leader(&self, role: usize) -> Option<usize> {
        self.last_term(role).map(|term| term.instance)
    }

    /// Who leads the role.
    pub fn leader(&self, role: usize) -> Option<usize> {
        let now = Moment::now();
        let last = self.last_term(role);
        let fresh = last.filter(|term| now.since(term.seen) < FRESH);
        fresh.map(|term| term.instance)
    }

    /// Whether each role was led after `moment`.
    pub fn all_led_after(&self, moment: Moment) -> bool {
        let mut last = (0..self.names.len()).map(|role| self.last_term(role));
        last.all(|term| term.is_some_and(|term| term.seen > moment))
    }

    /// The leaders, and how many shards each instance owns, on one line.
    pub fn describe(&self, instances: &[String]) -> String {
        let roles = self.names.iter().enumerate();
        let told = roles.map(|(index, role)| {
            let leader = self.leader(index).map_or("—", |leader| &instances[leader]);
            format!("{role} {leader}")
        });
        let owned = self.shards.owned();
        let shards = owned.iter().map(ToString::to_string).collect::<Vec<_>>();
        let shards = format!("shards {}", shards.join(" "));
        told.chain([shards]).collect::<Vec<_>>().join("  ")
    }
}

/// The units of one sort: roles, or shards.
#[derive(Debug)]
pub struct Live {
    /// Of each instance, the journal of its newest process and the number of that.
    tails: Vec<(u32, Tail<Event>)>,
    terms: Terms,
}

impl Live {
    fn new(instances: usize) -> Self {
        let none = || (0, Tail::new(PathBuf::new()));
        Self {
            tails: (0..instances).map(|_| none()).collect(),
            terms: Terms::default(),
        }
    }

    /// Reads the journal of an instance's new process, and no longer that of its last one.
    pub fn follow(&mut self, instance: usize, process: u32, path: PathBuf) -> io::Result<()> {
        self.read()?;
        self.tails[instance] = (process, Tail::new(path));
        Ok(())
    }

    /// Takes note of what was written since the last time.
    pub fn read(&mut self) -> io::Result<()> {
        for (instance, (process, tail)) in self.tails.iter_mut().enumerate() {
            for line in tail.read()? {
                self.terms.take(instance, *process, &line);
            }
        }
        Ok(())
    }

    /// How many units each instance owns.
    pub fn owned(&self) -> Vec<usize> {
        self.terms.owned_at(Moment::now(), self.tails.len())
    }
}

/// The file for the journal of an instance's process.
pub fn journal_of(folder: &Path, instance: &str, process: u32) -> PathBuf {
    folder.join(format!("{instance}.{process:03}.jsonl"))
}

/// Reads the journals in that folder.
pub fn read(folder: &Path, instances: &[String]) -> Result<Terms, Problem> {
    let mut terms = Terms::default();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        let name = path.file_stem().and_then(OsStr::to_str);
        let (name, process) = name
            .and_then(|name| name.rsplit_once('.'))
            .ok_or("not a journal")?;
        let instance = instances.iter().position(|instance| instance == name);
        let instance = instance.ok_or("a journal of an unknown instance")?;
        let process = process.parse()?;
        for line in Tail::new(path.clone()).read()? {
            terms.take(instance, process, &line);
        }
    }
    Ok(terms)
}
