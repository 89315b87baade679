//! What is known of one bucket.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use nats_elect::admin::AdminError;
use nats_elect::lock::lock;
use nats_elect::{LeaderEvent, Observed, Observer, RoleChange, WatchStatus};
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;

use super::group_view::GroupView;
use super::kept::Kept;
use super::{Change, Event, In, Seconds, now};
use crate::exit::{Code, Failure};
use crate::instances::Candidate;
use crate::output;
use crate::past_event::{gap, what};
use crate::seen::{name, why_changed};
use crate::text::{clean, clock, ms_of, stamp_of, wall_clock};

/// Changes that are kept.
const MOST_CHANGES: usize = 200;

/// A bucket, as far as it is known.
pub struct Watched {
    pub bucket: String,
    /// When this began, and nothing was known.
    began: Instant,
    /// Told what changes: the kind of an event, and its data as JSON.
    tell: Box<dyn Fn(&'static str, String) + Send + Sync>,
    pub groups: GroupView,
    known: Mutex<Known>,
}

/// How far what is known can be relied on.
pub struct Freshness {
    /// Since when it is as it was last seen, and why, if it is not current.
    pub stale: Option<(Duration, String)>,
    /// Whether the bucket was ever read.
    pub read: bool,
}

/// Of what in a bucket it is asked whether it is current: its roles, or its groups.
pub type Of = fn(&Watched) -> Freshness;

/// What came of asking the instances. While there is neither a time nor a problem, nobody was asked.
#[derive(Clone, Default)]
pub struct Asked {
    /// When instances last could be asked, by both clocks.
    pub at: Option<(Instant, SystemTime)>,
    /// All that were found then.
    pub reports: Arc<[Candidate]>,
    /// Why they could not be asked after that, if so.
    pub problem: Option<String>,
    /// Whether that is for want of any answer.
    pub unanswered: bool,
}

#[derive(Default)]
struct Known {
    observer: Option<Observer>,
    /// Why there is no observer yet.
    trouble: Option<String>,
    asked: Asked,
    /// How many changes of each role were seen, by cause.
    counts: BTreeMap<String, BTreeMap<&'static str, u64>>,
    /// The newest last.
    changes: VecDeque<RoleChange>,
    /// The events that are kept, or why there are none.
    history: Option<Result<Kept, NoHistory>>,
}

/// Why there is no history.
#[derive(Clone)]
pub struct NoHistory {
    pub why: String,
    /// Nothing while it is being read.
    pub code: Option<Code>,
}

/// Something that happened to a role, for people.
pub struct Latest {
    pub at_ms: u64,
    pub role: String,
    pub who: String,
    pub what: String,
}

impl Latest {
    pub fn stamp(&self) -> String {
        stamp_of(self.at_ms)
    }

