//! The screen as lines of text: a state and a size, nothing else, decide what it is.

mod candidates;
mod changes;
mod groups;
mod header;
mod help;
mod roles;
mod words;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::look::Look;
use super::state::State;
use words::{fit, padded};

/// Lines that are always there: two of the header, two of the roles and one about the selected one,
/// one of the changes, and the footer.
const FIXED: usize = 7;

/// They fit on forty columns.
const KEYS: [(&str, &str); 4] = [
    ("q", "quit"),
    ("↑↓", "select"),
    ("/", "filter"),
    ("?", "help"),
];

/// Draws the screen.
pub fn draw(frame: &mut Frame<'_>, state: &State, look: Look) {
    let area = frame.area();
    let lines = screen(state, look, area.width.into(), area.height.into());
    for (y, line) in (area.y..area.bottom()).zip(lines) {
        frame.render_widget(line, Rect::new(area.x, y, area.width, 1));
    }
}

/// The screen of this size.
fn screen(state: &State, look: Look, width: usize, height: usize) -> Vec<Line<'static>> {
    let mut lines = header::lines(state, look, width);
    if state.help {
        lines.extend(help::lines(look));
    } else {
        let names = state.roles();
        let selected = state.selected(&names);
        let free = height.saturating_sub(FIXED);
        let groups = groups::lines(state, look, width, free / 4);
        let free = free - groups.len();
        let rows = names.len().max(1).min(free / 2);
        // As far as it can be, the selected one is in the middle.
        let first = selected
            .saturating_sub(rows / 2)
            .min(names.len().saturating_sub(rows));
        let shown = &names[first..(first + rows).min(names.len())];
        let name = names.get(selected).copied();
        lines.extend(roles::table(state, look, width, shown, name));
        lines.push(roles::detail(state, look, width, name));
        lines.extend(groups);
        let free = free.saturating_sub(rows);
        if let Some(name) = name {
            lines.extend(candidates::lines(state, look, width, free * 2 / 3, name));
        }
        let left = height.saturating_sub(1 + lines.len());
        lines.extend(changes::lines(state, look, width, left));
    }
    lines.truncate(height.saturating_sub(1));
    lines.resize(height.saturating_sub(1), Line::default());
    if height > 0 {
        lines.push(footer(state, look));
    }
    lines
}

/// Changes on a page.
const ON_A_PAGE: usize = 20;
/// How wide a page is.
pub const PAGE: usize = 110;

/// Everything at once, for whoever reads it from a file.
pub fn page(state: &State, look: Look, width: usize) -> Vec<Line<'static>> {
    let names = state.roles();
    let mut lines = header::lines(state, look, width);
    lines.extend(roles::table(state, look, width, &names, None));
    lines.extend(groups::lines(state, look, width, usize::MAX));
    for name in names {
        lines.extend(candidates::lines(state, look, width, usize::MAX, name));
    }
    lines.extend(changes::lines(state, look, width, 1 + ON_A_PAGE));
    lines
}

/// A line across the screen with a title, and something to know of what is below.
fn rule(look: Look, width: usize, title: &str, more: &str) -> Line<'static> {
    let dash = "─";
    let more = if more.is_empty() {
        String::new()
    } else {
        format!("{more} ")
    };
    let used = 5 + title.chars().count() + more.chars().count();
    Line::from(vec![
        Span::styled(dash.repeat(2), look.faint()),
        Span::styled(format!(" {title} "), look.title()),
        Span::styled(more, look.faint()),
        Span::styled(dash.repeat(width.saturating_sub(used - 1)), look.faint()),
    ])
}

/// The keys.
fn footer(state: &State, look: Look) -> Line<'static> {
    if state.typing {
        return Line::from(vec![
            Span::styled(format!("  filter: {}", state.filter), look.title()),
            Span::styled(" ", Style::new().add_modifier(Modifier::REVERSED)),
            Span::styled("   Enter keeps it, Esc shows all roles", look.faint()),
        ]);
    }
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let spans = KEYS.into_iter().flat_map(|(key, what)| {
        [
            Span::styled(format!("  {key}"), bold),
            Span::styled(format!(" {what}"), look.faint()),
        ]
    });
    spans.collect()
}

/// The mark of the selected row, and the role's name.
fn name_of(look: Look, name: &str, width: usize, selected: bool) -> Vec<Span<'static>> {
    let mark = if selected { "▶ " } else { "  " };
    let style = if selected { look.title() } else { Style::new() };
    vec![
        Span::styled(mark, look.title()),
        Span::styled(padded(&fit(name, width), width), style),
    ]
}

/// How wide the column of role names is.
fn name_width(names: &[&str]) -> usize {
    let longest = names.iter().map(|name| name.chars().count()).max();
    longest.unwrap_or(0).clamp(10, 24)
}
