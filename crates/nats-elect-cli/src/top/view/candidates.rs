//! The candidates of the selected role, as they report themselves.

use nats_elect::ConnectionStatus;
use nats_elect::admin::{InstanceReport, RoleReport};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::rule;
use super::words::{fit, fitting, padded};
use crate::text::{clean, lasted};
use crate::top::facts::name;
use crate::top::look::Look;
use crate::top::state::State;

/// What is told of each, and how wide that is.
const COLUMNS: [(&str, usize); 7] = [
    ("INSTANCE", 20),
    ("STATE", 19),
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
    let facts = &state.facts;
    let all = facts.candidates(role);
    let room = most.saturating_sub(2);
    let more = if all.len() > room {
        format!("{room} of {} visible", all.len())
    } else {
        String::new()
    };
    let title = format!("Candidates of {role}");
    let title = fit(&title, width.saturating_sub(8));
    let shown = fitting(&COLUMNS, width.saturating_sub(1));
    let heads = shown.iter().map(|(head, wide)| padded(head, *wide));
    let heads: Vec<_> = heads.collect();
    let mut lines = vec![
        rule(look, width, &title, &more),
        Line::styled(format!("  {}", heads.join(" ")), look.faint()),
    ];
    if all.is_empty() {
        lines.push(Line::styled("  no instance reports the role", look.faint()));
    }
    for (one, says) in all.into_iter().take(room) {
        let mut spans = vec![Span::raw(" ")];
        for ((_, wide), (text, style)) in shown.iter().zip(cells(look, one, says)) {
            let text = fit(&text, *wide);
            spans.push(Span::raw(" "));
            spans.push(Span::styled(padded(&text, *wide), style));
        }
        lines.push(Line::from(spans));
    }
    lines.truncate(most);
    lines
}

/// A cell for each of the columns.
fn cells(look: Look, one: &InstanceReport, says: &RoleReport) -> [(String, Style); 7] {
    let plain = |text: String| (text, Style::new());
    let unknown = || ("–".to_owned(), look.faint());
    let health = match says.healthy {
        Some(true) => plain("healthy".into()),
        Some(false) => ("unhealthy".into(), look.bad()),
        None => unknown(),
    };
    let connection = says.connection.map_or_else(unknown, |status| {
        let style = match status {
            ConnectionStatus::Connected => look.good(),
            ConnectionStatus::Suspended => look.doubtful(),
            ConnectionStatus::Lost => look.bad(),
        };
        (status.to_string(), style)
    });
    [
        plain(name(&one.instance_id)),
        look.state(says),
        plain(says.priority.to_string()),
        health,
        connection,
        plain(lasted(one.uptime)),
        plain(clean(&one.version)),
    ]
}
