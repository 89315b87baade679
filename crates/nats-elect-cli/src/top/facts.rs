//! What is known of roles and instances: from the observer, and from what the instances say of
//! themselves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, SystemTime};

use nats_elect::{ConnectionStatus, FencingToken, RoleState, Standing};
use uuid::Uuid;

use super::groups::{Group, Owns};
use super::past::{LedFor, Past};
use crate::past_event::Gap;

/// Changes that are kept, to be shown.
const MOST_CHANGES: usize = 200;
/// How long an instance that has gone silent stays in the picture.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Older changes are not counted.
pub const COUNTED: Duration = Duration::from_secs(24 * 60 * 60);

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
    pub priority: i64,
    pub paused: bool,
    pub failing: bool,
    pub healthy: Option<bool>,
    pub connection: Option<ConnectionStatus>,
    pub heartbeat_took: Option<Duration>,
}

/// What an instance says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub version: String,
    pub uptime: Duration,
    pub roles: BTreeMap<String, Says>,
    pub groups: BTreeMap<String, Owns>,
}

/// What came of asking an instance: what it says, or why it says nothing.
pub type Answer = (Who, Result<Report, String>);

/// Something that happened to a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    pub role: String,
    /// Who led before.
    pub from: Option<Who>,
    /// Who leads now.
    pub to: Option<Who>,
    /// Whether somebody claimed it.
    pub claimed: bool,
    /// Whether its leader freed it.
    pub freed: bool,
    /// For how long there was no sign of the leader before.
    pub silence: Option<Duration>,
    /// In words.
    pub text: String,
}

/// Something that the history has of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub role: String,
    /// By the clock of the instance that reports it.
    pub at: SystemTime,
    /// Of the term that began or ended.
    pub token: FencingToken,
    /// Who began to lead, if it is not the end of a term.
    pub began: Option<Who>,
    /// In words.
    pub text: String,
}

/// What the history is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum History {
    /// It is being read.
    Awaited,
    /// It was read, from this time on.
    Since(SystemTime),
    /// There is none to read: why.
    None(&'static str),
}

/// A moment: time since the start, and what a wall clock says, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    pub since_start: Duration,
    pub wall: SystemTime,
}

/// An instance that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    pub who: Who,
    /// What it said last.
    pub report: Report,
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
    Failing,
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
    /// When all this began, by this machine's wall clock.
    pub started: SystemTime,
    pub bucket: String,
    pub server: String,
    /// Why the view is not current, and since when, if it is not.
    pub stale: Option<(Duration, String)>,
    pub roles: BTreeMap<String, Seen>,
    past: BTreeMap<String, Past>,
    pub history: History,
    pub instances: Vec<Instance>,
    pub asked: Asked,
    /// The groups of the bucket.
    pub seen_groups: BTreeMap<String, Group>,
    /// Why these are not current, if they are not.
    pub stale_groups: Option<String>,
    /// The newest last.
    pub changes: VecDeque<(SystemTime, String)>,
}

impl Facts {
    pub fn new(now: Now, bucket: String, server: String) -> Self {
        Self {
            now,
            started: now.wall,
            bucket,
            server,
            stale: None,
            roles: BTreeMap::new(),
            past: BTreeMap::new(),
            history: History::Awaited,
            instances: Vec::new(),
            asked: Asked::NotYet,
            seen_groups: BTreeMap::new(),
            stale_groups: None,
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
            if let Some(leader) = &seen.leader {
                let past = self.past.entry(role.clone()).or_default();
                past.leads(leader, seen.token);
            }
        }
        self.roles = roles;
    }

    /// Something happened to a role.
    pub fn happened(&mut self, now: Now, what: &Happened) {
        self.now = now;
        let past = self.past.entry(what.role.clone()).or_default();
        if let Some(from) = &what.from {
            past.ends(from);
        }
        if let Some(to) = &what.to {
            past.begins(to, what.claimed, now.wall);
        }
        let gap = if past.freed { Gap::Of } else { Gap::AtMost };
        let gap = what
            .silence
            .map(|silence| format!(", gap {}", gap(silence)));
        past.freed = what.freed;
        let gap = gap.unwrap_or_default();
        self.note(now, format!("{}: {}{gap}", what.role, what.text));
    }

    /// What the history has, the oldest first, or why there is none. `is_all`: it has no more than
    /// that.
    pub fn past(&mut self, now: Now, told: Result<Vec<Told>, &'static str>, is_all: bool) {
        self.now = now;
        let told = match told {
            Ok(told) => told,
            Err(why) => {
                self.history = History::None(why);
                return;
            }
        };
        // Nothing has happened yet that a clock says to come.
        let at = |one: &Told| one.at.min(now.wall);
        let first = told.iter().map(at).min().filter(|_| !is_all);
        self.history = History::Since(first.unwrap_or(SystemTime::UNIX_EPOCH));
        let mut before = Vec::new();
        for one in told.into_iter().rev() {
            let at = at(&one);
            let past = self.past.entry(one.role).or_default();
            let is_news = match one.began {
                Some(who) => past.began(who, one.token, at),
                None => past.ended(one.token),
            };
            if is_news {
                before.push((at, one.text));
            }
        }
        for past in self.past.values_mut() {
            past.sort();
        }
        before.reverse();
        before.extend(self.changes.drain(..));
        before.sort_by_key(|(at, _)| *at);
        before.drain(..before.len().saturating_sub(MOST_CHANGES));
        self.changes = before.into();
    }

