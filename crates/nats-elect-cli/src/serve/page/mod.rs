//! The page: a table that works without script, and a script that keeps it up to date. Templates
//! escape all names.

mod groups;
mod picture;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse, Response};
use nats_elect::admin::RoleReport;
use nats_elect::{Observed, RoleState, Standing};

use self::groups::Group;
use self::picture::{Colours, Picture, Tick};
use super::Served;
use super::timeline::{self, Mark};
use crate::asking::Report;
use crate::fleet::{Asked, Watched, now};
use crate::past_event::PastEvent;
use crate::problem::Problem;
use crate::seen::{Seen, is_known_alive, led_for, state, why_nobody};
use crate::text::{clean, lasted, short, stamp, stamp_of, wall_clock};

/// The time that the timeline shows.
const HOURS: u64 = 6;
/// Changes that are listed.
const MOST_CHANGES: usize = 50;

/// Names that a line or a field has at most. It says how many more there are.
const MOST_NAMES: usize = 20;

#[derive(Template)]
#[template(path = "page.html")]
struct Page {
    title: String,
    now: String,
    clock: String,
    from: String,
    hours: u64,
    ticks: Vec<Tick>,
    views: Vec<Bucket>,
}

struct Bucket {
    name: String,
    stale: Option<String>,
    is_read: bool,
    /// The first roles without a leader, how many more there are, and how many of how many.
    unled: Vec<Unled>,
    more_unled: usize,
    unled_title: String,
    /// Otherwise: its kind, its sign, and what to say.
    well: Option<(&'static str, &'static str, String)>,
    roles: Vec<Role>,
    groups: Vec<Group>,
    /// The first groups with units that have no owner, and how many of how many groups.
    unowned: Vec<Unowned>,
    more_unowned: usize,
    unowned_title: String,
    /// Since when the groups are as they were last seen, and why, if roles are current.
    stale_groups: Option<String>,
    instances: Vec<Instance>,
    /// How long ago the instances were asked.
    asked: Option<String>,
    problem: Option<String>,
    has_history: bool,
    changes: Vec<Change>,
}

/// A role without a leader.
struct Unled {
    id: String,
    name: String,
}

/// A group with units that have no owner.
struct Unowned {
    id: String,
    name: String,
    units: String,
}

struct Role {
    /// In the page.
    id: String,
    name: String,
    kind: Kind,
    state: &'static str,
    sign: &'static str,
    class: &'static str,
    leader: String,
    leads_for: String,
    lease: Option<Lease>,
    token: String,
    short_token: String,
    candidates: Vec<Candidate>,
    words: String,
    picture: Picture,
}

/// How urgent a role is: the most urgent ones come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Unled,
    Doubtful,
    Led,
}

impl Kind {
    fn of(observed: &Observed) -> Self {
        match observed.standing {
            Standing::Led if is_known_alive(observed) => Self::Led,
            Standing::Led | Standing::Unknown => Self::Doubtful,
            _ => Self::Unled,
        }
    }
}

struct Lease {
    percent: u128,
    text: String,
}

struct Candidate {
    sign: Option<&'static str>,
    class: &'static str,
    text: String,
}

struct Instance {
    name: String,
    version: String,
    up: String,
    leads: String,
    follows: String,
    troubles: Vec<String>,
}

struct Change {
    at: String,
    clock: String,
    role: String,
    who: String,
    what: String,
}

/// `/`.
pub async fn page(State(served): State<Served>) -> Response {
    let answers = Arc::clone(&served.answers);
    // No page is empty.
    let make = move || rendered(&served).unwrap_or_default();
    let page = answers.page.get(make).await;
    if page.is_empty() {
        return Problem::unavailable("the page could not be made").into_response();
    }
    Html(page.to_string()).into_response()
}

