//! What must hold of a script, judged from what the processes wrote down.

mod table;

use std::fmt;
use std::time::Duration;

use crate::ownership::Ownership;
use crate::{Fault, Moment};

pub use table::Lengths;

/// All that is known of a run.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Who owned what.
    pub ownership: Ownership,
    /// How long an instance's lease lasts.
    pub ttl: Duration,
    /// What was done to the instances.
    pub faults: Vec<Fault>,
    /// Processes that did not end as they should.
    pub bad_ends: Vec<String>,
    /// When it began.
    pub began: Moment,
    /// When the first scene began.
    pub opening: Moment,
    /// When all instances were asked to end. From then on nothing needs an owner.
    pub closing: Moment,
    /// When all of them had ended.
    pub ended: Moment,
}

/// A time in which a unit had no owner.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// The number of the unit.
    pub unit: u32,
    /// When the term before ended.
    pub from: Moment,
    /// When the next owner's handler began. `None` if there was none.
    pub until: Option<Moment>,
    /// When it was allowed to begin at the latest.
    allowed: Moment,
    /// What ended the term before, by its number.
    fault: Option<usize>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Whether something holds, and what there is to say of it.
    pub findings: Vec<(bool, String)>,
    /// Text for people.
    pub table: Vec<String>,
    /// The times in which units had no owner.
    pub gaps: Vec<Gap>,
}

impl Verdict {
    /// Judges what every run has.
    pub fn on(evidence: &Evidence) -> Self {
        let gaps = gaps(evidence);
        let mut verdict = Self {
            table: table::table(evidence, &gaps),
            ..Self::default()
        };
        verdict.enter("one owner at a time", never_overlapped(&evidence.ownership));
        verdict.enter("tokens grew", tokens_grew(&evidence.ownership));
        verdict.enter("owned again in time", in_time(evidence, &gaps));
        let ends = none_of(&evidence.bad_ends);
        let ends = ends.map(|()| "all processes that were asked to end did so".to_owned());
        verdict.enter("graceful ends", ends);
        verdict.gaps = gaps;
        verdict
    }

    /// Whether all holds.
    pub fn holds(&self) -> bool {
        self.findings.iter().all(|(holds, _)| *holds)
    }

    /// Adds a finding: what is to be said of it if it holds, and what if it does not.
    pub fn enter(&mut self, what: &str, found: Result<String, String>) {
        let holds = found.is_ok();
        let text = found.unwrap_or_else(|wrong| wrong);
        self.findings.push((holds, format!("{what}: {text}")));
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.table {
            writeln!(f, "{line}")?;
        }
        for (holds, text) in &self.findings {
            writeln!(f, "{}  {text}", if *holds { "ok  " } else { "FAIL" })?;
        }
        f.write_str(if self.holds() { "PASS" } else { "FAIL" })
    }
}

/// No two terms of a unit at one time.
fn never_overlapped(ownership: &Ownership) -> Result<String, String> {
    none_of(&ownership.overlaps())?;
    let terms = ownership.terms.all().count();
    Ok(format!(
        "{terms} terms, each from its handler's begin to its end, or to the end of its lease"
    ))
}

fn tokens_grew(ownership: &Ownership) -> Result<String, String> {
    none_of(&ownership.disorders())?;
    let later = ownership.by_unit();
    let later = later.map(|(_, _, terms)| terms.len().saturating_sub(1));
    match later.sum::<usize>() {
        0 => Err("nothing had a second term".into()),
        compared => Ok(format!("{compared} times from term to term")),
    }
}

/// Fails with the first violation, and says how many more there are.
pub fn none_of(found: &[String]) -> Result<(), String> {
    match found {
        [] => Ok(()),
        [only] => Err(only.clone()),
        [first, more @ ..] => Err(format!("{first}, and {} more", more.len())),
    }
}

/// The time between the end of a lease and the next term's begin. One heartbeat is for a member
/// whose turn it is and that died as well. The rest is for a busy machine.
fn slack(ttl: Duration) -> Duration {
    (ttl / 5).min(Duration::from_secs(1)) + Duration::from_secs(1)
}

/// The same for a unit that is given away in good order.
const HANDOVER: Duration = Duration::from_secs(1);

/// The gaps of all units until the final stop.
fn gaps(evidence: &Evidence) -> Vec<Gap> {
    let units = evidence.ownership.by_unit();
    let gaps = units.flat_map(|(unit, ..)| gaps_of(evidence, unit));
    gaps.filter(|gap| gap.from < evidence.closing).collect()
}
fn gaps_of(evidence: &Evidence, unit: u32) -> Vec<Gap> {
    let terms = evidence.ownership.terms.of(unit);
    let next = terms.iter().skip(1).map(Some).chain([None]);
    let pairs = terms.iter().zip(next);
    let gaps = pairs.map(|(term, next)| {
        let hit = evidence.faults.iter().position(|fault| {
            let is_its = (fault.instance, fault.process) == (term.instance, term.process);
            let lasts =
                |end| fault.from <= end && fault.until.is_none_or(|until| term.began < until);
            is_its && term.ended.is_none_or(lasts)
        });
        let is_hard = hit.is_some_and(|hit| evidence.faults[hit].kind.is_hard());
        let from = match hit {
            Some(hit) if is_hard => evidence.faults[hit].from.max(term.began),
            _ => term.ended.unwrap_or(evidence.ended),
        };
        let until = next.map(|next| next.began);
        // It may be given to an instance that was hit just before, or is hit now.
        let hard = evidence.faults.iter().filter(|fault| {
            let ended = fault.until.unwrap_or(evidence.ended);
            fault.kind.is_hard()
                && until.is_none_or(|until| fault.from < until)
                && from < ended + evidence.ttl
        });
        let latest = hard.map(|fault| fault.from).max();
        let by_lease = |since: Moment| since + evidence.ttl + slack(evidence.ttl);
        let allowed = match latest {
            Some(latest) => by_lease(latest.max(from)),
            None if term.ended_in_time => from + HANDOVER,
            None => by_lease(from),
        };
        Gap {
            unit,
            from,
            until,
            allowed,
            fault: hit,
        }
    });
    gaps.collect()
}

/// Each unit had a next owner in time.
fn in_time(evidence: &Evidence, gaps: &[Gap]) -> Result<String, String> {
    let units = &evidence.ownership.units;
    for (_, unit, terms) in evidence.ownership.by_unit() {
        if terms.is_empty() {
            return Err(format!("{unit} never had an owner"));
        }
    }
    let time = |moment: Moment| seconds(moment.since(evidence.began));
    for gap in gaps {
        let (unit, from) = (&units[gap.unit as usize], time(gap.from));
        let Some(until) = gap.until else {
            if gap.allowed > evidence.closing {
                continue;
            }
            return Err(format!("{unit} had no owner from {from} on"));
        };
        if until > gap.allowed {
            return Err(format!(
                "{unit} had no owner from {from} to {}, and should have had one at {}",
                time(until),
                time(gap.allowed)
            ));
        }
    }
    Ok(format!(
        "{} times, after a fault within {} + {}, otherwise within {}",
        gaps.len(),
        seconds(evidence.ttl),
        seconds(slack(evidence.ttl)),
        seconds(HANDOVER)
    ))
}

/// Seconds with two digits.
pub fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}
