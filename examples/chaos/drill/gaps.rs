//! Times without a leader.

use std::time::Duration;

use ::drill::Moment;

use super::checker::Evidence;
use super::plan::Role;

/// A time without a leader of a role.
#[derive(Clone, Debug)]
pub struct Gap {
    pub role: String,
    pub from: Moment,
    pub to: Moment,
    /// It was over when the drill ended.
    pub closed: bool,
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
    for (_, (first, last)) in evidence.terms_of(role) {
        if first > led_until && first < notes.ended {
            gaps.push(gap(evidence, role, (led_until, first)));
        }
        led_until = led_until.max(last);
    }
    // Who leads until the end was heard a few milliseconds before it; a busy machine makes that
    // more.
    if notes.ended.since(led_until) > Duration::from_secs(1) {
        let open = gap(evidence, role, (led_until, notes.ended));
        gaps.push(Gap {
            closed: false,
            ..open
        });
    }
    gaps
}

fn gap(evidence: &Evidence, role: &Role, (from, to): (Moment, Moment)) -> Gap {
    let notes = &evidence.notes;
    // What happens to instances is no excuse: there is always one that nothing happens to.
    let faults = notes.faults.iter();
    let blows = faults.filter(|fault| fault.concerns(&role.name, None));
    let blows = blows.flat_map(|fault| [fault.from, fault.until]);
    let outages = notes.outages.iter().filter(|(begin, _)| *begin < to);
    let writable = outages.map(|(_, until)| *until.min(&to));
    let blows = blows.chain(writable).filter(|at| (from..=to).contains(at));
    let last_blow = blows.max().unwrap_or(from);
    Gap {
        role: role.name.clone(),
        from,
        to,
        closed: true,
        quiet: to.since(last_blow),
    }
}
