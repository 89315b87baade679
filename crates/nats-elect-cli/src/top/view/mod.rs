//! The screen as lines of text: a state and a size, nothing else, decide what it is.

mod candidates;
mod changes;
mod header;
mod help;
mod matrix;
mod roles;
mod words;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::look::Look;
use super::state::State;
use words::{columns, fit, padded};

/// Lines that are always there: two of the header, two of the roles and one about the selected one,
/// three of the matrix, one of the changes, and the footer.
const FIXED: usize = 10;

/// What there is room for below the roles and the matrix, which have half of the free lines each.
struct Room {
    /// Lines of the changes, and of the candidates beside them, that a screen has even where there
    /// are many roles.
    below: usize,
    /// Whether the candidates of the selected role are shown.
    candidates: bool,
    /// How wide they are, if they are beside the changes and not above them.
    beside: Option<usize>,
}

impl Room {
    const fn of(width: usize, height: usize) -> Self {
        let free = height.saturating_sub(FIXED);
        let candidates = height >= 36;
        Self {
            below: if candidates {
                free / 3
            } else if free / 4 < 4 {
                free / 4
            } else {
                4
            },
            candidates,
            beside: if candidates && width >= 150 {
                Some(width / 2)
            } else {
                None
            },
        }
    }
}

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
        let groups = state.facts().groups();
        let free = height.saturating_sub(FIXED);
        let (groups, taken) = matrix::fitting(state.facts(), &groups, free / 4);
        let (free, height) = (free - taken, height - taken);
        let room = Room::of(width, height);
        let rows = names.len().max(1).min(free.saturating_sub(room.below) / 2);
        // As far as it can be, the selected one is in the middle.
        let first = selected
            .saturating_sub(rows / 2)
            .min(names.len().saturating_sub(rows));
        let shown = &names[first..(first + rows).min(names.len())];
        let name = names.get(selected).copied();
        lines.extend(roles::table(state, look, width, shown, name));
        lines.push(roles::detail(state, look, width, name));
        lines.extend(matrix::table(state, look, width, shown, groups, name));
        // With their titles.
        let left = free.saturating_sub(2 * rows) + 1;
        lines.extend(below(state, look, width, left, &room, name));
    }
    lines.truncate(height.saturating_sub(1));
    lines.resize(height.saturating_sub(1), Line::default());
    if height > 0 {
        lines.push(footer(state, look, width));
    }
    lines
}

/// Changes on a page.
const ON_A_PAGE: usize = 20;

/// Everything at once, for whoever reads it from a file.
pub fn page(state: &State, look: Look, width: usize) -> Vec<Line<'static>> {
    let names = state.roles();
    let mut lines = header::lines(state, look, width);
    lines.extend(roles::table(state, look, width, &names, None));
    let groups = state.facts().groups();
    lines.extend(matrix::table(state, look, width, &names, &groups, None));
    lines.extend(changes::lines(state, look, width, 1 + ON_A_PAGE));
    lines
}

/// The candidates of the selected role, where there is room for them, and the changes.
fn below(
    state: &State,
    look: Look,
    width: usize,
    height: usize,
    room: &Room,
    name: Option<&str>,
) -> Vec<Line<'static>> {
    let Some(name) = name.filter(|_| room.candidates) else {
        return changes::lines(state, look, width, height);
    };
    let Some(left) = room.beside else {
        let mut lines = candidates::lines(state, look, width, height / 2, name);
        let rest = height.saturating_sub(lines.len());
        lines.extend(changes::lines(state, look, width, rest));
        return lines;
    };
    let mut lines = candidates::lines(state, look, left, height, name);
    let right = changes::lines(state, look, width.saturating_sub(left + 1), height);
    lines.resize(lines.len().max(right.len()), Line::default());
    for (line, right) in lines.iter_mut().zip(right) {
        // The style of a line is not that of what is beside it.
        let style = std::mem::take(&mut line.style);
        for span in &mut line.spans {
            span.style = style.patch(span.style);
        }
        line.push_span(" ".repeat((left + 1).saturating_sub(line.width())));
        let spans = right.spans.into_iter();
        line.spans
            .extend(spans.map(|span| Span::styled(span.content, right.style.patch(span.style))));
    }
    lines
}

/// How wide a page is on which nothing is cut off.
pub fn page_width(state: &State) -> usize {
    matrix::width(state).max(110)
}

/// A line across the screen with a title, and something to know of what is below.
fn rule(look: Look, width: usize, title: &str, more: &str) -> Line<'static> {
    let dash = look.sign("─", "-");
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

/// The keys, as many as fit; but always how to get away, and where the others are.
fn footer(state: &State, look: Look, width: usize) -> Line<'static> {
    if state.typing {
        return Line::from(vec![
            Span::styled(format!("  filter: {}", state.filter), look.title()),
            Span::styled(" ", Style::new().add_modifier(Modifier::REVERSED)),
            Span::styled("   Enter keeps it, Esc shows all roles", look.faint()),
        ]);
    }
    let (quit, help) = (("q", "quit"), ("?", "help"));
    let takes = |(key, what): (&str, &str)| 3 + columns(key) + columns(what);
    let mut left = width.saturating_sub(takes(quit) + takes(help));
    let mut keys = vec![quit];
    for other in [
        (look.sign("↑↓", "jk"), "select"),
        (look.sign("←→", "hl"), "instances"),
        ("/", "filter"),
        ("s", "sort"),
        ("f", "freeze"),
    ] {
        if takes(other) <= left {
            left -= takes(other);
            keys.push(other);
        }
    }
    keys.push(help);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let spans = keys.into_iter().flat_map(|(key, what)| {
        [
            Span::styled(format!("  {key}"), bold),
            Span::styled(format!(" {what}"), look.faint()),
        ]
    });
    spans.collect()
}

/// The mark of the selected row, and the role's name.
fn name_of(look: Look, name: &str, width: usize, selected: bool) -> Vec<Span<'static>> {
    let mark = if selected {
        look.sign("▶ ", "> ")
    } else {
        "  "
    };
    let style = if selected { look.title() } else { Style::new() };
    vec![
        Span::styled(mark, look.title()),
        Span::styled(padded(&fit(name, width, look), width), style),
    ]
}

/// How wide the column of role names is.
fn name_width(names: &[&str]) -> usize {
    let longest = names.iter().map(|name| name.chars().count()).max();
    longest.unwrap_or(0).clamp(10, 24)
}