fn rendered(served: &Served) -> askama::Result<String> {
    let now_ms = now_ms();
    let from_ms = now_ms.saturating_sub(HOURS * 60 * 60 * 1000);
    let buckets = served.views.iter().enumerate();
    let views: Vec<_> = buckets
        .map(|(number, view)| bucket(view, number, (from_ms, now_ms)))
        .collect();
    let names: Vec<_> = views.iter().map(|view| &*view.name).collect();
    let roles = views.iter().flat_map(|view| &view.roles);
    let unled = roles.filter(|role| role.kind == Kind::Unled).count();
    let groups = views.iter().flat_map(|view| &view.groups);
    let unowned = groups.filter(|group| group.kind == groups::Kind::Unowned);
    let unowned: usize = unowned.map(|group| group.unowned).sum();
    let stale = views.iter().filter(|view| view.stale.is_some()).count();
    let warning = match (unled, unowned, stale) {
        (0, 0, 0) => String::new(),
        (0, 0, _) => "⚠ stale · ".into(),
        (0, unowned, _) => format!("✗ {unowned} units without owner · "),
        (unled, ..) => format!("✗ {unled} without leader · "),
    };
    let page = Page {
        title: format!("{warning}Leaders of {}", names.join(", ")),
        now: stamp_of(now_ms - now_ms % 1000).replacen(".000Z", "Z", 1),
        clock: clock_of(now_ms)[11..].to_owned(),
        from: clock_of(from_ms),
        hours: HOURS,
        ticks: picture::ticks(from_ms, now_ms),
        views,
    };
    page.render()
}

/// What the page is made of besides.
pub async fn asset(Path(file): Path<String>) -> Response {
    let (kind, content) = match &*file {
        "style.css" => ("text/css; charset=utf-8", include_str!("style.css")),
        "script.js" => ("text/javascript; charset=utf-8", include_str!("script.js")),
        "icon.svg" => ("image/svg+xml", include_str!("icon.svg")),
        _ => return Problem::no_such_path().into_response(),
    };
    ([(CONTENT_TYPE, kind)], content).into_response()
}

fn bucket(view: &Watched, number: usize, (from_ms, now_ms): (u64, u64)) -> Bucket {
    let (freshness, asked) = (view.freshness(), view.asked());
    let past = view.history(None).ok();
    let all_marks = all_marks(view, past.as_deref());
    let seen = view.roles().into_values().map(|seen| {
        let marks = all_marks.get(&seen.role).cloned().unwrap_or_default();
        let marks = with_present(marks, &seen, now_ms);
        let spans = timeline::spans(&marks, from_ms, now_ms);
        (seen, marks, spans)
    });
    let seen: Vec<_> = seen.collect();
    let colours = Colours::of(seen.iter().flat_map(|(_, _, spans)| spans));
    let roles = seen.iter().map(|(seen, marks, spans)| {
        let is_known = Kind::of(&seen.observed) != Kind::Doubtful;
        let picture = Picture::new(spans, marks, (from_ms, now_ms), &colours, is_known);
        let words = clean(&timeline::words(spans, now_ms, is_known));
        role(seen, &asked, number, words, picture)
    });
    let mut roles: Vec<_> = roles.collect();
    roles.sort_by_key(|role| role.kind);
    let changes = view.latest(past.as_deref(), MOST_CHANGES).into_iter();
    let changes = changes.map(|latest| {
        let at = stamp(latest.at);
        Change {
            clock: clock(&at),
            at,
            role: latest.role,
            who: latest.who,
            what: latest.what,
        }
    });
    let of_kind = |kind: Kind| roles.iter().filter(move |role| role.kind == kind);
    let (unled, doubtful) = (
        of_kind(Kind::Unled).count(),
        of_kind(Kind::Doubtful).count(),
    );
    let led = match (unled, doubtful) {
        _ if !freshness.read || roles.is_empty() => None,
        (0, 0) if freshness.stale.is_none() => {
            Some(("good", "●", format!("{} led", of_all(roles.len()))))
        }
        (_, 0) => None,
        _ => {
            let text = format!(
                "Not known to be alive: the leader of {doubtful} of {}",
                some(roles.len())
            );
            Some(("doubtful", "◌", text))
        }
    };
    let linked = |role: &Role| Unled {
        id: role.id.clone(),
        name: role.name.clone(),
    };
    let named = of_kind(Kind::Unled).take(MOST_NAMES).map(linked).collect();
    let groups = groups::all(view, number);
    let is_unowned = |group: &&Group| group.kind == groups::Kind::Unowned;
    let unowned = groups.iter().filter(is_unowned).count();
    let first = groups.iter().filter(is_unowned).take(MOST_NAMES);
    let first = first.map(|group| Unowned {
        id: group.id.clone(),
        name: group.name.clone(),
        units: format!("{} of {}", group.unowned, group.units),
    });
    let first: Vec<_> = first.collect();
    let stale_groups = view.groups_freshness().stale;
    let stale_groups = stale_groups.filter(|_| freshness.stale.is_none() && !groups.is_empty());
    Bucket {
        name: view.bucket.clone(),
        is_read: freshness.read,
        stale: freshness
            .stale
            .map(|(since, why)| format!("{}: {why}.", lasted(since))),
        unled: named,
        more_unled: unled.saturating_sub(MOST_NAMES),
        unled_title: format!("No leader for {unled} of {}", some(roles.len())),
        well: led,
        instances: asked.reports.iter().map(instance).collect(),
        asked: asked.at.map(|(at, _)| lasted(now().duration_since(at))),
        problem: asked.problem,
        has_history: past.is_some(),
        changes: changes.collect(),
        roles,
        more_unowned: unowned - first.len(),
        unowned: first,
        unowned_title: format!(
            "Units without an owner in {unowned} of {}",
            groups_of(groups.len())
        ),
        stale_groups: stale_groups.map(|(since, why)| format!("{}: {why}.", lasted(since))),
        groups,
    }
}

