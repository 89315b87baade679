//! What is known of roles and instances: from the observer, and from what the instances say of
//! themselves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, SystemTime};

use nats_elect::{ConnectionStatus, FencingToken, RoleState, Standing};
use uuid::Uuid;

/// Changes that are kept, to be shown.
const MOST_CHANGES: usize = 200;
/// How long an instance that has gone silent stays in the picture.
const REMEMBERED: Duration = Duration::from_secs(60);

/// An instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who {
    /// Empty if a record does not tell.
    pub id: String,
    pub incarnation: Option<Uuid>,
}

/// A role as the observer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub standing: Standing,
    pub leader: Option<Who>,
    /// Whether the leader was seen alive.
    pub confirmed: bool,
    pub since: Option<Duration>,
    pub token: Option<FencingToken>,
    pub ttl: Option<Duration>,
    pub remaining: Option<Duration>,
}

/// What an instance says of one of its roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Says {
    pub state: Option<RoleState>,
    pub leads: bool,
    pub paused: bool,
    pub healthy: Option<bool>,
    pub connection: Option<ConnectionStatus>,
    pub heartbeat_took: Option<Duration>,
}

/// What came of asking an instance: what it says of its roles, or why it says nothing.
pub type Answer = (Who, Result<BTreeMap<String, Says>, String>);

/// Something that happened to a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    pub role: String,
    /// Who leads now.
    pub to: Option<Who>,
    /// Whether somebody claimed it.
    pub claimed: bool,
    /// In words.
    pub text: String,
}

/// A moment: time since the start, and what a wall clock says, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    pub since_start: Duration,
    pub wall: SystemTime,
}

/// What happened to a role since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// How often somebody became its leader.
    pub transitions: u64,
    /// When that was last.
    pub last: Option<Duration>,
    leader: Option<Who>,
}

/// An instance that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    pub who: Who,
    /// What it said last.
    pub roles: BTreeMap<String, Says>,
    /// Since when it has given no answer, if it gives none.
    pub silent_since: Option<Duration>,
}

/// What came of asking the instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing yet.
    NotYet,
    /// So many answered.
    Answered(usize),
    /// Nobody could be asked, or nobody answers: why.
    Nobody(String),
}

/// How an instance stands in a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    Leader,
    LeaderPaused,
    LeaderUnhealthy,
    Follower,
    Candidate,
    Draining,
    Demoted,
    Paused,
    Unhealthy,
    Starting,
    Stopped,
    /// It says something that this version does not know.
    Unknown,
    NoAnswer,
    /// It has no such role.
    Absent,
}

/// All that is known.
#[derive(Clone, Debug)]
pub struct Facts {
    pub now: Now,
    pub bucket: String,
    pub server: String,
    /// Why the view is not current, and since when, if it is not.
    pub stale: Option<(Duration, String)>,
    pub roles: BTreeMap<String, Seen>,
    pub past: BTreeMap<String, Past>,
    pub instances: Vec<Instance>,
    pub asked: Asked,
    /// The newest last.
    pub changes: VecDeque<(SystemTime, String)>,
}

impl Facts {
    pub fn new(now: Now, bucket: String, server: String) -> Self {
        Self {
            now,
            bucket,
            server,
            stale: None,
            roles: BTreeMap::new(),
            past: BTreeMap::new(),
            instances: Vec::new(),
            asked: Asked::NotYet,
            changes: VecDeque::new(),
        }
    }

    /// How all roles stand now. `stale`: for how long the view has not been current, and why.
    pub fn sight(
        &mut self,
        now: Now,
        roles: BTreeMap<String, Seen>,
        stale: Option<(Duration, String)>,
    ) {
        self.now = now;
        self.stale = stale;
        for (role, seen) in &roles {
            if seen.leader.is_some() {
                let past = self.past.entry(role.clone()).or_default();
                // Not a later one: the change is yet to be told.
                past.leader = past.leader.take().or_else(|| seen.leader.clone());
            }
        }
        self.roles = roles;
    }

    /// Something happened to a role.
    pub fn happened(&mut self, now: Now, what: Happened) {
        self.now = now;
        let past = self.past.entry(what.role.clone()).or_default();
        if let Some(to) = what.to {
            // What is found after an interruption counts if it is another one than before.
            let another = past
                .leader
                .as_ref()
                .is_some_and(|leader| !same(leader, &to));
            if what.claimed || another {
                past.transitions += 1;
                past.last = Some(now.since_start);
            }
            past.leader = Some(to);
        }
        self.note(now, format!("{}: {}", what.role, what.text));
    }

    /// Something to know that is of no single role.
    pub fn note(&mut self, now: Now, text: String) {
        if self.changes.len() == MOST_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back((now.wall, text));
    }

