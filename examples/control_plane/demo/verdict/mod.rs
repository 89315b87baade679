//! The rules that every history must keep, whatever happened.

mod findings;

use std::time::Duration;

use self::findings::{
    it_died, it_found_back, it_led, it_left, it_returned, it_stopped_first, never_overlapped,
    roles_came_back, tokens_grew,
};
use super::fault::{Fault, Kind};
use super::history::History;
use super::screen::{Style, say};

/// A finding in words: good, or bad.
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

fn seconds(duration: Duration) -> String {
    format!("{:.3}", duration.as_secs_f64())
}
