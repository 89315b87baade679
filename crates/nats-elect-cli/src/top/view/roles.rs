//! The table of roles: who leads, for how long the lease lasts, how often that changed.

use nats_elect::Standing;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::words::{clock, columns, fit, padded, right};
use super::{name_of, name_width, rule};
use crate::fleet::{Role, Seconds};
use crate::text::{clean, lasted, short};
use crate::top::facts::{COUNTED, Facts, History, name as instance};
use crate::top::look::Look;
use crate::top::state::{Sort, State};

/// The remaining time beside its bar, with a blank before it.
const TIME: usize = 8;
/// A shorter bar says nothing.
const SHORTEST_BAR: usize = 4;
/// Of a name as much is shown as there is room, but no less than this beside a number.
const SHORTEST_NAME: usize = 5;

/// What there may be beside role and leader, in the order in which it stands on the screen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Token,
    Lease,
    Changes,
    For,
    Heartbeat,
}

impl Column {
    const ALL: [Self; 5] = [
        Self::Token,
        Self::Lease,
        Self::Changes,
        Self::For,
        Self::Heartbeat,
    ];
    /// Where not all of them fit, the first of these stay. The token is told of the selected role,
    /// too.
    const BY_WORTH: [Self; 5] = [
        Self::Lease,
        Self::Heartbeat,
        Self::For,
        Self::Changes,
        Self::Token,
    ];

    const fn title(self) -> &'static str {
        match self {
            Self::Token => "TOKEN",
            Self::Lease => "LEASE",
            Self::Changes => "CHANGES",
            Self::For => "FOR",
            Self::Heartbeat => "HEARTBEAT",
        }
    }

    const fn width(self) -> usize {
        match self {
            // As `text::short` writes it.
            Self::Token | Self::Heartbeat => 9,
            Self::Lease => TIME,
            Self::For => 8,
            Self::Changes => 7,
        }
    }
}

/// What fits on a line: numbers as a whole or not at all.
struct Widths {
    name: usize,
    leader: usize,
    /// Part of the lease's column; none where there is no room.
    bar: usize,
    columns: Vec<Column>,
}

impl Widths {
    fn new(facts: &Facts, names: &[&str], width: usize) -> Self {
        let seen = || names.iter().map(|name| (*name, &facts.roles[*name]));
        let leader = seen().map(|(name, seen)| columns(&leader(facts, name, seen).0));
        let leader = leader.max().unwrap_or(0).clamp(9, 20);
        // The mark, and a blank before each column but the first.
        let room = width.saturating_sub(2 + 1 + 1 + TIME);
        let (name, leader) = if room < 2 * SHORTEST_NAME {
            (name_width(names), leader)
        } else {
            let name = name_width(names).min(room - SHORTEST_NAME);
            (name, leader.min((room - name).max(SHORTEST_NAME)))
        };
        let mut left = width.saturating_sub(2 + name + 1 + leader);
        let fits = |column: &Column| {
            let fits = left > column.width();
            left -= if fits { 1 + column.width() } else { 0 };
            fits
        };
        let fitting: Vec<_> = Column::BY_WORTH.into_iter().filter(fits).collect();
        let all = fitting.contains(&Column::Token);
        let columns = Column::ALL.into_iter();
        Self {
            name,
            leader,
            bar: if all && left >= SHORTEST_BAR {
                left.min((width / 5).max(24))
            } else {
                0
            },
            columns: columns.filter(|it| fitting.contains(it)).collect(),
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
        more = format!("{more}, {shown} of {all} visible");
    }
    let counted = counted(facts);
    more = format!("{more}; changes {counted}");
    let mut heads = vec![
        padded("  ROLE", widths.name + 2),
        padded("LEADER", widths.leader),
    ];
    for column in &widths.columns {
        heads.push(match column {
            Column::Lease if widths.bar == 0 => right("LEASE", TIME),
            Column::Lease => padded("LEASE", widths.bar + TIME),
            column => right(column.title(), column.width()),
        });
    }
    let mut lines = vec![
        rule(look, width, "Roles", &more),
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

/// From when on changes are counted, and why not from earlier on.
fn counted(facts: &Facts) -> String {
    let from = facts.counted_from();
    let ago = facts.now.duration_since(from).unwrap_or_default();
    match facts.history {
        History::Since(_) if ago >= COUNTED => "of the last 24h".to_owned(),
        History::Since(_) => format!("of the last {}", lasted(ago)),
        History::Awaited => format!("since {}, reading the history", clock(from)),
        History::None(why) => format!("since {}: {why}", clock(from)),
    }
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
    let nothing = || look.sign("–", "-").to_owned();
    for column in &widths.columns {
        let text = match column {
            Column::Token => token(seen, look),
            Column::Lease => {
                spans.push(Span::raw(" "));
                spans.extend(lease(seen, look, widths.bar));
                continue;
            }
            Column::Changes => facts.counts.get(name).unwrap_or(&0).to_string(),
            Column::For => led_for(seen, look).unwrap_or_else(nothing),
            Column::Heartbeat => {
                let says = facts.leader_says(name);
                let heartbeat = says.and_then(|says| says.heartbeat_took);
                heartbeat.map_or_else(nothing, lasted)
            }
        };
        spans.push(Span::raw(format!(" {}", right(&text, column.width()))));
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

fn token(seen: &Role, look: Look) -> String {
    let token = seen
        .fencing_token
        .map_or_else(String::new, |it| short(it.0));
    if look.ascii {
        token.replace('…', "~")
    } else {
        token
    }
}

fn lease(seen: &Role, look: Look, width: usize) -> Vec<Span<'static>> {
    let (Some(Seconds(remaining)), Some(Seconds(ttl)), Some(_)) =
        (seen.remaining_seconds, seen.ttl_seconds, &seen.leader)
    else {
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
    if width == 0 {
        return vec![Span::styled(right(&lasted(remaining), TIME), style)];
    }
    vec![
        Span::styled(look.bar(width, part), style),
        Span::raw(padded(&format!(" {}", lasted(remaining)), TIME)),
    ]
}

/// For how long there has been this leader. A sign tells that it may be longer.
fn led_for(seen: &Role, look: Look) -> Option<String> {
    let led_for = seen.led_for.filter(|_| seen.leader.is_some())?;
    let bound = if seen.since.is_some() {
        ""
    } else {
        look.sign("≥", ">")
    };
    Some(format!("{bound}{}", lasted(led_for)))
}

/// All about the selected role that fits on a line.
pub fn detail(state: &State, look: Look, width: usize, name: Option<&str>) -> Line<'static> {
    let Some(name) = name else {
        return Line::default();
    };
    let seen = &state.facts.roles[name];
    let mut parts = vec![match (&seen.leader, led_for(seen, look)) {
        (Some(leader), Some(since)) => {
            format!(
                "  {name}: led by {} for {since}",
                clean(&leader.instance_id)
            )
        }
        _ => format!("  {name}: {}", seen.standing).replace('_', " "),
    }];
    if let Some(token) = seen.fencing_token {
        parts.push(format!("token {}", token.0));
    }
    if let Some(ttl) = seen.ttl_seconds {
        parts.push(format!("ttl {}", lasted(ttl.0)));
    }
    let mut line = fit(&parts.remove(0), width, look);
    for part in parts {
        let longer = format!("{line}, {part}");
        if columns(&longer) <= width {
            line = longer;
        }
    }
    Line::styled(line, look.faint())
}
