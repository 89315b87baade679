//! What must be true of the history, whatever happened.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use crate::clock::Moment;
use crate::fault::{Fault, Kind};
use crate::history::{History, Record, What, Work};
use crate::screen::{Style, say};
use crate::work::{Role, short};

/// What was found: in words, and whether it is as it must be.
type Finding = Result<String, String>;

/// Prints the table and returns whether everything holds.
pub fn judge(history: &History, faults: &[Fault], ttl: Duration, style: Style) -> bool {
    let mut sheet = Sheet {
        style,
        all_well: true,
    };
    say(&style.bold("Verdict, from what the instances recorded"));
    sheet.enter(
        "no two instances did a role's work at once",
        never_overlapped(history),
    );
    sheet.enter(
        "fencing tokens grew from term to term",
        tokens_grew(history),
    );
    for kind in [Kind::Kill, Kind::Cut, Kind::Stop] {
        let Some(fault) = faults.iter().find(|fault| fault.kind == kind) else {
            sheet.enter(&format!("{kind:?}"), Err("it never came to that".into()));
            continue;
        };
        let name = format!("{} {}", fault.victim, fault.title());
        sheet.enter(
            &format!("{name}: it led until then"),
            it_led(history, fault),
        );
        let effect = match kind {
            Kind::Kill => ("it died at once", it_died(history, fault)),
            Kind::Cut => (
                "it stopped before others started",
                it_stopped_first(history, fault),
            ),
            Kind::Stop => ("it left in order", it_left(history, fault)),
        };
        sheet.enter(&format!("{name}: {}", effect.0), effect.1);
        let limit = match kind {
            Kind::Kill | Kind::Cut => ttl * 2,
            Kind::Stop => ttl / 2,
        };
        sheet.enter(
            &format!("{name}: every role came back"),
            roles_came_back(history, fault, limit),
        );
        match kind {
            Kind::Kill => sheet.enter(&format!("{name}: it returned"), it_returned(history, fault)),
            Kind::Cut => sheet.enter(
                &format!("{name}: it found back"),
                it_found_back(history, fault),
            ),
            Kind::Stop => {}
        }
    }
    recovery_table(history, faults, ttl, style);
    say(&if sheet.all_well {
        style.good("PASS: one leader at a time, and never without one for longer than it takes")
    } else {
        style.bad("FAIL")
    });
    sheet.all_well
}

struct Sheet {
    style: Style,
    all_well: bool,
}

impl Sheet {
    fn enter(&mut self, what: &str, finding: Finding) {
        let (mark, found) = match finding {
            Ok(found) => (self.style.good("ok  "), found),
            Err(found) => {
                self.all_well = false;
                (self.style.bad("FAIL"), found)
            }
        };
        say(&format!("  {mark}  {what:<50} {found}"));
    }
}

fn recovery_table(history: &History, faults: &[Fault], ttl: Duration, style: Style) {
    say(&style.bold(&format!(
        "Time to recovery: from the fault to the next leader's first work (ttl {} s)",
        seconds(ttl)
    )));
    for fault in faults {
        let roles: Vec<_> = fault
            .roles
            .iter()
            .map(|role| match fault.successor(history, *role) {
                Some(work) => format!("{role} {} s", seconds(work.start.since(fault.at))),
                None => format!("{role} never"),
            })
            .collect();
        say(&format!(
            "  {} {:<8} {}",
            fault.victim,
            fault.title(),
            roles.join("   ")
        ));
    }
}

fn never_overlapped(history: &History) -> Finding {
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

fn tokens_grew(history: &History) -> Finding {
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
fn it_led(history: &History, fault: &Fault) -> Finding {
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
    Ok(fault
        .roles
        .iter()
        .map(|role| role.name())
        .collect::<Vec<_>>()
        .join(", "))
}

fn it_died(history: &History, fault: &Fault) -> Finding {
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

fn it_stopped_first(history: &History, fault: &Fault) -> Finding {
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

fn it_left(history: &History, fault: &Fault) -> Finding {
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
    let stopped = |record: &Record| matches!(record.what, What::Stopped);
    if !history.of(fault.pid).any(stopped) {
        return Err("it did not say that it stopped".into());
    }
    Ok(format!("{exit}"))
}

/// Every role that it led has a new leader within the limit, and the others were at work too. After a stop the limit
/// counts from the end of the handler, and is too short for a lease to run out.
fn roles_came_back(history: &History, fault: &Fault, limit: Duration) -> Finding {
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

fn it_returned(history: &History, fault: &Fault) -> Finding {
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

fn it_found_back(history: &History, fault: &Fault) -> Finding {
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

fn seconds(duration: Duration) -> String {
    format!("{:.3}", duration.as_secs_f64())
}
