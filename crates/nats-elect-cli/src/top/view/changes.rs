//! The latest changes: those that were seen, and those of the history.

use ratatui::text::{Line, Span};

use super::rule;
use super::words::{columns, fit, padded, when};
use crate::top::look::Look;
use crate::top::state::State;

pub fn lines(state: &State, look: Look, width: usize, most: usize) -> Vec<Line<'static>> {
    let facts = &state.facts;
    let more = match facts.no_history {
        None => "latest first".to_owned(),
        Some(why) => format!("latest first; since the start: {why}"),
    };
    let mut lines = vec![rule(look, width, "Changes", &more)];
    if facts.changes.is_empty() {
        let none = match facts.no_history {
            None => "  none yet",
            Some(_) => "  none since the start",
        };
        lines.push(Line::styled(none, look.faint()));
    }
    let shown = facts.changes.iter().take(most.saturating_sub(1));
    let shown: Vec<_> = shown
        .map(|(at, text)| (when(*at, facts.now_ms), text))
        .collect();
    let widest = shown.iter().map(|(at, _)| columns(at)).max().unwrap_or(0);
    for (at, text) in shown {
        lines.push(Line::from(vec![
            Span::styled(format!("  {}  ", padded(&at, widest)), look.faint()),
            Span::raw(fit(text, width.saturating_sub(widest + 4))),
        ]));
    }
    lines.truncate(most);
    lines
}
