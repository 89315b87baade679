//! The table of roles: who leads, and for how long the lease lasts.

use std::time::Duration;

use nats_elect::Standing;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::words::{columns, fit, fitting, padded, right};
use super::{name_of, name_width, rule};
use crate::fleet::{Role, Seconds};
use crate::text::{bar, clean, lasted, short};
use crate::top::facts::{Facts, name as instance};
use crate::top::look::Look;
use crate::top::state::State;

/// A shorter bar says nothing.
const SHORTEST_BAR: usize = 4;
/// Of a name as much is shown as there is room, but no less than this beside a number.
const SHORTEST_NAME: usize = 5;

/// What is told of each beside role and leader, and how wide that is. The token is told of the
/// selected role, too.
const COLUMNS: [(&str, usize); 4] = [("LEASE", 8), ("FOR", 8), ("HEARTBEAT", 9), ("TOKEN", 9)];

/// What fits on a line: numbers as a whole or not at all.
struct Widths {
    name: usize,
    leader: usize,
    /// How much of the lease is left; none where there is no room.
    bar: usize,
    columns: &'static [(&'static str, usize)],
}

impl Widths {
    fn new(facts: &Facts, names: &[&str], width: usize) -> Self {
        let seen = || names.iter().map(|name| (*name, &facts.roles[*name]));
        let leader = seen().map(|(name, seen)| columns(&leader(facts, name, seen).0));
        let leader = leader.max().unwrap_or(0).clamp(9, 20);
        // The mark, and a blank before each column but the first.
        let room = width.saturating_sub(2 + 1 + 1 + COLUMNS[0].1);
        let (name, leader) = if room < 2 * SHORTEST_NAME {
            (name_width(names), leader)
        } else {
            let name = name_width(names).min(room - SHORTEST_NAME);
            (name, leader.min((room - name).max(SHORTEST_NAME)))
        };
        let left = width.saturating_sub(2 + name + 1 + leader);
        let columns = fitting(&COLUMNS, left);
        let used: usize = COLUMNS.iter().map(|(_, wide)| wide + 1).sum();
        let bar = left.saturating_sub(used + 1).min((width / 5).max(24));
        Self {
            name,
            leader,
            bar: if bar < SHORTEST_BAR { 0 } else { bar },
            columns,
        }
    }
}

pub fn table(
    state: &State,
    look: Look,
    width: usize,
    names: &[&str],
    selected: Option<&str>,
) -> Vec<Line<'static>> {
    let facts = &state.facts;
    let widths = Widths::new(facts, names, width);
    let mut more = String::new();
    if !state.filter.is_empty() {
        more = format!("with {:?} ", state.filter);
    }
    let (shown, all) = (names.len(), state.roles().len());
    if shown < all {
        more = format!("{more}{shown} of {all} visible");
    }
    let mut heads = vec![
        padded("  ROLE", widths.name + 2),
        padded("LEADER", widths.leader),
    ];
    heads.extend((widths.bar > 0).then(|| " ".repeat(widths.bar)));
    heads.extend(widths.columns.iter().map(|(head, wide)| right(head, *wide)));
    let mut lines = vec![
        rule(look, width, "Roles", more.trim_end()),
        Line::styled(heads.join(" "), look.faint()),
    ];
    if names.is_empty() {
        let what = if facts.roles.is_empty() {
            "  no roles in this bucket"
        } else {
            "  no role matches the filter: Esc shows all roles"
        };
        lines.push(Line::styled(what, look.doubtful()));
    }
    for name in names {
        lines.push(row(facts, look, &widths, name, selected == Some(*name)));
    }
    lines
}

fn row(facts: &Facts, look: Look, widths: &Widths, name: &str, selected: bool) -> Line<'static> {
    let seen = &facts.roles[name];
    let mut spans = name_of(look, name, widths.name, selected);
    let (who, certain) = leader(facts, name, seen);
    let style = match (seen.standing, certain) {
        (Standing::Led, true) => Style::new(),
        (Standing::Led, false) => look.doubtful(),
        _ => look.bad(),
    };
    let who = padded(&fit(&who, widths.leader), widths.leader);
    spans.push(Span::styled(format!(" {who}"), style));
    let (lease, style) = lease(seen, look);
    if widths.bar > 0 {
        let none = || " ".repeat(widths.bar);
        let bar = lease.map_or_else(none, |(left, ttl)| bar(left, ttl, widths.bar));
        spans.push(Span::styled(format!(" {bar}"), style));
    }
    let heartbeat = facts.leader_says(name).and_then(|says| says.heartbeat_took);
    let cells = [
        lease.map(|(left, _)| lasted(left)),
        led_for(seen),
        heartbeat.map(lasted),
        seen.fencing_token.map(|it| short(it.0)),
    ];
    for ((_, wide), cell) in widths.columns.iter().zip(cells) {
        let cell = cell.as_deref().unwrap_or("–");
        spans.push(Span::raw(format!(" {}", right(cell, *wide))));
    }
    Line::from(spans)
}

/// Who leads, or how the role stands; and whether that is certain.
fn leader(facts: &Facts, name: &str, seen: &Role) -> (String, bool) {
    let Some(leader) = &seen.leader else {
        return (format!("({})", seen.standing).replace('_', " "), true);
    };
    let id = instance(&leader.instance_id);
    if seen.confirmed || facts.leader_says(name).is_some() {
        (id, true)
    } else {
        (format!("{id}?"), false)
    }
}

/// How much is left of the lease, and how long it is, if somebody leads.
fn lease(seen: &Role, look: Look) -> (Option<(Duration, Duration)>, Style) {
    let (Some(Seconds(left)), Some(Seconds(ttl)), Some(_)) =
        (seen.remaining_seconds, seen.ttl_seconds, &seen.leader)
    else {
        return (None, Style::new());
    };
    let style = if left > ttl / 2 {
        look.good()
    } else if left > ttl / 4 {
        look.doubtful()
    } else {
        look.bad()
    };
    (Some((left, ttl)), style)
}

/// For how long there has been this leader. A sign tells that it may be longer.
fn led_for(seen: &Role) -> Option<String> {
    let led_for = seen.led_for.filter(|_| seen.leader.is_some())?;
    let bound = if seen.since.is_some() { "" } else { "≥" };
    Some(format!("{bound}{}", lasted(led_for)))
}

/// All about the selected role that fits on a line.
pub fn detail(state: &State, look: Look, width: usize, name: Option<&str>) -> Line<'static> {
    let Some(name) = name else {
        return Line::default();
    };
    let seen = &state.facts.roles[name];
    let mut parts = vec![match (&seen.leader, led_for(seen)) {
        (Some(leader), Some(since)) => {
            let leader = clean(&leader.instance_id);
            format!("  {name}: led by {leader} for {since}")
        }
        _ => format!("  {name}: {}", seen.standing).replace('_', " "),
    }];
    if let Some(token) = seen.fencing_token {
        parts.push(format!("token {}", token.0));
    }
    if let Some(ttl) = seen.ttl_seconds {
        parts.push(format!("ttl {}", lasted(ttl.0)));
    }
    let mut line = fit(&parts.remove(0), width);
    for part in parts {
        let longer = format!("{line}, {part}");
        if columns(&longer) <= width {
            line = longer;
        }
    }
    Line::styled(line, look.faint())
}
