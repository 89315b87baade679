//! The page: a table that works without script, and a script that keeps it up to date. Templates
//! escape all names.

mod groups;
mod picture;

use std::collections::HashMap;

use askama::Template;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse, Response};
use nats_elect::admin::RoleReport;
use nats_elect::{Observed, RoleChange, RoleState};

use self::groups::Group;
use self::picture::{Picture, Tick};
use super::Served;
use super::timeline::{self, Mark};
use crate::fleet::{self, Asked, Latest, Urgency, Watched, now};
use crate::instances;
use crate::problem::Problem;
use crate::seen::{is_known_alive, led_for, state, who, why_nobody};
use crate::text::{
    clean, clock, counted, joined, lasted, ms_of, short, stamp_of, to_the_second, wall_clock,
};

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
    banners: Vec<Banner>,
    /// Otherwise: its kind, its sign, and what to say.
    well: Option<(&'static str, &'static str, String)>,
    roles: Vec<Role>,
    groups: Vec<Group>,
    /// Since when the groups are as they were last seen, and why, if roles are current.
    stale_groups: Option<String>,
    instances: Vec<Instance>,
    /// How long ago the instances were asked.
    asked: Option<String>,
    problem: Option<String>,
    has_history: bool,
    changes: Vec<Latest>,
}

/// What somebody has to look after: roles without a leader, groups with units that have no owner.
struct Banner {
    id: &'static str,
    title: String,
    /// The first ones: where they stand on the page, their names, and more.
    links: Vec<(String, String, String)>,
    more: usize,
}

impl Banner {
    /// None if there is nothing to look after.
    fn new(
        id: &'static str,
        title: String,
        mut links: Vec<(String, String, String)>,
    ) -> Option<Self> {
        let more = links.len().saturating_sub(MOST_NAMES);
        links.truncate(MOST_NAMES);
        (!links.is_empty()).then_some(Self {
            id,
            title,
            links,
            more,
        })
    }
}

