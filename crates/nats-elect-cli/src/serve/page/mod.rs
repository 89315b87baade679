//! The page: a table that works without script, and a script that keeps it up to date. Templates
//! escape all names.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse, Response};
use nats_elect::admin::{InstanceReport, RoleReport};
use nats_elect::{LeaderEvent, RoleState};

use super::problem::Problem;
use super::timeline::{self, Mark, Span};
use super::view::{Asked, View};
use super::{Served, now};
use crate::asking::Report;
use crate::past_event::PastEvent;
use crate::seen::{Seen, is_known_alive, name, state, why_changed};
use crate::text::{clean, lasted, short, stamp, stamp_of, wall_clock};

/// The time that the timeline shows.
const HOURS: u64 = 6;
/// Changes that are listed.
const MOST_CHANGES: usize = 50;

#[derive(Template)]
#[template(path = "page.html")]
struct Page {
    title: String,
    now: String,
    from: String,
    hours: u64,
    views: Vec<Bucket>,
}

struct Bucket {
    name: String,
    stale: Option<String>,
    roles: Vec<Role>,
    instances: Vec<Instance>,
    /// How long ago the instances were asked.
    asked: Option<String>,
    problem: Option<String>,
    has_history: bool,
    changes: Vec<Change>,
}

struct Role {
    name: String,
    state: &'static str,
    sign: &'static str,
    class: &'static str,
    leader: String,
    leads_for: String,
    lease: Option<Lease>,
    token: String,
    short_token: String,
    candidates: Vec<String>,
    words: String,
    spans: Vec<Bar>,
}

struct Lease {
    permille: u128,
    text: String,
}

struct Bar {
    x: u64,
    width: u64,
    is_even: bool,
    title: String,
}

struct Instance {
    name: String,
    version: String,
    up: String,
    problem: Option<String>,
    roles: Vec<String>,
}

struct Change {
    at: String,
    role: String,
    who: String,
    what: String,
}

/// `/`.
pub async fn page(State(served): State<Served>) -> Response {
    let now_ms = now_ms();
    let from_ms = now_ms.saturating_sub(HOURS * 60 * 60 * 1000);
    let views: Vec<_> = served
        .views
        .iter()
        .map(|view| bucket(view, from_ms, now_ms))
        .collect();
    let names: Vec<_> = views.iter().map(|view| &*view.name).collect();
    let page = Page {
        title: format!("Leaders of {}", names.join(", ")),
        now: stamp_of(now_ms - now_ms % 1000).replacen(".000Z", "Z", 1),
        from: stamp_of(from_ms - from_ms % 1000).replacen(".000Z", "Z", 1),
        hours: HOURS,
        views,
    };
    match page.render() {
        Ok(page) => Html(page).into_response(),
        Err(error) => Problem::unavailable(error.to_string()).into_response(),
    }
}

/// What the page is made of besides.
pub async fn asset(Path(file): Path<String>) -> Response {
    let (kind, content) = match &*file {
        "style.css" => ("text/css; charset=utf-8", include_str!("style.css")),
        "script.js" => ("text/javascript; charset=utf-8", include_str!("script.js")),
        "icon.svg" => ("image/svg+xml", include_str!("icon.svg")),
        _ => return Problem::not_found("there is nothing at this path").into_response(),
    };
    ([(CONTENT_TYPE, kind)], content).into_response()
}

fn bucket(view: &View, from_ms: u64, now_ms: u64) -> Bucket {
    let stale = view.freshness().stale;
    let past = view.history(None).ok();
    let roles = view.roles().into_values();
    let roles = roles.map(|seen| {
        let marks = marks(view, &seen, past.as_deref(), now_ms);
        let spans = timeline::spans(&marks, from_ms, now_ms);
        view.asked(|asked| role(&seen, asked, &spans, now_ms))
    });
    let roles = roles.collect();
    let changes = match &past {
        Some(past) => past.iter().rev().take(MOST_CHANGES).map(told).collect(),
        None => view.changes(|changes| {
            let changes = changes.iter().rev().take(MOST_CHANGES);
            let seen = changes.map(|change| Change {
                at: stamp(change.at),
                role: clean(&change.role),
                who: change
                    .to
                    .as_ref()
                    .map_or_else(nobody, |to| clean(&name(to))),
                what: why_changed(change).to_owned(),
            });
            seen.collect()
        }),
    };
    view.asked(|asked| Bucket {
        name: view.bucket.clone(),
        stale: stale.map(|(since, why)| format!("for {}, {why}", lasted(since))),
        roles,
        instances: asked.reports.iter().map(instance).collect(),
        asked: asked.at.map(|(at, _)| lasted(now().duration_since(at))),
        problem: asked.problem.clone(),
        has_history: past.is_some(),
        changes,
    })
}

