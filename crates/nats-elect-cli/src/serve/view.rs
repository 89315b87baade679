//! What is known of one bucket.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use nats_elect::duration::seconds::Seconds;
use nats_elect::{
    FencingToken, LeaderChange, LeaderEvent, Observed, Observer, RoleChange, WatchStatus,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::events::Events;
use super::group_view::GroupView;
use super::now;
use crate::asking::{Report, Reports};
use crate::past_event::{MOST, PastEvent, with_gaps};
use crate::seen::{Seen, change_json, is_known_alive};
use crate::text::{clean, stamp, wall_clock};

/// Changes that are kept.
const MOST_CHANGES: usize = 200;
/// How often it is tried to read when a term began.
const MOST_READS: u8 = 5;

/// A bucket, as far as it is known.
pub struct View {
    pub bucket: String,
    /// When this began, and nothing was known.
    began: Instant,
    /// Where it is told what changes.
    events: Arc<Events>,
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

/// What came of asking the instances.
#[derive(Default)]
pub struct Asked {
    /// When instances last could be asked, by both clocks.
    pub at: Option<(Instant, SystemTime)>,
    /// All that were found then.
    pub reports: Vec<Report>,
    /// Why they could not be asked after that, if so.
    pub problem: Option<String>,
    /// Turns that succeeded, and turns that did not.
    pub turns: (u64, u64),
}

/// What happened to a role since this process began to look.
#[derive(Default)]
struct Past {
    changes: BTreeMap<&'static str, u64>,
    /// Since when no leader is known to be alive.
    unled_since: Option<Instant>,
    /// The lease of the last leader.
    ttl: Option<Duration>,
}

/// The same, as of now.
pub struct PastNow {
    /// How many changes there were, by cause.
    pub changes: BTreeMap<&'static str, u64>,
    /// For how long no leader has been known to be alive, if none is.
    pub unled: Option<Duration>,
    /// The lease of the last leader that was seen.
    pub ttl: Option<Duration>,
}

/// How the bucket itself is.
#[derive(Clone, Copy)]
pub struct BucketState {
    pub messages: u64,
    pub bytes: u64,
    /// The servers that are to hold it.
    pub replicas: usize,
    /// Those of them that do, and are not behind.
    pub replicas_current: usize,
}

#[derive(Default)]
struct Known {
    observer: Option<Observer>,
    /// Why there is no observer yet.
    trouble: Option<String>,
    asked: Asked,
    /// Nothing if it could not be asked for.
    bucket_state: Option<BucketState>,
    past: BTreeMap<String, Past>,
    /// The newest last.
    changes: VecDeque<RoleChange>,
    terms: BTreeMap<String, Term>,
    /// The events that are kept, each role's in the order of its terms; or why there are none.
    history: Option<Result<VecDeque<LeaderEvent>, String>>,
}

/// When a role's term began, by the server's clock.
struct Term {
    token: FencingToken,
    since: Option<SystemTime>,
    /// How often it was read in vain.
    failures: u8,
}

impl View {
    pub fn new(bucket: &str, events: Arc<Events>) -> Self {
        Self {
            bucket: bucket.to_owned(),
            began: now(),
            events,
            groups: GroupView::default(),
            known: Mutex::default(),
        }
    }

    /// The bucket was read. From now on the observer tells of it.
    pub fn observed_by(&self, observer: Observer) {
        let mut known = self.known();
        known.observer = Some(observer);
        known.trouble = None;
        drop(known);
        self.moved();
    }

    /// Tells that the view became current, or is current no more.
    pub fn moved(&self) {
        self.events.tell("view", &self.json());
    }

    /// The bucket can't be looked at.
    pub fn in_trouble(&self, why: &str) {
        self.known().trouble = Some(clean(why));
    }

    /// All roles, at the time of this call.
    pub fn roles(&self) -> BTreeMap<String, Seen> {
        let known = self.known();
        let roles = known.observer.as_ref().map(Observer::roles);
        let roles = roles.unwrap_or_default().into_iter();
        roles
            .map(|(role, observed)| (role.clone(), known.seen(role, observed)))
            .collect()
    }

    /// A role, at the time of this call.
    pub fn role(&self, role: &str) -> Option<Seen> {
        let known = self.known();
        let observed = known.observer.as_ref()?.role(role)?;
        Some(known.seen(role.to_owned(), observed))
    }

    pub fn freshness(&self) -> Freshness {
        let known = self.known();
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
            let began = || {
                (
                    now().duration_since(self.began),
                    "they were not read yet".into(),
                )
            };
            Freshness {
                stale: Some(self.freshness().stale.unwrap_or_else(began)),
                read: false,
            }
        })
    }

    /// For programs: which bucket, and whether its roles are current.
    pub fn json(&self) -> Value {
        self.freshness_json(&self.freshness())
    }

    /// For programs: which bucket, and whether its groups are current.
    pub fn groups_json(&self) -> Value {
        self.freshness_json(&self.groups_freshness())
    }

    fn freshness_json(&self, freshness: &Freshness) -> Value {
        let stale = freshness.stale.as_ref();
        let since = stale.and_then(|(since, _)| wall_clock().checked_sub(*since));
        json!({
            "bucket": self.bucket,
            "current": stale.is_none(),
            "stale_since": since.map(stamp),
            "stale_seconds": stale.map(|(since, _)| Seconds(*since)),
            "reason": stale.map(|(_, why)| why),
        })
    }

    /// A role changed.
    pub fn changed(&self, change: &RoleChange) {
        let mut known = self.known();
        let past = known.past.entry(change.role.clone()).or_default();
        *past.changes.entry(change.cause.as_str()).or_default() += 1;
        if known.changes.len() == MOST_CHANGES {
            known.changes.pop_front();
        }
        known.changes.push_back(change.clone());
        drop(known);
        let mut json = change_json(change);
        json["bucket"] = json!(self.bucket);
        self.events.tell("change", &json);
    }

    /// Takes note of units without known owners, and tells which groups have changed since the last
    /// look.
    pub fn look_at_groups(&self) {
        for mut change in self.groups.look() {
            change["bucket"] = json!(self.bucket);
            self.events.tell("group", &change);
        }
    }

    /// Takes note of roles without known leaders, and forgets roles that are gone.
    pub fn look(&self) {
        let mut known = self.known();
        let Some(roles) = known.observer.as_ref().map(Observer::roles) else {
            return;
        };
        let now = now();
        known.past.retain(|role, _| roles.contains_key(role));
        known.terms.retain(|role, _| roles.contains_key(role));
        for (role, observed) in roles {
            let past = known.past.entry(role).or_default();
            if observed.leader.is_some() {
                past.ttl = observed.ttl;
            }
            past.unled_since = if is_known_alive(&observed) {
                None
            } else {
                past.unled_since.or(Some(now))
            };
        }
    }

    /// What happened to a role since this process began to look.
    pub fn past(&self, role: &str) -> PastNow {
        let known = self.known();
        let past = known.past.get(role);
        let unled_since = past.and_then(|past| past.unled_since);
        PastNow {
            changes: past.map_or_else(BTreeMap::new, |past| past.changes.clone()),
            unled: unled_since.map(|since| now().duration_since(since)),
            ttl: past.and_then(|past| past.ttl),
        }
    }

    /// How the bucket is, if that can be told.
    pub fn bucket_is(&self, state: Option<BucketState>) {
        self.known().bucket_state = state;
    }

    pub fn bucket_state(&self) -> Option<BucketState> {
        self.known().bucket_state
    }

    /// The terms whose beginning is not known yet.
    pub fn undated(&self) -> Vec<(String, FencingToken)> {
        let known = self.known();
        let roles = known.observer.as_ref().map(Observer::roles);
        let roles = roles.unwrap_or_default().into_iter();
        roles
            .filter_map(|(role, observed)| {
                let token = observed.fencing_token?;
                let is_dated = |term: &Term| {
                    term.token == token && (term.since.is_some() || term.failures >= MOST_READS)
                };
                let is_dated = known.terms.get(&role).is_some_and(is_dated);
                (!is_dated).then_some((role, token))
            })
            .collect()
    }

    /// When a term began, by the server's clock, if that could be read.
    pub fn dated(&self, role: String, token: FencingToken, since: Option<SystemTime>) {
        let mut known = self.known();
        let before = known.terms.get(&role).filter(|term| term.token == token);
        let failures = before.map_or(0, |term| term.failures) + u8::from(since.is_none());
        let term = Term {
            token,
            since,
            failures,
        };
        known.terms.insert(role, term);
    }

    /// What came of a turn of questions.
    pub fn heard(&self, reports: Reports) {
        let mut known = self.known();
        let asked = &mut known.asked;
        let is_new = match reports {
            Ok(reports) => {
                let is_new = asked.problem.take().is_some() || differ(&asked.reports, &reports);
                asked.at = Some((now(), wall_clock()));
                asked.turns.0 += 1;
                asked.reports = reports;
                is_new
            }
            Err(error) => {
                asked.turns.1 += 1;
                let is_new = asked.problem.is_none();
                asked.problem = Some(clean(&error.to_string()));
                is_new
            }
        };
        drop(known);
        if is_new {
            let bucket = json!({ "bucket": self.bucket });
            self.events.tell("instances", &bucket);
        }
    }

    /// Looks at what the instances said.
    pub fn asked<T>(&self, look: impl FnOnce(&Asked) -> T) -> T {
        look(&self.known().asked)
    }

    /// Looks at the changes that were seen, the newest last.
    pub fn changes<T>(&self, look: impl FnOnce(&VecDeque<RoleChange>) -> T) -> T {
        look(&self.known().changes)
    }

    /// All that is kept of the past.
    pub fn remembered(&self, history: Vec<LeaderEvent>) {
        self.known().history = Some(Ok(history.into()));
    }

    /// Nothing is kept, or it can't be read just now. Then what was read stays.
    pub fn not_remembered(&self, why: &str, is_kept: bool) {
        let mut known = self.known();
        if !is_kept || !matches!(known.history, Some(Ok(_))) {
            known.history = Some(Err(clean(why)));
        }
    }

    /// One more event of the past.
    pub fn remember(&self, event: &LeaderEvent) {
        let mut known = self.known();
        let Some(Ok(history)) = &mut known.history else {
            return;
        };
        // It was published while the past was read.
        if history.contains(event) {
            return;
        }
        if history.len() == MOST {
            history.pop_front();
        }
        // Two instances report one handoff, and the later leader may be the first to do so.
        let place = |event: &LeaderEvent| {
            let is_end = matches!(event.change, LeaderChange::TermEnded { .. });
            (event.fencing_token, is_end)
        };
        let is_later = |it: &LeaderEvent| it.role == event.role && place(it) > place(event);
        let at = history.iter().position(is_later);
        history.insert(at.unwrap_or(history.len()), event.clone());
        let of_role: Vec<_> = history
            .iter()
            .filter(|it| it.role == event.role)
            .cloned()
            .collect();
        drop(known);
        let told = with_gaps(of_role).into_iter();
        for one in told.filter(|it| it.event == *event) {
            self.events.tell("history", &one.json());
        }
    }

    /// The past, the oldest event first, of one role or of all. An error says why there is none.
    pub fn history(&self, role: Option<&str>) -> Result<Vec<PastEvent>, String> {
        let events = match &self.known().history {
            None => return Err("the history was not read yet".into()),
            Some(Err(why)) => return Err(why.clone()),
            Some(Ok(events)) => {
                let is_meant = |event: &&LeaderEvent| role.is_none_or(|role| event.role == role);
                events.iter().filter(is_meant).cloned().collect()
            }
        };
        Ok(with_gaps(events))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn seen(&self, role: String, observed: Observed) -> Seen {
        let term = self.terms.get(&role);
        let term = term.filter(|term| observed.fencing_token == Some(term.token));
        let since = term.and_then(|term| term.since);
        Seen {
            role,
            observed,
            since,
        }
    }
}

/// Whether instances came or went, or say something else than before, times and counts apart.
fn differ(before: &[Report], after: &[Report]) -> bool {
    let gist = |(instance, report): &Report| {
        let roles = report.as_ref().ok().map(|report| {
            let roles = report.roles.iter();
            roles
                .map(|(role, it)| {
                    let failing = it.failing.is_some();
                    let says = (it.state, it.paused, failing, it.healthy, it.connection);
                    (role.clone(), says)
                })
                .collect::<Vec<_>>()
        });
        (instance.incarnation, roles)
    };
    let mut before: Vec<_> = before.iter().map(gist).collect();
    let mut after: Vec<_> = after.iter().map(gist).collect();
    before.sort_by_key(|(incarnation, _)| *incarnation);
    after.sort_by_key(|(incarnation, _)| *incarnation);
    before != after
}
