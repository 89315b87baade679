//! Times without a leader.

use std::time::Duration;

use ::drill::Moment;

use super::checker::{Evidence, Notes};
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

/// The times between the begin and the end of the drill that lie in none of these terms. They are
/// in the order of their begins. The last time may be open.
pub fn outside(
    notes: &Notes,
    terms: impl Iterator<Item = (Moment, Moment)>,
) -> Vec<(Moment, Option<Moment>)> {
    let mut gaps = Vec::new();
    let mut owned_until = notes.begun;
    for (began, ended) in terms {
        if began > owned_until && began < notes.ended {
            gaps.push((owned_until, Some(began)));
        }
        owned_until = owned_until.max(ended);
    }
    if owned_until < notes.ended {
        gaps.push((owned_until, None));
    }
    gaps
}

/// The gaps of a role between the begin and the end of the drill.
pub fn gaps(evidence: &Evidence, role: &Role) -> Vec<Gap> {
    let notes = &evidence.notes;
    let terms = evidence.terms_of(role).into_iter();
    let gaps = outside(notes, terms.map(|term| (term.began, term.seen)));
    let gaps = gaps.into_iter().map(|(from, until)| {
        let to = until.unwrap_or(notes.ended);
        // What happens to instances is no excuse: there is always one that nothing happens to.
        let faults = notes.faults.iter();
        let blows = faults.filter(|fault| fault.concerns(&role.name, None));
        let blows = blows.flat_map(|fault| [fault.from, fault.until]);
        let outages = notes.outages.iter().filter(|(begin, _)| *begin < to);
        let writable = outages.map(|(_, until)| *until.min(&to));
        let blows = blows.chain(writable).filter(|at| (from..=to).contains(at));
        Gap {
            role: role.name.clone(),
            from,
            to,
            closed: until.is_some(),
            quiet: to.since(blows.max().unwrap_or(from)),
        }
    });
    // Who leads until the end was heard a few milliseconds before it; a busy machine makes that
    // more.
    gaps.filter(|gap| gap.closed || gap.length() > Duration::from_secs(1))
        .collect()
}
