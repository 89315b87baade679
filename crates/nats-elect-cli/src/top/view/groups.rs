//! The groups: what is wrong with them, or that nothing is.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::words::{fit, padded};
use super::{name_of, name_width, rule};
use crate::fleet::Urgency;
use crate::top::look::Look;
use crate::top::state::State;

/// A line for each, as many as there is room for below a title.
pub fn lines(state: &State, look: Look, width: usize, most: usize) -> Vec<Line<'static>> {
    let facts = &state.facts;
    let groups = facts.groups();
    if groups.is_empty() || most < 2 {
        return Vec::new();
    }
    let shown = &groups[..groups.len().min(most - 1)];
    let mut more = match groups.len() - shown.len() {
        0 => String::new(),
        hidden => format!("out of sight: {hidden}"),
    };
    if let Some(why) = &facts.stale_groups {
        let gap = if more.is_empty() { "" } else { "; " };
        more = format!("{more}{gap}not current: {why}");
    }
    let names: Vec<_> = shown.iter().map(|(name, _)| *name).collect();
    let left = name_width(&names);
    let mut lines = vec![rule(look, width, "Groups", &more)];
    for (name, group) in shown {
        let still = match facts.still_running(name) {
            0 => None,
            1 => Some("1 handler still runs of a unit that was given away".to_owned()),
            n => Some(format!(
                "{n} handlers still run of units that were given away"
            )),
        };
        let trouble: Vec<_> = group.trouble().into_iter().chain(still).collect();
        let style = match group.urgency() {
            Urgency::Bad => look.bad(),
            _ if !trouble.is_empty() => look.doubtful(),
            _ => Style::new(),
        };
        let size = format!("{} units, {} members", group.units, group.members);
        let text = format!(" {} {}", padded(&size, 24), trouble.join("; "));
        let mut spans = name_of(look, name, left, false);
        let text = fit(&text, width.saturating_sub(left + 2));
        spans.push(Span::styled(text, style));
        lines.push(Line::from(spans));
    }
    lines
}