    pub fn clock(&self) -> String {
        clock(&self.stamp())
    }
}

impl Watched {
    pub fn new(bucket: &str, tell: impl Fn(&'static str, String) + Send + Sync + 'static) -> Self {
        Self {
            bucket: bucket.to_owned(),
            began: now(),
            tell: Box::new(tell),
            groups: GroupView::default(),
            known: Mutex::default(),
        }
    }

    /// The bucket was read. From now on the observer tells of it.
    pub fn observed_by(&self, observer: Observer) {
        let mut known = lock(&self.known);
        known.observer = Some(observer);
        known.trouble = None;
        drop(known);
        self.moved();
    }

    /// Tells that the view became current, or is current no more.
    pub fn moved(&self) {
        let mut known = lock(&self.known);
        // Roles of a bucket that was replaced are gone.
        if let Some(observer) = known.observer.clone() {
            known.counts.retain(|role, _| observer.role(role).is_some());
        }
        drop(known);
        self.tell("view", &self.told(Self::freshness));
    }

    /// The bucket can't be looked at.
    pub fn in_trouble(&self, why: &str) {
        lock(&self.known).trouble = Some(clean(why));
    }

    /// All roles, at the time of this call.
    pub fn roles(&self) -> BTreeMap<String, Observed> {
        self.observer().map(|it| it.roles()).unwrap_or_default()
    }

    /// A role, at the time of this call.
    pub fn role(&self, role: &str) -> Option<Observed> {
        self.observer()?.role(role)
    }

    fn observer(&self) -> Option<Observer> {
        lock(&self.known).observer.clone()
    }

    pub fn freshness(&self) -> Freshness {
        let known = lock(&self.known);
        let stale = match known.observer.as_ref().map(Observer::connection) {
            Some(WatchStatus::Current) => None,
            Some(WatchStatus::Stale { since, reason }) => Some((since, clean(&reason))),
            _ => {
                let why = known.trouble.clone();
                let why = why.unwrap_or_else(|| "the bucket was not read yet".into());
                Some((now().duration_since(self.began), why))
            }
        };
        Freshness {
            stale,
            read: known.observer.is_some(),
        }
    }

    /// The same of its groups, which have a watch of their own.
    pub fn groups_freshness(&self) -> Freshness {
        self.groups.freshness().unwrap_or_else(|| {
            let age = now().duration_since(self.began);
            let unread = || (age, "they were not read yet".to_owned());
            Freshness {
                stale: Some(self.freshness().stale.unwrap_or_else(unread)),
                read: false,
            }
        })
    }

    fn tell(&self, kind: &'static str, data: &impl Serialize) {
        (self.tell)(kind, output::json(data));
    }

    /// For programs: which bucket, and whether its roles are current, or its groups.
    pub fn told(&self, of: Of) -> super::View {
        let (since, reason) = of(self).stale.unzip();
        let at = since.and_then(|since| wall_clock().checked_sub(since));
        super::View {
            bucket: self.bucket.clone(),
            current: since.is_none(),
            stale_since: at.map(Into::into),
            stale_seconds: since.map(Seconds),
            reason,
        }
    }

    /// What is told of this bucket.
    pub fn of<T>(&self, it: T) -> In<T> {
        let bucket = self.bucket.clone();
        In { bucket, it }
    }

    /// A role changed.
    pub fn changed(&self, change: &RoleChange) {
        let mut known = lock(&self.known);
        let counts = known.counts.entry(change.role.clone()).or_default();
        *counts.entry(change.cause.as_str()).or_default() += 1;
        if known.changes.len() == MOST_CHANGES {
            known.changes.pop_front();
        }
        known.changes.push_back(change.clone());
        drop(known);
        self.tell("change", &self.of(Change::from(change)));
    }

    /// Takes note of units without known owners, and tells which groups have changed since the last
    /// look.
    pub fn look_at_groups(&self) {
        for change in self.groups.look() {
            self.tell("group", &self.of(change));
        }
    }

    /// How many changes of a role were seen, by cause, since this process began to look.
    pub fn counts(&self, role: &str) -> BTreeMap<&'static str, u64> {
        let known = lock(&self.known);
        known.counts.get(role).cloned().unwrap_or_default()
    }

    /// What came of a turn of questions.
    pub fn heard(&self, reports: Result<Vec<Candidate>, AdminError>) {
        let mut known = lock(&self.known);
        let asked = &mut known.asked;
        let is_new = match reports {
            Ok(reports) => {
                let is_new = asked.problem.take().is_some() || differ(&asked.reports, &reports);
                asked.at = Some((now(), wall_clock()));
                asked.reports = reports.into();
                is_new
            }
            Err(error) => {
                let is_new = asked.problem.is_none();
                asked.problem = Some(clean(&error.to_string()));
                asked.unanswered = matches!(error, AdminError::Timeout { .. });
                is_new
            }
        };
        drop(known);
        if is_new {
            let bucket = json!({ "bucket": self.bucket });
            self.tell("instances", &bucket);
        }
    }

