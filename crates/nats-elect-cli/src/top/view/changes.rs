//! The latest changes: those that were seen, and those of the history.

use ratatui::text::{Line, Span};

use super::rule;
use super::words::{columns, fit, padded, when};
use crate::top::facts::History;
use crate::top::look::Look;
use crate::top::state::State;

pub fn lines(state: &State, look: Look, width: usize, most: usize) -> Vec<Line<'static>> {
    let facts = &state.facts;
    let mut lines = vec![rule(look, width, "Changes", "latest first")];
    if facts.changes.is_empty() {
        let none = match facts.history {
            History::Since(_) => "  none yet",
            History::Awaited | History::None(_) => "  none since the start",
        };
        lines.push(Line::styled(none, look.faint()));
    }
    let shown = facts.changes.iter().take(most.saturating_sub(1));
    let shown: Vec<_> = shown
        .map(|(at, text)| (when(*at, facts.now), text))
        .collect();
    let widest = shown.iter().map(|(at, _)| columns(at)).max().unwrap_or(0);
    for (at, text) in shown {
        let text = look.plain(text);
        lines.push(Line::from(vec![
            Span::styled(format!("  {}  ", padded(&at, widest)), look.faint()),
            Span::raw(fit(&text, width.saturating_sub(widest + 4), look)),
        ]));
    }
    lines.truncate(most);
    lines
}