fn of_all(roles: usize) -> String {
    match roles {
        1 => "The one role is".into(),
        many => format!("All {many} roles are"),
    }
}

fn groups_of(groups: usize) -> String {
    format!("{groups} group{}", if groups == 1 { "" } else { "s" })
}

fn some(roles: usize) -> String {
    format!("{roles} role{}", if roles == 1 { "" } else { "s" })
}

fn role(seen: &Seen, asked: &Asked, bucket: usize, words: String, picture: Picture) -> Role {
    let observed = &seen.observed;
    let kind = Kind::of(observed);
    let (sign, class, state) = match kind {
        Kind::Led => ("●", "good", state(observed)),
        Kind::Doubtful => ("◌", "doubtful", state(observed)),
        Kind::Unled => ("✗", "bad", "no leader"),
    };
    let leader = match (kind, observed.unled) {
        (Kind::Unled, Some(unled)) => {
            format!("{}, {} ago", why_nobody(observed), lasted(unled))
        }
        (Kind::Unled, None) => why_nobody(observed),
        _ => seen.who(),
    };
    let lease = observed
        .remaining
        .zip(observed.ttl)
        .map(|(left, ttl)| Lease {
            percent: (left.as_millis() * 100 / ttl.as_millis().max(1)).min(100),
            text: format!("{} of {}", lasted(left), lasted(ttl)),
        });
    let candidates = asked.reports.iter().filter_map(|(instance, report)| {
        let says = report.as_ref().ok()?.roles.get(&seen.role)?;
        let troubles = troubles(says);
        let leads = says.state == Some(RoleState::Leader);
        let name = clean(&instance.instance_id);
        let state = says.state.map_or("state not known", RoleState::as_str);
        let words: Vec<_> = [state]
            .into_iter()
            .chain(troubles.iter().copied())
            .collect();
        let (sign, class) = match (troubles.is_empty(), leads) {
            (false, _) => (Some("⚠"), "bad"),
            (true, true) => (Some("●"), "good"),
            (true, false) => (None, ""),
        };
        let text = format!("{name}: {}", words.join(", "));
        Some((!leads, Candidate { sign, class, text }))
    });
    let mut candidates: Vec<_> = candidates.collect();
    candidates.sort_by_key(|(follows, _)| *follows);
    Role {
        id: format!("r{bucket}-{}", clean(&seen.role)),
        name: clean(&seen.role),
        kind,
        state,
        sign,
        class,
        leader: clean(&leader),
        leads_for: led_for(observed).map_or_else(nobody, lasted),
        lease,
        token: observed
            .fencing_token
            .map_or_else(nobody, |it| it.to_string()),
        short_token: observed.fencing_token.map_or_else(nobody, short),
        candidates: candidates.into_iter().map(|(_, it)| it).collect(),
        words,
        picture,
    }
}