    /// What the instances said.
    pub fn asked(&self) -> Asked {
        lock(&self.known).asked.clone()
    }

    /// Looks at the changes that were seen, the newest last.
    pub fn changes<T>(&self, look: impl FnOnce(&VecDeque<RoleChange>) -> T) -> T {
        look(&lock(&self.known).changes)
    }

    /// All that is kept of the past. Readers of events were not told what is new in it: they read it
    /// again.
    pub fn remembered(&self, history: Vec<LeaderEvent>) {
        let kept = Kept(history.into());
        let before = lock(&self.known).history.replace(Ok(kept.clone()));
        if before.and_then(Result::ok).unwrap_or_default() != kept {
            let why = json!({ "reason": "the history was read" });
            self.tell("reload", &why);
        }
    }

    /// Nothing is kept, or it can't be read just now. Then what was read stays.
    pub fn not_remembered(&self, failure: &Failure) {
        let mut known = lock(&self.known);
        if failure.code == Code::NotFound || !matches!(known.history, Some(Ok(_))) {
            known.history = Some(Err(NoHistory {
                why: clean(&failure.what),
                code: Some(failure.code),
            }));
        }
    }

    /// One more event of the past.
    pub fn remember(&self, event: &LeaderEvent) {
        let mut known = lock(&self.known);
        let Some(Ok(history)) = &mut known.history else {
            return;
        };
        if !history.remember(event) {
            return;
        }
        drop(known);
        self.tell("history", &Event::from(event));
    }

    /// The latest changes, the newest first: of the past if there is one, else as they were seen.
    pub fn latest(&self, past: Option<&[LeaderEvent]>, most: usize) -> Vec<Latest> {
        let Some(past) = past else {
            let known = lock(&self.known);
            let changes = known.changes.iter().rev().take(most);
            let latest = changes.map(|change| Latest {
                at_ms: ms_of(change.at),
                role: clean(&change.role),
                who: change.to.as_ref().map_or("–".into(), |to| clean(&name(to))),
                what: match why_changed(change) {
                    why if change.to.is_some() => format!("leads: {why}"),
                    why => why.to_owned(),
                },
            });
            return latest.collect();
        };
        let latest = past.iter().rev().take(most).map(|event| {
            let gap = gap(event).map(|gap| format!(", nobody led for {gap}"));
            Latest {
                at_ms: event.at_ms,
                role: clean(&event.role),
                who: clean(&event.instance_id),
                what: clean(&(what(event) + &gap.unwrap_or_default())),
            }
        });
        latest.collect()
    }

    /// The past, the oldest event first, of one role or of all.
    pub fn history(&self, role: Option<&str>) -> Result<Vec<LeaderEvent>, NoHistory> {
        match &lock(&self.known).history {
            None => Err(NoHistory {
                why: "the history was not read yet".into(),
                code: None,
            }),
            Some(Err(none)) => Err(none.clone()),
            Some(Ok(kept)) => Ok(kept.all(role)),
        }
    }
}

/// Whether instances came or went, or say something else than before, times and counts apart.
fn differ(before: &[Candidate], after: &[Candidate]) -> bool {
    let gist = |one: &Candidate| {
        let roles = one.report.as_ref().ok().map(|report| {
            let roles = report.roles.iter();
            roles
                .map(|(role, it)| {
                    let failing = it.failing.is_some();
                    let says = (it.state, it.paused, failing, it.healthy, it.connection);
                    (role.clone(), says)
                })
                .collect::<Vec<_>>()
        });
        (one.instance.incarnation, roles)
    };
    let mut before: Vec<_> = before.iter().map(gist).collect();
    let mut after: Vec<_> = after.iter().map(gist).collect();
    before.sort_by_key(|(incarnation, _)| *incarnation);
    after.sort_by_key(|(incarnation, _)| *incarnation);
    before != after
}