fn role(seen: &Seen, asked: &Asked, spans: &[Span], now_ms: u64) -> Role {
    let observed = &seen.observed;
    let state = state(observed);
    let (sign, class) = match state {
        "confirmed" if is_known_alive(observed) => ("●", "good"),
        "confirmed" | "unconfirmed" => ("◌", "doubtful"),
        _ => ("✗", "bad"),
    };
    let led_since = seen.since.filter(|_| observed.leader.is_some());
    let led_for = led_since.map(|since| wall_clock().duration_since(since).unwrap_or_default());
    let lease = observed
        .remaining
        .zip(observed.ttl)
        .map(|(left, ttl)| Lease {
            permille: (left.as_millis() * 1000 / ttl.as_millis().max(1)).min(1000),
            text: format!("{} of {}", lasted(left), lasted(ttl)),
        });
    let candidates = asked.reports.iter().filter_map(|(instance, report)| {
        let says = report.as_ref().ok()?.roles.get(&seen.role)?;
        Some(format!(
            "{}: {}",
            clean(&instance.instance_id),
            standing(says)
        ))
    });
    let bar = |span: &Span| Bar {
        x: span.x,
        width: span.width,
        is_even: span.is_even,
        title: format!(
            "{} led from {} to {}",
            clean(&span.leader),
            stamp_of(span.from_ms),
            stamp_of(span.to_ms)
        ),
    };
    Role {
        name: clean(&seen.role),
        state,
        sign,
        class,
        leader: clean(&seen.who()),
        leads_for: led_for.map_or_else(nobody, lasted),
        lease,
        token: observed
            .fencing_token
            .map_or_else(nobody, |it| it.to_string()),
        short_token: observed.fencing_token.map_or_else(nobody, short),
        candidates: candidates.collect(),
        words: clean(&timeline::words(spans, now_ms)),
        spans: spans.iter().map(bar).collect(),
    }
}

fn instance((instance, report): &Report) -> Instance {
    let up = |report: &InstanceReport| lasted(report.uptime);
    let roles = |roles: &BTreeMap<String, RoleReport>| {
        let roles = roles.iter();
        roles
            .map(|(role, says)| format!("{}: {}", clean(role), standing(says)))
            .collect()
    };
    let trouble = match report {
        Ok(report) => report.trouble.as_deref().map(clean),
        Err(error) => Some(clean(&error.to_string())),
    };
    Instance {
        name: clean(&instance.to_string()),
        version: clean(&instance.version),
        up: report.as_ref().map_or_else(|_| nobody(), up),
        problem: trouble,
        roles: report
            .as_ref()
            .map_or_else(|_| Vec::new(), |it| roles(&it.roles)),
    }
}

/// How an instance stands in a role, in words.
fn standing(says: &RoleReport) -> String {
    let mut words = vec![says.state.map_or("state not known", RoleState::as_str)];
    words.extend(says.paused.then_some("paused"));
    words.push(match says.healthy {
        Some(true) => "healthy",
        Some(false) => "unhealthy",
        None => "health not known",
    });
    words.push(
        says.connection
            .map_or("connection not known", |it| it.as_str()),
    );
    words.join(", ")
}

/// When the leader of a role changed: from the history, else as it was seen.
fn marks(view: &View, seen: &Seen, past: Option<&[PastEvent]>, now_ms: u64) -> Vec<Mark> {
    let mut marks = match past {
        Some(past) => {
            let events = past.iter().map(|one| &one.event);
            let is_meant = |event: &&LeaderEvent| event.role == seen.role;
            timeline::of_history(events.filter(is_meant))
        }
        None => view.changes(|changes| {
            let changes = changes.iter();
            timeline::of_changes(changes.filter(|change| change.role == seen.role))
        }),
    };
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
            None => view.past(&seen.role).unled,
        };
        let at_ms = ago(since.unwrap_or_default());
        marks.push(Mark {
            at_ms,
            leader: leads,
        });
    }
    marks
}

fn told(one: &PastEvent) -> Change {
    let gap = one.gap.map(|gap| format!(", nobody led for {gap}"));
    Change {
        at: stamp_of(one.event.at_ms),
        role: clean(&one.event.role),
        who: clean(&one.event.instance_id),
        what: clean(&(one.what() + &gap.unwrap_or_default())),
    }
}

fn nobody() -> String {
    "–".into()
}

fn now_ms() -> u64 {
    let now = wall_clock().duration_since(std::time::SystemTime::UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}
