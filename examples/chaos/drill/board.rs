//! Who leads what at this moment, as the instances write it.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::history::What;
use super::plan::Plan;
use super::shards::Live;
use ::drill::Moment;
use ::drill::journal::Tail;

/// Who was not heard for so long does not lead any more, as far as this board is concerned.
const FRESH: Duration = Duration::from_millis(300);

/// Reads along while the histories are written.
#[derive(Debug)]
pub struct Board {
    roles: Vec<String>,
    tails: Vec<History>,
    /// By role: who last showed that it leads, and when that was.
    claims: Vec<Option<(usize, Moment)>>,
    /// Who owns the group's shards.
    pub shards: Live,
}

#[derive(Debug)]
struct History {
    instance: usize,
    tail: Tail<What>,
    /// The roles of its terms.
    terms: HashMap<u32, usize>,
}

impl Board {
    pub fn new(plan: &Plan) -> Self {
        Self {
            roles: plan.roles.iter().map(|role| role.name.clone()).collect(),
            tails: Vec::new(),
            claims: vec![None; plan.roles.len()],
            shards: Live::new(plan.instances),
        }
    }

    /// Reads the history of an instance's new process, and no longer that of its last one.
    pub fn follow(&mut self, instance: usize, path: PathBuf) -> io::Result<()> {
        self.read()?;
        self.tails.retain(|history| history.instance != instance);
        self.tails.push(History {
            instance,
            tail: Tail::new(path),
            terms: HashMap::new(),
        });
        Ok(())
    }

    /// Takes note of what was written since the last time.
    pub fn read(&mut self) -> io::Result<()> {
        for History {
            instance,
            tail,
            terms,
        } in &mut self.tails
        {
            for record in tail.read()? {
                match record.what {
                    What::Leading { term, role, .. } => {
                        if let Some(role) = self.roles.iter().position(|name| *name == role) {
                            terms.insert(term, role);
                        }
                    }
                    What::Valid(term) => {
                        let Some(role) = terms.get(&term) else {
                            continue;
                        };
                        let claim = &mut self.claims[*role];
                        if claim.is_none_or(|(_, at)| at < record.at) {
                            *claim = Some((*instance, record.at));
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Who led the role last, be it now or not.
    pub fn last_leader(&self, role: usize) -> Option<usize> {
        self.claims[role].map(|(instance, _)| instance)
    }

    /// Who leads the role.
    pub fn leader(&self, role: usize) -> Option<usize> {
        let now = Moment::now();
        let fresh = self.claims[role].filter(|(_, at)| now.since(*at) < FRESH);
        fresh.map(|(instance, _)| instance)
    }

    /// Whether each role was led after `moment`.
    pub fn all_led_after(&self, moment: Moment) -> bool {
        let mut claims = self.claims.iter();
        claims.all(|claim| claim.is_some_and(|(_, at)| at > moment))
    }

    /// The leaders, and how many shards each instance owns, on one line.
    pub fn describe(&self, instances: &[String]) -> String {
        let roles = self.roles.iter().enumerate();
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
