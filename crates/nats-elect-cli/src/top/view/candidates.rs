//! The candidates of the selected role, as they report themselves.

use nats_elect::ConnectionStatus;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::rule;
use super::words::{columns, fit, padded};
use crate::text::lasted;
use crate::top::facts::{Facts, Instance};
use crate::top::look::Look;
use crate::top::state::State;

/// What is told of each, and how wide that is: as many as fit, from the left.
const COLUMNS: [(&str, usize); 7] = [
    ("INSTANCE", 20),
    ("STATE", 16),
    ("PRIORITY", 8),
    ("HEALTH", 9),
    ("NATS", 10),
    ("UP", 8),
    ("VERSION", 12),
];

pub fn lines(
    state: &State,
    look: Look,
    width: usize,
    most: usize,
    role: &str,
) -> Vec<Line<'static>> {
    let facts = state.facts();
    let all = facts.candidates(role);
    let room = most.saturating_sub(2);
    let more = if all.len() > room {
        format!("{room} of {} visible", all.len())
    } else {
        String::new()
    };
    let title = format!("Candidates of {role}");
    let title = fit(&title, width.saturating_sub(8), look);
    let mut used = 2;
    let shown: Vec<_> = COLUMNS
        .iter()
        .take_while(|(_, wide)| {
            used += wide + 1;
            used <= width + 1
        })
        .collect();
    let heads = shown.iter().map(|(head, wide)| padded(head, *wide));
    let heads: Vec<_> = heads.collect();
    let mut lines = vec![
        rule(look, width, &title, &more),
        Line::styled(format!("  {}", heads.join(" ")), look.faint()),
    ];
    if all.is_empty() {
        lines.push(Line::styled("  no instance reports the role", look.faint()));
    }
    for one in all.into_iter().take(room) {
        let mut spans = vec![Span::raw(" ")];
        for ((_, wide), (text, style)) in shown.iter().zip(cells(facts, look, one, role)) {
            let text = fit(&text, *wide, look);
            spans.push(Span::raw(" "));
            let blanks = " ".repeat(wide.saturating_sub(columns(&text)));
            spans.push(Span::styled(text + &blanks, style));
        }
        lines.push(Line::from(spans));
    }
    lines.truncate(most);
    lines
}

/// A cell for each of the columns.
fn cells(facts: &Facts, look: Look, one: &Instance, role: &str) -> [(String, Style); 7] {
    let plain = |text: String| (text, Style::new());
    let unknown = || (look.sign("–", "-").to_owned(), look.faint());
    let id = if one.who.id.is_empty() {
        "(no name)"
    } else {
        &one.who.id
    };
    let state = look.cell(facts.cell(role, &one.who));
    let says = one.report.roles.get(role);
    let Some(says) = says.filter(|_| one.silent_since.is_none()) else {
        let [a, b, c, d] = std::array::from_fn(|_| unknown());
        let version = plain(one.report.version.clone());
        return [plain(id.to_owned()), state, a, b, c, d, version];
    };
    let health = match says.healthy {
        Some(true) => plain("healthy".into()),
        Some(false) => ("unhealthy".into(), look.bad()),
        None => unknown(),
    };
    let connection = match says.connection {
        Some(status @ ConnectionStatus::Connected) => (status.to_string(), look.good()),
        Some(status @ ConnectionStatus::Suspended) => (status.to_string(), look.doubtful()),
        Some(status @ ConnectionStatus::Lost) => (status.to_string(), look.bad()),
        None => unknown(),
    };
    [
        plain(id.to_owned()),
        state,
        plain(says.priority.to_string()),
        health,
        connection,
        plain(lasted(one.report.uptime)),
        plain(one.report.version.clone()),
    ]
}
