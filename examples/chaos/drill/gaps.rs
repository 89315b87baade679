//! Times without a leader.

use std::time::Duration;

use super::checker::Evidence;
use super::fault::{Fault, Kind, Subject};
use super::history::Tenure;
use super::plan::Role;
use ::drill::Moment;

/// A fault that is over may end a term for so long after it: until then the leader has renewed its
/// lease, or noticed that it can't.
const AFTER: Duration = Duration::from_secs(3);

/// The last valid act before a kill was some milliseconds before it.
const BEFORE: Duration = Duration::from_millis(100);

/// A time without a leader of a role.
#[derive(Clone, Debug)]
pub struct Gap {
    pub role: String,
    pub from: Moment,
    pub to: Moment,
    /// It was over when the drill ended.
    pub closed: bool,
    /// The kinds of the faults that may have begun it. None: it came by itself.
    pub causes: Vec<Kind>,
    /// The kinds of the faults that came meanwhile and may have made it longer.
    pub company: Vec<Kind>,
    /// How much of it came after the last fault of NATS or of the role's key, and after NATS took
    /// writes again: what the protocol must bound.
    pub quiet: Duration,
}

impl Gap {
    pub fn length(&self) -> Duration {
        self.to.since(self.from)
    }
}

/// The gaps of a role between the begin and the end of the drill.
pub fn gaps(evidence: &Evidence, role: &Role) -> Vec<Gap> {
    let notes = &evidence.notes;
    let mut gaps = Vec::new();
    let mut led_until = notes.begun;
    let mut before: Option<&Tenure> = None;
    for (tenure, (first, last)) in evidence.terms_of(role) {
        if first > led_until && first < notes.ended {
            gaps.push(gap(evidence, role, (led_until, first), before));
        }
        if last >= led_until {
            led_until = last;
            before = Some(tenure);
        }
    }
    // Who leads until the end was heard a few milliseconds before it; a busy machine makes that
    // more.
    if notes.ended.since(led_until) > Duration::from_secs(1) {
        let open = gap(evidence, role, (led_until, notes.ended), before);
        gaps.push(Gap {
            closed: false,
            ..open
        });
    }
    gaps
}

fn gap(
    evidence: &Evidence,
    role: &Role,
    (from, to): (Moment, Moment),
    before: Option<&Tenure>,
) -> Gap {
    let notes = &evidence.notes;
    let leader = before.map(|tenure| tenure.instance.as_str());
    let concerned = || {
        let faults = notes.faults.iter();
        faults.filter(|fault| fault.concerns(&role.name, leader))
    };
    let ends_it = |fault: &&Fault| {
        let over = felt_until(fault, &notes.outages);
        fault.from.since(from) <= BEFORE && from.since(over) <= role.ttl.min(AFTER)
    };
    let causes = concerned().filter(ends_it);
    let company = concerned().filter(|fault| !ends_it(fault) && (from..=to).contains(&fault.from));
    // What happens to instances is no excuse: there is always one that nothing happens to.
    let blows = concerned()
        .filter(|fault| !matches!(fault.kind.subject(), Subject::Process | Subject::Network))
        .flat_map(|fault| [fault.from, fault.until]);
    let outages = notes.outages.iter().filter(|(begin, _)| *begin < to);
    let writable = outages.map(|(_, until)| *until.min(&to));
    let blows = blows.chain(writable).filter(|at| (from..=to).contains(at));
    let last_blow = blows.max().unwrap_or(from);
    Gap {
        role: role.name.clone(),
        from,
        to,
        closed: true,
        causes: kinds(causes),
        company: kinds(company),
        quiet: to.since(last_blow),
    }
}

/// A fault of NATS is over when NATS takes writes again.
fn felt_until(fault: &Fault, outages: &[(Moment, Moment)]) -> Moment {
    let of_nats = matches!(fault.kind.subject(), Subject::Server | Subject::Stream);
    let outages = outages
        .iter()
        .filter(|(from, until)| of_nats && *from <= fault.until && fault.from <= *until);
    let ends = outages.map(|(_, until)| *until);
    ends.fold(fault.until, Moment::max)
}

fn kinds<'a>(faults: impl Iterator<Item = &'a Fault>) -> Vec<Kind> {
    let mut kinds: Vec<_> = faults.map(|fault| fault.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}