fn instance((instance, report): &Report) -> Instance {
    let report = report.as_ref();
    let roles = || report.iter().flat_map(|report| &report.roles);
    let leads = roles().filter(|(_, says)| says.state == Some(RoleState::Leader));
    let leads: Vec<_> = leads.map(|(role, _)| clean(role)).collect();
    let follows = roles().count() - leads.len();
    let mut wrong: Vec<_> = match report {
        Ok(report) => report.trouble.iter().map(|it| clean(it)).collect(),
        Err(error) => vec![clean(&error.to_string())],
    };
    let of_roles = roles().filter_map(|(role, says)| {
        let troubles = troubles(says);
        (!troubles.is_empty()).then(|| format!("{}: {}", clean(role), troubles.join(", ")))
    });
    wrong.extend(of_roles);
    if wrong.len() > MOST_NAMES {
        let more = wrong.len() - MOST_NAMES;
        wrong.truncate(MOST_NAMES);
        wrong.push(format!("{more} more"));
    }
    Instance {
        name: clean(&instance.to_string()),
        version: clean(&instance.version),
        up: report.map_or_else(|_| nobody(), |it| lasted(it.uptime)),
        leads: listed(&leads),
        follows: report.map_or_else(|_| nobody(), |_| follows.to_string()),
        troubles: wrong,
    }
}

/// How many, and which.
fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return nobody();
    }
    let first = &names[..names.len().min(MOST_NAMES)];
    let more = match names.len() - first.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}: {}{more}", names.len(), first.join(", "))
}

/// In what an instance is not as it should be in a role.
fn troubles(says: &RoleReport) -> Vec<&'static str> {
    let mut words = Vec::new();
    words.extend(says.paused.then_some("paused"));
    words.extend(says.failing.map(|_| "failing"));
    words.extend(match says.healthy {
        Some(true) => None,
        Some(false) => Some("unhealthy"),
        None => Some("health not known"),
    });
    words.extend(match says.connection {
        Some(connection) if connection.as_str() == "connected" => None,
        Some(connection) => Some(connection.as_str()),
        None => Some("connection not known"),
    });
    words
}

/// When the leaders of roles changed: from the history, else as it was seen.
fn all_marks(view: &Watched, past: Option<&[PastEvent]>) -> BTreeMap<String, Vec<Mark>> {
    fn by_role<'a, T>(all: impl Iterator<Item = (&'a String, T)>) -> BTreeMap<&'a String, Vec<T>> {
        let mut by_role = BTreeMap::<_, Vec<_>>::new();
        for (role, one) in all {
            by_role.entry(role).or_default().push(one);
        }
        by_role
    }
    match past {
        Some(past) => {
            let by_role = by_role(past.iter().map(|one| (&one.event.role, one)));
            let marks = by_role.into_iter();
            marks
                .map(|(role, past)| (role.clone(), timeline::of_history(past)))
                .collect()
        }
        None => view.changes(|changes| {
            let by_role = by_role(changes.iter().map(|change| (&change.role, change)));
            let marks = by_role.into_iter();
            marks
                .map(|(role, changes)| (role.clone(), timeline::of_changes(changes)))
                .collect()
        }),
    }
}

/// The same, and how it is now.
fn with_present(mut marks: Vec<Mark>, seen: &Seen, now_ms: u64) -> Vec<Mark> {
    let ago = |time: Duration| {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        now_ms.saturating_sub(ms)
    };
    let leader = seen.observed.leader.as_ref();
    let leader = leader.filter(|_| is_known_alive(&seen.observed));
    let leads = leader.map(|leader| leader.instance_id.clone());
    // It may have crashed, which nobody reports; or publish nothing.
    if marks.last().is_none_or(|mark| mark.leader != leads) {
        let since = match leads {
            Some(_) => seen.observed.since,
            None => seen.observed.unled,
        };
        let at_ms = ago(since.unwrap_or_default());
        marks.push(Mark {
            at_ms,
            leader: leads,
        });
    }
    marks
}

fn nobody() -> String {
    "–".into()
}

/// A time for people: `2026-03-01 08:00:00`.
fn clock_of(ms: u64) -> String {
    clock(&stamp_of(ms))
}

fn clock(stamp: &str) -> String {
    let whole = stamp.split('.').next().unwrap_or(stamp);
    whole.replacen('T', " ", 1)
}

fn now_ms() -> u64 {
    let now = wall_clock().duration_since(std::time::SystemTime::UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}
