//! What is known of a bucket at one time, as the screen shows it.

use std::collections::BTreeMap;
use std::time::Duration;

use nats_elect::admin::{InstanceReport, RoleReport};

use crate::exit::Code;
use crate::fleet::{GroupState, Role, Watched};
use crate::text::clean;

/// Changes that are kept, to be shown.
const MOST_CHANGES: usize = 200;

/// Why nobody answers, in few words.
const UNANSWERED: &str =
    "no answer: they may be cut off, or this user may not ask (docs/security.md)";

/// All that is known.
#[derive(Default)]
pub struct Facts {
    /// By this machine's wall clock.
    pub now_ms: u64,
    pub bucket: String,
    pub server: String,
    /// Why the view is not current, and since when, if it is not.
    pub stale: Option<(Duration, String)>,
    pub roles: BTreeMap<String, Role>,
    /// What the instances say of themselves. Nothing before they were asked, or why nobody answers.
    pub reports: Option<Result<Vec<InstanceReport>, String>>,
    /// How many were found that say nothing.
    pub silent: usize,
    pub groups: BTreeMap<String, GroupState>,
    /// Why these are not current, if they are not.
    pub stale_groups: Option<String>,
    /// Why changes before the start are not known, if they are not.
    pub no_history: Option<&'static str>,
    /// The newest first.
    pub changes: Vec<(u64, String)>,
}

impl Facts {
    /// Looks at the roles.
    pub fn look(&mut self, watched: &Watched, now_ms: u64) {
        self.now_ms = now_ms;
        self.stale = watched.freshness().stale;
        let roles = watched.roles().into_iter();
        let roles = roles.map(|(name, seen)| (name.clone(), Role::of(&name, &seen)));
        self.roles = roles.collect();
    }

    /// Looks at what takes time in proportion to all that there is.
    pub fn look_further(&mut self, watched: &Watched) {
        let asked = watched.asked();
        let reports = asked.reports.iter();
        let answers = reports.filter_map(|it| it.report.as_ref().ok());
        let answers: Vec<_> = answers.cloned().collect();
        self.silent = asked.reports.len() - answers.len();
        self.reports = match asked.problem {
            Some(_) if asked.unanswered => Some(Err(UNANSWERED.into())),
            Some(why) => Some(Err(why)),
            None if asked.at.is_none() => None,
            None if answers.is_empty() => {
                Some(Err("no instance runs, or the admin service is off".into()))
            }
            None => Some(Ok(answers)),
        };
        let groups = watched.groups.groups();
        let each = groups.all.groups.iter();
        let each = each.map(|(name, it)| (name.clone(), GroupState::of(&groups, it)));
        self.groups = each.collect();
        self.stale_groups = watched.groups_freshness().stale.map(|(_, why)| why);
        let past = watched.history(None);
        self.no_history = past.as_ref().err().map(|none| match none.code {
            None => "reading the history",
            Some(Code::NotFound) => "no history is kept",
            Some(Code::Refused) => "this user may not read the history",
            Some(_) => "the history can't be read",
        });
        let past = past.as_deref().ok();
        let latest = watched.latest(past, MOST_CHANGES).into_iter();
        let latest = latest.map(|it| {
            let text = format!("{}: {} {}", it.role, it.who, it.what);
            // Nothing has happened yet that a clock says to come.
            (it.at_ms.min(self.now_ms), text)
        });
        self.changes = latest.collect();
    }

    /// The instances that answer.
    pub fn answering(&self) -> impl Iterator<Item = &InstanceReport> {
        self.reports.iter().flatten().flatten()
    }

    /// The instances that have a role, and what they say of it.
    pub fn candidates(&self, role: &str) -> Vec<(&InstanceReport, &RoleReport)> {
        let all = self.answering();
        all.filter_map(|it| Some((it, it.roles.get(role)?)))
            .collect()
    }

    /// What the leader says of this role.
    pub fn leader_says(&self, role: &str) -> Option<&RoleReport> {
        let leader = self.roles.get(role)?.leader.as_ref()?;
        let is_it = |it: &InstanceReport| match leader.incarnation {
            Some(incarnation) => it.incarnation == incarnation,
            // Records of other libraries tell none.
            None => it.instance_id == leader.instance_id,
        };
        let mut candidates = self.candidates(role).into_iter();
        let says = candidates.find(|(it, says)| is_it(it) && says.is_leader)?;
        Some(says.1)
    }

    /// Those that something is wrong with come first: there may be no room for all.
    pub fn groups(&self) -> Vec<(&str, &GroupState)> {
        let groups = self.groups.iter();
        let mut groups: Vec<_> = groups.map(|(name, it)| (name.as_str(), it)).collect();
        groups.sort_by_key(|(_, it)| it.urgency());
        groups
    }

    /// How many handlers still run of units that their instances own no more.
    pub fn still_running(&self, group: &str) -> usize {
        let parts = self.answering().filter_map(|it| it.groups.get(group));
        parts.map(|it| it.still_running).sum()
    }
}

/// What an instance is called.
pub fn name(id: &str) -> String {
    if id.is_empty() {
        "(no name)".to_owned()
    } else {
        clean(id)
    }
}
