//! The findings, each from the history alone.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use super::{Finding, seconds};
use crate::app::{Role, short};
use crate::clock::Moment;
use crate::demo::fault::{Fault, Kind};
use crate::demo::history::{Event, History, Record, Work};
use crate::demo::screen::list;

pub fn never_overlapped(history: &History) -> Finding {
    let mut spans = 0;
    for role in Role::ALL {
        let work = history.work(role);
        spans += work.len();
        // The one that lasted longest so far is the one that a later one could overlap.
        let mut longest: Option<Work<'_>> = None;
        for work in work {
            if let Some(before) = longest.filter(|before| work.start < before.end) {
                return Err(format!(
                    "{role}: {} began while {} worked on for another {} s",
                    work.instance,
                    before.instance,
                    seconds(before.end.since(work.start))
                ));
            }
            longest = Some(work);
        }
    }
    if spans == 0 {
        return Err("nobody worked".into());
    }
    Ok(format!("{spans} pieces of work"))
}

pub fn tokens_grew(history: &History) -> Finding {
    let mut terms = 0;
    for role in Role::ALL {
        let work = history.work(role);
        for next in work.windows(2) {
            let [before, after] = next else { continue };
            let same = before.pid == after.pid && before.fencing_token == after.fencing_token;
            if !same && after.fencing_token <= before.fencing_token {
                return Err(format!(
                    "{role}: {} after {}",
                    short(after.fencing_token),
                    short(before.fencing_token)
                ));
            }
            terms += usize::from(!same);
        }
        terms += usize::from(!work.is_empty());
    }
    if terms <= Role::ALL.len() {
        return Err(format!("only {terms} terms: nothing to compare"));
    }
    Ok(format!("{terms} terms"))
}

/// Its work was the last before the fault.
pub fn it_led(history: &History, fault: &Fault) -> Finding {
    for role in &fault.roles {
        let work = history.work(*role);
        let last = work.iter().rfind(|work| work.start <= fault.at);
        let Some(last) = last.filter(|last| last.pid == fault.pid) else {
            return Err(format!("not {role}"));
        };
        let ended = history.ended(fault.pid, *role, last.start);
        if ended.is_some_and(|ended| ended < fault.at) {
            return Err(format!("it had lost {role} just before: try a longer ttl"));
        }
    }
    if fault.roles.is_empty() {
        return Err("it led nothing".into());
    }
    Ok(list(&fault.roles))
}

pub fn it_died(history: &History, fault: &Fault) -> Finding {
    let (Some(exit), Some(gone)) = (fault.exit, fault.gone) else {
        return Err("it lives".into());
    };
    if exit.signal() != Some(9) {
        return Err(format!("it ended otherwise: {exit}"));
    }
    if history.of(fault.pid).any(|record| record.at > gone) {
        return Err("it wrote after its death".into());
    }
    if let Some(role) = fault
        .roles
        .iter()
        .find(|role| fault.ended(history, **role).is_some())
    {
        return Err(format!("it had given up {role} before"));
    }
    Ok(format!("{exit}"))
}

pub fn it_stopped_first(history: &History, fault: &Fault) -> Finding {
    let mut margin: Option<Duration> = None;
    for role in &fault.roles {
        let Some(ended) = fault.ended(history, *role) else {
            return Err(format!("it went on leading {role}"));
        };
        let Some(successor) = fault.successor(history, *role) else {
            return Err(format!("nobody else led {role}"));
        };
        let work = history.work(*role);
        let last = work
            .iter()
            .filter(|work| work.pid == fault.pid && work.start < successor.start);
        let last_end = last.map(|work| work.end).max().unwrap_or(ended).max(ended);
        if last_end >= successor.start {
            return Err(format!("{role}: {} was faster", successor.instance));
        }
        let ahead = successor.start.since(last_end);
        margin = Some(margin.map_or(ahead, |margin| margin.min(ahead)));
    }
    Ok(format!(
        "at least {} s before",
        seconds(margin.unwrap_or_default())
    ))
}

pub fn it_left(history: &History, fault: &Fault) -> Finding {
    let Some(exit) = fault.exit else {
        return Err("it did not end".into());
    };
    if !exit.success() {
        return Err(format!("it ended otherwise: {exit}"));
    }
    if let Some(role) = fault
        .roles
        .iter()
        .find(|role| fault.ended(history, **role).is_none())
    {
        return Err(format!("its handler of {role} did not end"));
    }
    let stopped = |record: &Record| matches!(record.event, Event::Stopped);
    if !history.of(fault.pid).any(stopped) {
        return Err("it did not say that it stopped".into());
    }
    Ok(format!("{exit}"))
}

/// Every role that it led has a new leader within the limit, and the others were at work too. After
/// a stop the limit counts from the end of the handler, and is too short for a lease to run out.
pub fn roles_came_back(history: &History, fault: &Fault, limit: Duration) -> Finding {
    let mut longest = Duration::ZERO;
    for role in Role::ALL {
        let work = history.work(role);
        let next = if fault.roles.contains(&role) {
            fault.successor(history, role)
        } else {
            work.iter()
                .copied()
                .find(|work| work.start > fault.at && work.start < fault.until)
        };
        let Some(next) = next else {
            return Err(format!("{role} never did"));
        };
        let from = match fault.kind {
            Kind::Kill | Kind::Cut => fault.at,
            Kind::Stop => fault.ended(history, role).unwrap_or(fault.at),
        };
        longest = longest.max(next.start.since(from));
    }
    let found = format!(
        "within {} s; allowed {} s",
        seconds(longest),
        seconds(limit)
    );
    if longest > limit {
        Err(found)
    } else {
        Ok(found)
    }
}

pub fn it_returned(history: &History, fault: &Fault) -> Finding {
    let Some(pid) = history
        .started(&fault.victim, fault.at)
        .filter(|pid| *pid != fault.pid)
    else {
        return Err("no".into());
    };
    match history.sees_all(pid, &Role::ALL, fault.at) {
        Some(at) => Ok(format!(
            "and followed {} s after its start",
            since(at, fault.undone)
        )),
        None => Err("it does not see who leads".into()),
    }
}

pub fn it_found_back(history: &History, fault: &Fault) -> Finding {
    let Some(restored) = fault.undone else {
        return Err("it was never connected again".into());
    };
    match history.sees_all(fault.pid, &fault.roles, restored) {
        Some(at) => Ok(format!("and followed {} s later", since(at, fault.undone))),
        None => Err("it does not see who leads".into()),
    }
}

fn since(at: Moment, start: Option<Moment>) -> String {
    start.map_or_else(|| "?".to_owned(), |start| seconds(at.since(start)))
}