struct Role {
    /// In the page.
    id: String,
    name: String,
    urgency: Urgency,
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

/// `/`.
pub async fn page(State(served): State<Served>) -> Response {
    let spaced = served.page.clone();
    // No page is empty.
    let make = move || rendered(&served).unwrap_or_default();
    let page = spaced.get(make).await;
    if page.is_empty() {
        return Problem::unavailable("the page could not be made").into_response();
    }
    Html(page.to_string()).into_response()
}

fn rendered(served: &Served) -> askama::Result<String> {
    let now_ms = ms_of(wall_clock());
    let from_ms = now_ms.saturating_sub(HOURS * 60 * 60 * 1000);
    let buckets = served.views.iter().enumerate();
    let views: Vec<_> = buckets
        .map(|(number, view)| bucket(view, number, (from_ms, now_ms)))
        .collect();
    let names = joined(views.iter().map(|view| &*view.name));
    let roles = views.iter().flat_map(|view| &view.roles);
    let unled = roles.filter(|role| role.urgency == Urgency::Bad).count();
    let groups = views.iter().flat_map(|view| &view.groups);
    let unowned = groups.filter(|group| group.urgency == Urgency::Bad);
    let unowned: usize = unowned.map(|group| group.unowned).sum();
    let stale = views.iter().filter(|view| view.stale.is_some()).count();
    let warning = match (unled, unowned, stale) {
        (0, 0, 0) => String::new(),
        (0, 0, _) => "⚠ stale · ".into(),
        (0, unowned, _) => format!("✗ {unowned} units without owner · "),
        (unled, ..) => format!("✗ {unled} without leader · "),
    };
    let page = Page {
        title: format!("{warning}Leaders of {names}"),
        now: to_the_second(now_ms),
        clock: clock(&stamp_of(now_ms))[11..].to_owned(),
        from: clock(&stamp_of(from_ms)),
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
    let mut by_role = HashMap::<_, Vec<_>>::new();
    for event in past.iter().flatten() {
        by_role.entry(&event.role).or_default().push(event);
    }
    let seen = view.roles().into_iter().map(|(role, seen)| {
        // When its leaders changed: from the history, else as it was seen.
        let marks = if past.is_some() {
            timeline::of_history(by_role.remove(&role).unwrap_or_default())
        } else {
            let of_role = |change: &&RoleChange| change.role == role;
            view.changes(|all| timeline::of_changes(all.iter().filter(of_role)))
        };
        let marks = with_present(marks, &seen, now_ms);
        let spans = timeline::spans(&marks, from_ms, now_ms);
        (role, seen, marks, spans)
    });
    let seen: Vec<_> = seen.collect();
    let colours = picture::colours(seen.iter().flat_map(|(_, _, _, spans)| spans));
    let roles = seen.iter().map(|(name, seen, marks, spans)| {
        let urgency = fleet::Role::of(name, seen).urgency();
        let is_known = urgency != Urgency::Doubtful;
        let picture = Picture::new(spans, marks, (from_ms, now_ms), &colours, is_known);
        let words = clean(&timeline::words(spans, now_ms, is_known));
        role(name, seen, urgency, &asked, number, words, picture)
    });
    let mut roles: Vec<_> = roles.collect();
    roles.sort_by_key(|role| role.urgency);
    let as_urgent = |urgency| roles.iter().filter(move |role| role.urgency == urgency);
    let unled = as_urgent(Urgency::Bad).count();
    let doubtful = as_urgent(Urgency::Doubtful).count();
    let led = match (unled, doubtful) {
        _ if !freshness.read || roles.is_empty() => None,
        (0, 0) if freshness.stale.is_none() => Some(("good", "●", "All roles are led".to_owned())),
        (_, 0) => None,
        _ => {
            let all = counted(roles.len(), "role");
            let text = format!("Not known to be alive: the leader of {doubtful} of {all}");
            Some(("doubtful", "◌", text))
        }
    };
    let without_leader = as_urgent(Urgency::Bad)
        .map(|role| (role.id.clone(), role.name.clone(), String::new()))
        .collect();
    let groups = groups::all(view, number);
    let bad_groups = groups.iter().filter(|it| it.urgency == Urgency::Bad);
    let without_owner: Vec<_> = bad_groups
        .map(|it| {
            let units = format!(" ({} of {})", it.unowned, it.units);
            (it.id.clone(), it.name.clone(), units)
        })
        .collect();
    let unled_title = format!("No leader for {unled} of {}", counted(roles.len(), "role"));
    let bad = without_owner.len();
    let all = counted(groups.len(), "group");
    let unowned_title = format!("Units without an owner in {bad} of {all}");
    let banners = [
        Banner::new("unled", unled_title, without_leader),
        Banner::new("unowned", unowned_title, without_owner),
    ];
    let stale_groups = view.groups_freshness().stale;
    let stale_groups = stale_groups.filter(|_| freshness.stale.is_none() && !groups.is_empty());
    Bucket {
        name: view.bucket.clone(),
        is_read: freshness.read,
        stale: freshness
            .stale
            .map(|(since, why)| format!("{}: {why}.", lasted(since))),
        banners: banners.into_iter().flatten().collect(),
        well: led,
        instances: asked.reports.iter().map(instance).collect(),
        asked: asked.at.map(|(at, _)| lasted(now().duration_since(at))),
        problem: asked.problem,
        has_history: past.is_some(),
        changes: view.latest(past.as_deref(), MOST_CHANGES),
        roles,
        stale_groups: stale_groups.map(|(since, why)| format!("{}: {why}.", lasted(since))),
        groups,
    }
}

/// How an urgency is shown: its sign, and its class in the style.
const fn sign(urgency: Urgency) -> (&'static str, &'static str) {
    match urgency {
        Urgency::Good => ("●", "good"),
        Urgency::Doubtful => ("◌", "doubtful"),
        Urgency::Bad => ("✗", "bad"),
    }
}

fn role(
    role: &str,
    observed: &Observed,
    urgency: Urgency,
    asked: &Asked,
    bucket: usize,
    words: String,
    picture: Picture,
) -> Role {
    let (sign, class) = sign(urgency);
    let state = match urgency {
        Urgency::Bad => "no leader",
        _ => state(observed),
    };
    let leader = match (urgency, observed.unled) {
        (Urgency::Bad, Some(unled)) => {
            format!("{}, {} ago", why_nobody(observed), lasted(unled))
        }
        (Urgency::Bad, None) => why_nobody(observed),
        _ => who(observed),
    };
    let lease = observed
        .remaining
        .zip(observed.ttl)
        .map(|(left, ttl)| Lease {
            percent: (left.as_millis() * 100 / ttl.as_millis().max(1)).min(100),
            text: format!("{} of {}", lasted(left), lasted(ttl)),
        });
    let candidates = asked.reports.iter().filter_map(|one| {
        let says = one.role(role)?;
        let troubles = troubles(says);
        let leads = says.state == Some(RoleState::Leader);
        let name = clean(&one.instance.instance_id);
        let state = says.state.map_or("state not known", RoleState::as_str);
        let words = joined([state].iter().chain(&troubles).copied());
        let (sign, class) = match (troubles.is_empty(), leads) {
            (false, _) => (Some("⚠"), "bad"),
            (true, true) => (Some("●"), "good"),
            (true, false) => (None, ""),
        };
        let text = format!("{name}: {words}");
        Some((!leads, Candidate { sign, class, text }))
    });
    let mut candidates: Vec<_> = candidates.collect();
    candidates.sort_by_key(|(follows, _)| *follows);
    Role {
        id: format!("r{bucket}-{}", clean(role)),
        name: clean(role),
        urgency,
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

fn instance(one: &instances::Candidate) -> Instance {
    let report = one.report.as_ref();
    let roles = || report.iter().flat_map(|report| &report.roles);
    let leads = roles().filter(|(_, says)| says.state == Some(RoleState::Leader));
    let leads = leads.count();
    let follows = roles().count() - leads;
    let told = |count: usize| report.map_or_else(|_| nobody(), |_| count.to_string());
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
        name: clean(&one.instance.to_string()),
        version: clean(&one.instance.version),
        up: report.map_or_else(|_| nobody(), |it| lasted(it.uptime)),
        leads: told(leads),
        follows: told(follows),
        troubles: wrong,
    }
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

/// The marks, and how it is now.
fn with_present(mut marks: Vec<Mark>, seen: &Observed, now_ms: u64) -> Vec<Mark> {
    let leader = seen.leader.as_ref();
    let leader = leader.filter(|_| is_known_alive(seen));
    let leader = leader.map(|leader| leader.instance_id.clone());
    // It may have crashed, which nobody reports; or publish nothing.
    if marks.last().is_none_or(|mark| mark.leader != leader) {
        let since = match leader {
            Some(_) => seen.since,
            None => seen.unled,
        };
        let ago = u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX);
        let at_ms = now_ms.saturating_sub(ago);
        marks.push(Mark { at_ms, leader });
    }
    marks
}

fn nobody() -> String {
    "–".into()
}
