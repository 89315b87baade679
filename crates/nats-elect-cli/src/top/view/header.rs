//! What is looked at, and what it is worth.

use ratatui::text::{Line, Span};

use super::words::{columns, fit, when};
use crate::text::{counted, lasted};
use crate::top::facts::Facts;
use crate::top::look::Look;
use crate::top::state::State;

pub fn lines(state: &State, look: Look, width: usize) -> Vec<Line<'static>> {
    let facts = &state.facts;
    let what = format!("  bucket {} at {}", facts.bucket, facts.server);
    let title = " nats-elect top";
    let mut time = format!(" {} UTC ", when(facts.now_ms, facts.now_ms));
    if title.len() + time.len() > width {
        time.clear();
    }
    let room = width.saturating_sub(title.len() + time.len());
    let what = fit(&what, room);
    let gap = room.saturating_sub(columns(&what));
    let first = Line::from(vec![
        Span::styled(title, look.title()),
        Span::raw(what),
        Span::raw(" ".repeat(gap)),
        Span::styled(time, look.faint()),
    ]);

    let mut second = vec![Span::raw(" ")];
    match &facts.stale {
        None => second.push(Span::styled("view current", look.good())),
        Some((since, why)) => {
            let text = format!("view STALE for {}: {why}", lasted(*since));
            second.push(Span::styled(text, look.bad()));
        }
    }
    let (text, style) = match &facts.reports {
        None => ("asking instances".to_owned(), look.faint()),
        Some(Ok(answers)) => {
            let answer = match answers.len() {
                1 => "1 instance answers".to_owned(),
                n => format!("{n} instances answer"),
            };
            if facts.silent == 0 {
                (answer, look.good())
            } else {
                (
                    format!("{answer}, {} silent", facts.silent),
                    look.doubtful(),
                )
            }
        }
        Some(Err(_)) if facts.stale.is_some() => ("no instances".to_owned(), look.doubtful()),
        Some(Err(why)) => (
            format!("no reports from instances: {why}; showing only the bucket"),
            look.doubtful(),
        ),
    };
    let answers = Span::styled(text, style);
    let roles = facts.roles.len();
    let roles = Span::raw(format!("   {}", counted(roles, "role")));
    let mut left = width.saturating_sub(second.iter().map(Span::width).sum());
    if let Some(unowned) = unowned(facts).filter(|it| it.chars().count() <= left) {
        left -= unowned.chars().count();
        second.push(Span::styled(unowned, look.bad()));
    }
    if roles.width() + 3 + answers.width() <= left {
        left -= roles.width();
        second.push(roles);
    }
    // Words may be cut off, but not the number that they begin with.
    if left > 16 {
        let text = fit(&answers.content, left - 3);
        second.push(Span::styled(format!("   {text}"), answers.style));
    }
    vec![first, Line::from(second)]
}

/// How many units have no owner, if any has none. Those of new groups are to have none yet.
fn unowned(facts: &Facts) -> Option<String> {
    let groups = facts.groups.values();
    let unowned: usize = groups.map(|it| it.unowned).sum();
    (unowned > 0).then(|| format!("   units without an owner: {unowned}"))
}