    /// When terms began, as NATS stored it.
    pub fn fenced(&mut self, fences: Vec<(String, FencingToken, SystemTime)>) {
        for (role, token, at) in fences {
            if let Some(past) = self.past.get_mut(&role) {
                past.fenced(token, at);
            }
        }
    }

    /// The present terms of which it is not known when they began, each of them once.
    pub fn unfenced(&mut self) -> Vec<(String, FencingToken)> {
        let terms = self.roles.iter().filter_map(|(role, seen)| {
            let past = self.past.get_mut(role)?;
            let token = seen.token.filter(|token| past.wants_fence(*token))?;
            Some((role.clone(), token))
        });
        terms.collect()
    }

    /// From when on changes are counted.
    pub fn counted_from(&self) -> SystemTime {
        match self.history {
            History::Since(since) => {
                let earliest = self.now.wall.checked_sub(COUNTED);
                since.max(earliest.unwrap_or(SystemTime::UNIX_EPOCH))
            }
            History::Awaited | History::None(_) => self.started,
        }
    }

    /// For how long a role's leader has led, if there is one.
    pub fn led_for(&self, role: &str) -> Option<LedFor> {
        let seen = self.roles.get(role)?;
        let (leader, since) = (seen.leader.as_ref()?, seen.since?);
        let past = self.past.get(role)?;
        Some(past.led_for(leader, seen.token, since, self.now.wall))
    }

    /// How often a role got a new leader.
    pub fn count(&self, role: &str) -> usize {
        let past = self.past.get(role);
        past.map_or(0, |past| past.changes(self.counted_from()))
    }

    /// When a role got a new leader last.
    pub fn last_change(&self, role: &str) -> Option<SystemTime> {
        self.past.get(role)?.last()
    }

    /// The instances that have a role, or lead it.
    pub fn candidates(&self, role: &str) -> Vec<&Instance> {
        let all = self.instances.iter();
        all.filter(|it| it.report.roles.contains_key(role))
            .collect()
    }

    /// The groups of the bucket, and those in which instances take part that answer. Those that
    /// something is wrong with come first: there may be no room for all.
    pub fn groups(&self) -> Vec<&str> {
        let answering = self.instances.iter().filter(|it| it.silent_since.is_none());
        let told = answering.flat_map(|it| it.report.groups.keys());
        let groups: BTreeSet<_> = told.chain(self.seen_groups.keys()).collect();
        let mut groups: Vec<_> = groups.into_iter().map(String::as_str).collect();
        groups.sort_by_key(|name| !self.seen_groups.get(*name).is_some_and(Group::is_bad));
        groups
    }

    /// What is not as it should be with a group, in words, and whether somebody has to look after it.
    pub fn trouble(&self, group: &str) -> Option<(String, bool)> {
        let seen = self.seen_groups.get(group);
        let answering = self.instances.iter().filter(|it| it.silent_since.is_none());
        let owns = answering.filter_map(|it| it.report.groups.get(group));
        let still = match owns.map(|it| it.still_running).sum() {
            0 => None,
            1 => Some("1 handler still runs of a unit that was given away".to_owned()),
            n => Some(format!(
                "{n} handlers still run of units that were given away"
            )),
        };
        let all: Vec<_> = seen
            .and_then(Group::trouble)
            .into_iter()
            .chain(still)
            .collect();
        let is_bad = seen.is_some_and(Group::is_bad);
        (!all.is_empty()).then(|| (all.join("; "), is_bad))
    }

    /// The part of a group that an instance owns. `None` if it takes no part in it, or does not answer.
    pub fn owns(&self, group: &str, who: &Who) -> Option<Owns> {
        let instance = self.instance(who)?;
        let owns = instance.report.groups.get(group).copied();
        owns.filter(|_| instance.silent_since.is_none())
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
            let Ok(report) = answer else { continue };
            heard.insert(who.clone());
            self.heard(now, who, report, first);
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
                self.instances.push(Instance {
                    who,
                    report: Report::default(),
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

    fn heard(&mut self, now: Now, who: Who, report: Report, first: bool) {
        if let Some(known) = self.instances.iter_mut().find(|known| known.who == who) {
            known.report = report;
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
            report,
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
        let says = instance.report.roles.get(role);
        says.map_or(Cell::Absent, Says::cell)
    }

    /// What all of an instance's roles can rely on: the worst of it. Nothing if it does not say.
    pub fn connection(&self, who: &Who) -> Option<ConnectionStatus> {
        let instance = self.instance(who)?;
        if instance.silent_since.is_some() {
            return None;
        }
        let all = instance
            .report
            .roles
            .values()
            .filter_map(|role| role.connection);
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
        let says = instance.report.roles.get(role)?;
        (instance.silent_since.is_none() && says.leads).then_some(says)
    }

    pub fn instance(&self, who: &Who) -> Option<&Instance> {
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
            _ if self.failing => Cell::Failing,
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
