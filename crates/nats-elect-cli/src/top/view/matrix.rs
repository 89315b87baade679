//! The matrix of roles and instances, and of groups and instances.

use nats_elect::ConnectionStatus;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::words::{columns, fit, padded};
use super::{name_of, name_width, rule};
use crate::text::lasted;
use crate::top::facts::{Facts, Who};
use crate::top::groups::Owns;
use crate::top::look::Look;
use crate::top::state::State;

/// What is wrong with a group stands below it, as far in.
const INDENT: &str = "    ";

/// The widest state.
const CELL: usize = 16;

pub fn table(
    state: &State,
    look: Look,
    width: usize,
    names: &[&str],
    groups: &[&str],
    selected: Option<&str>,
) -> Vec<Line<'static>> {
    let facts = state.facts();
    let all = facts.columns();
    let left = name_width(names).max(name_width(groups));
    let cell = cell_width(&all);
    let room = width.saturating_sub(left + 2) / (cell + 1);
    let first = state.column.min(all.len().saturating_sub(room));
    let shown = &all[first..(first + room).min(all.len())];
    let mut more = if shown.len() < all.len() {
        format!("{} to {} of {}", first + 1, first + shown.len(), all.len())
    } else {
        String::new()
    };
    let hidden = facts.groups().len() - groups.len();
    if hidden > 0 {
        let gap = if more.is_empty() { "" } else { "; " };
        more = format!("{more}{gap}groups out of sight: {hidden}");
    }
    if let Some(why) = &facts.stale_groups {
        let gap = if more.is_empty() { "" } else { "; " };
        more = format!("{more}{gap}groups not current: {why}");
    }
    let mut heads = vec![Span::raw(" ".repeat(left + 2))];
    let mut connections = vec![Span::styled(padded("  CONNECTION", left + 2), look.faint())];
    let put = |to: &mut Vec<Span<'static>>, text: &str, style: Style| {
        let text = padded(&fit(text, cell, look), cell);
        to.push(Span::raw(" "));
        to.push(Span::styled(text, style));
    };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    for who in shown {
        put(&mut heads, &title(&all, who), bold);
        let (text, style) = connection(facts, look, who);
        put(&mut connections, &text, style);
    }
    let mut lines = vec![
        rule(look, width, "Instances", &more),
        Line::from(heads),
        Line::from(connections),
    ];
    for name in names {
        let mut spans = name_of(look, name, left, selected == Some(*name));
        for who in shown {
            let (text, style) = look.cell(facts.cell(name, who));
            put(&mut spans, &text, style);
        }
        lines.push(Line::from(spans));
    }
    for group in groups {
        let mut spans = name_of(look, group, left, false);
        for who in shown {
            let (text, style) = owns(look, facts.owns(group, who));
            put(&mut spans, &text, style);
        }
        lines.push(Line::from(spans));
        lines.extend(trouble(look, width, facts, group));
    }
    lines
}

/// The first groups that fit into so many lines, and how many lines these take.
pub fn fitting<'a, 'b>(
    facts: &Facts,
    groups: &'b [&'a str],
    room: usize,
) -> (&'b [&'a str], usize) {
    let (mut count, mut taken) = (0, 0);
    for group in groups {
        let lines = 1 + usize::from(facts.trouble(group).is_some());
        if taken + lines > room {
            break;
        }
        (count, taken) = (count + 1, taken + lines);
    }
    (&groups[..count], taken)
}

/// What is wrong with a group.
fn trouble(look: Look, width: usize, facts: &Facts, group: &str) -> Option<Line<'static>> {
    let (text, is_bad) = facts.trouble(group)?;
    let text = fit(&format!("{INDENT}{text}"), width, look);
    let style = if is_bad { look.bad() } else { look.doubtful() };
    Some(Line::styled(text, style))
}

/// The part of a group that an instance owns.
fn owns(look: Look, owns: Option<Owns>) -> (String, Style) {
    let Some(Owns {
        units,
        load,
        takes_units,
        still_running: _,
    }) = owns
    else {
        return (look.sign("·", ".").to_owned(), look.faint());
    };
    let text = match load {
        // Short, for a cell is narrow.
        Some(load) => format!("{units}, load {}", short(load)),
        None => format!("{units} {}", units_of(units)),
    };
    if takes_units {
        (text, Style::new())
    } else {
        // Cordoned, stopping or just started.
        (
            format!("{units} {}, shut", units_of(units)),
            look.doubtful(),
        )
    }
}

const fn units_of(count: usize) -> &'static str {
    if count == 1 { "unit" } else { "units" }
}

/// A number in few digits: `340`, `12k`, `7M`.
fn short(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..10_000_000 => format!("{}k", number / 1000),
        _ => format!("{}M", number / 1_000_000),
    }
}

/// How wide it is with all instances.
pub fn width(state: &State) -> usize {
    let facts = state.facts();
    let all = facts.columns();
    name_width(&state.roles()).max(name_width(&facts.groups()))
        + 2
        + all.len() * (cell_width(&all) + 1)
}

fn cell_width(all: &[Who]) -> usize {
    let longest = all.iter().map(|who| columns(&title(all, who))).max();
    longest.unwrap_or(0).clamp(CELL, 20)
}

/// The id, and what tells two of one id apart.
fn title(all: &[Who], who: &Who) -> String {
    let id = if who.id.is_empty() {
        "(no name)"
    } else {
        &who.id
    };
    let alike = all.iter().filter(|other| other.id == who.id).count();
    match who.incarnation {
        Some(incarnation) if alike > 1 => {
            let incarnation = incarnation.simple().to_string();
            format!("{id} ({})", &incarnation[..4])
        }
        _ => id.to_owned(),
    }
}

fn connection(facts: &Facts, look: Look, who: &Who) -> (String, Style) {
    if let Some(silent) = facts.silent_for(who) {
        return (format!("silent {}", lasted(silent)), look.bad());
    }
    match facts.connection(who) {
        Some(status @ ConnectionStatus::Connected) => (status.to_string(), look.good()),
        Some(status @ ConnectionStatus::Suspended) => (status.to_string(), look.doubtful()),
        Some(status @ ConnectionStatus::Lost) => (status.to_string(), look.bad()),
        None => (look.sign("–", "-").to_owned(), look.faint()),
    }
}