    /// What came of asking the instances, or why nobody could be asked.
    pub fn answers(&mut self, now: Now, answers: Result<Vec<Answer>, String>) {
        self.now = now;
        let (answers, problem) = match answers {
            Ok(answers) => (answers, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let mut heard = BTreeSet::new();
        let first = self.asked == Asked::NotYet;
        let found: Vec<Who> = answers.iter().map(|(who, _)| who.clone()).collect();
        for (who, answer) in answers {
            let Ok(roles) = answer else { continue };
            heard.insert(who.clone());
            self.heard(now, who, roles, first);
        }
        let mut gone = Vec::new();
        for instance in &mut self.instances {
            if !heard.contains(&instance.who) && instance.silent_since.is_none() {
                instance.silent_since = Some(now.since_start);
                gone.push(instance.who.id.clone());
            }
        }
        for id in gone {
            self.note(now, format!("{id} does not answer"));
        }
        // Those that were found but never said anything.
        for who in found {
            if !self.instances.iter().any(|known| known.who == who) {
                let silent_since = Some(now.since_start);
                let roles = BTreeMap::new();
                self.instances.push(Instance {
                    who,
                    roles,
                    silent_since,
                });
            }
        }
        let started_anew = |old: &Instance| {
            old.silent_since.is_some()
                && (heard.iter()).any(|new| new.id == old.who.id && *new != old.who)
        };
        self.instances.retain(|it| {
            let silent = it.silent_since.map(|at| now.since_start.saturating_sub(at));
            silent.is_none_or(|silent| silent < REMEMBERED) && !started_anew(it)
        });
        self.instances.sort_by(|a, b| a.who.cmp(&b.who));
        self.asked = match problem {
            Some(why) => Asked::Nobody(why),
            None if heard.is_empty() => {
                Asked::Nobody("no instance runs, or the admin service is off".into())
            }
            None => Asked::Answered(heard.len()),
        };
    }

    fn heard(&mut self, now: Now, who: Who, roles: BTreeMap<String, Says>, first: bool) {
        if let Some(known) = self.instances.iter_mut().find(|known| known.who == who) {
            known.roles = roles;
            if known.silent_since.take().is_some() {
                self.note(now, format!("{} answers again", who.id));
            }
            return;
        }
        if !first {
            self.note(now, format!("{} is new", who.id));
        }
        self.instances.push(Instance {
            who,
            roles,
            silent_since: None,
        });
    }

    /// The instances of the picture: those that were found, and leaders who can't be asked.
    pub fn columns(&self) -> Vec<Who> {
        let mut columns: Vec<Who> = self.instances.iter().map(|it| it.who.clone()).collect();
        for leader in self.roles.values().filter_map(|seen| seen.leader.as_ref()) {
            if !columns.iter().any(|known| same(known, leader)) {
                columns.push(leader.clone());
            }
        }
        columns.sort();
        columns
    }

    /// How an instance stands in a role: as it says, or as is seen if it says nothing.
    pub fn cell(&self, role: &str, who: &Who) -> Cell {
        let says = self
            .instance(who)
            .filter(|instance| instance.silent_since.is_none());
        let Some(instance) = says else {
            let leader = self.roles.get(role).and_then(|seen| seen.leader.as_ref());
            return if leader.is_some_and(|leader| same(leader, who)) {
                Cell::Leader
            } else {
                Cell::NoAnswer
            };
        };
        instance.roles.get(role).map_or(Cell::Absent, Says::cell)
    }

    /// What all of an instance's roles can rely on: the worst of it. Nothing if it does not say.
    pub fn connection(&self, who: &Who) -> Option<ConnectionStatus> {
        let instance = self.instance(who)?;
        if instance.silent_since.is_some() {
            return None;
        }
        let all = instance.roles.values().filter_map(|role| role.connection);
        all.max_by_key(|connection| match connection {
            ConnectionStatus::Connected => 0,
            ConnectionStatus::Suspended => 1,
            ConnectionStatus::Lost => 2,
        })
    }

    /// For how long an instance has given no answer.
    pub fn silent_for(&self, who: &Who) -> Option<Duration> {
        let since = self.instance(who)?.silent_since?;
        Some(self.now.since_start.saturating_sub(since))
    }

    /// What the leader says of this role.
    pub fn leader_says(&self, role: &str) -> Option<&Says> {
        let leader = self.roles.get(role)?.leader.as_ref()?;
        let instance = self.instances.iter().find(|it| same(&it.who, leader))?;
        let says = instance.roles.get(role)?;
        (instance.silent_since.is_none() && says.leads).then_some(says)
    }

    fn instance(&self, who: &Who) -> Option<&Instance> {
        self.instances.iter().find(|instance| instance.who == *who)
    }
}

impl Says {
    fn cell(&self) -> Cell {
        let unhealthy = self.healthy == Some(false);
        let Some(state) = self.state else {
            return Cell::Unknown;
        };
        match state {
            RoleState::Leader if unhealthy => Cell::LeaderUnhealthy,
            RoleState::Leader if self.paused => Cell::LeaderPaused,
            RoleState::Leader => Cell::Leader,
            RoleState::Draining => Cell::Draining,
            RoleState::Stopped => Cell::Stopped,
            _ if unhealthy => Cell::Unhealthy,
            _ if self.paused => Cell::Paused,
            RoleState::Follower => Cell::Follower,
            RoleState::Candidate => Cell::Candidate,
            RoleState::Demoted => Cell::Demoted,
            RoleState::Init => Cell::Starting,
            _ => Cell::Unknown,
        }
    }
}

/// Whether both are one instance. Records of other libraries tell no incarnation.
pub fn same(a: &Who, b: &Who) -> bool {
    match (a.incarnation, b.incarnation) {
        (Some(a), Some(b)) => a == b,
        _ => a.id == b.id,
    }
}
