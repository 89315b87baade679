//! The table of roles: who leads, for how long the lease lasts, how often that changed.

use nats_elect::Standing;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::words::{columns, fit, padded, right, took};
use super::{name_of, name_width, rule};
use crate::text::{lasted, short};
use crate::top::facts::{Facts, Seen};
use crate::top::look::Look;
use crate::top::state::{Sort, State};

/// The remaining time beside its bar.
const TIME: usize = 7;
/// As `text::short` writes it.
const TOKEN: usize = 9;
const CHANGES: usize = 7;
const LAST: usize = 8;
const HEARTBEAT: usize = 9;

struct Widths {
    name: usize,
    leader: usize,
    bar: usize,
}

impl Widths {
    fn new(facts: &Facts, names: &[&str], width: usize) -> Self {
        let seen = || names.iter().map(|name| (*name, &facts.roles[*name]));
        let name = name_width(names);
        let leader = seen().map(|(name, seen)| columns(&leader(facts, name, seen).0));
        let leader = leader.max().unwrap_or(0).clamp(9, 20);
        // The mark, and a blank between each two columns.
        let used = 2 + name + leader + TOKEN + TIME + CHANGES + LAST + HEARTBEAT + 7;
        let bar = width.saturating_sub(used).clamp(4, 24);
        Self { name, leader, bar }
    }
}

pub fn table(
    state: &State,
    look: Look,
    width: usize,
    names: &[&str],
    selected: Option<&str>,
) -> Vec<Line<'static>> {
    let facts = state.facts();
    let widths = Widths::new(facts, names, width);
    let mut more = match state.sort {
        Sort::Name => "by name".to_owned(),
        Sort::Leader => "by leader".to_owned(),
        Sort::Lease => "by remaining lease".to_owned(),
        Sort::Change => "by latest change".to_owned(),
    };
    if !state.filter.is_empty() {
        more = format!("{more}, with {:?}", state.filter);
    }
    let (shown, all) = (names.len(), state.roles().len());
    if shown < all {
        more = format!("{more}, {shown} of {all} in sight");
    }
    let heads = [
        padded("  ROLE", widths.name + 2),
        padded("LEADER", widths.leader),
        right("TOKEN", TOKEN),
        padded("LEASE", widths.bar + TIME),
        right("CHANGES", CHANGES),
        right("LAST", LAST),
        right("HEARTBEAT", HEARTBEAT),
    ];
    let mut lines = vec![
        rule(look, width, "Roles", &more),
        Line::styled(heads.join(" "), look.faint()),
    ];
    if names.is_empty() {
        let what = if facts.roles.is_empty() {
            "  no roles in this bucket"
        } else {
            "  no role passes the filter: Esc shows everything"
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
    let who = fit(&who, widths.leader, look);
    spans.push(Span::styled(
        format!(" {}", padded(&who, widths.leader)),
        style,
    ));
    spans.push(Span::raw(format!(" {} ", right(&token(seen, look), TOKEN))));
    spans.extend(lease(seen, look, widths.bar));
    let past = facts.past.get(name);
    let transitions = past.map_or(0, |past| past.transitions);
    let last = past.and_then(|past| past.last).map_or_else(
        || look.sign("–", "-").to_owned(),
        |at| lasted(facts.now.since_start.saturating_sub(at)),
    );
    let heartbeat = facts.leader_says(name).and_then(|says| says.heartbeat_took);
    let heartbeat = heartbeat.map_or_else(|| look.sign("–", "-").to_owned(), took);
    spans.push(Span::raw(format!(
        " {} {} {}",
        right(&transitions.to_string(), CHANGES),
        right(&last, LAST),
        right(&heartbeat, HEARTBEAT),
    )));
    Line::from(spans)
}

/// Who leads, or how the role stands; and whether that is certain.
fn leader(facts: &Facts, name: &str, seen: &Seen) -> (String, bool) {
    let Some(leader) = &seen.leader else {
        return (format!("({})", seen.standing).replace('_', " "), true);
    };
    let id = if leader.id.is_empty() {
        "(no name)"
    } else {
        &leader.id
    };
    if seen.confirmed || facts.leader_says(name).is_some() {
        (id.to_owned(), true)
    } else {
        (format!("{id}?"), false)
    }
}

fn token(seen: &Seen, look: Look) -> String {
    let token = seen.token.map_or_else(String::new, short);
    if look.ascii {
        token.replace('…', "~")
    } else {
        token
    }
}

fn lease(seen: &Seen, look: Look, width: usize) -> Vec<Span<'static>> {
    let (Some(remaining), Some(ttl), Some(_)) = (seen.remaining, seen.ttl, &seen.leader) else {
        return vec![Span::raw(" ".repeat(width + TIME))];
    };
    let part = if ttl.is_zero() {
        0.0
    } else {
        remaining.as_secs_f64() / ttl.as_secs_f64()
    };
    let style = if part > 0.5 {
        look.good()
    } else if part > 0.25 {
        look.doubtful()
    } else {
        look.bad()
    };
    vec![
        Span::styled(look.bar(width, part), style),
        Span::raw(padded(&format!(" {}", lasted(remaining)), TIME)),
    ]
}

/// All about the selected role, on a line.
pub fn detail(state: &State, look: Look, width: usize, name: Option<&str>) -> Line<'static> {
    let Some(name) = name else {
        return Line::default();
    };
    let seen = &state.facts().roles[name];
    let mut parts = vec![match (&seen.leader, seen.since) {
        (Some(leader), Some(since)) => {
            format!("  {name}: led by {} for {}", leader.id, lasted(since))
        }
        _ => format!("  {name}: {}", seen.standing).replace('_', " "),
    }];
    if let Some(token) = seen.token {
        parts.push(format!("token {}", token.to_sortable()));
    }
    if let Some(ttl) = seen.ttl {
        parts.push(format!("ttl {}", lasted(ttl)));
    }
    Line::styled(fit(&parts.join(", "), width, look), look.faint())
}
