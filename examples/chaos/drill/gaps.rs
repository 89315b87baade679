//! Times without a leader.

use std::time::Duration;

use super::checker::Evidence;
use super::clock::Moment;
use super::fault::{Kind, Subject};
use super::history::Tenure;
use super::plan::Role;

/// A time without a leader of a role.
#[derive(Clone, Debug)]
pub struct Gap {
    pub role: String,
    pub from: Moment,
    pub to: Moment,
    /// It was over when the drill ended.
    pub closed: bool,
    /// The kinds of the faults that may be why. None: it came by itself.
    pub causes: Vec<Kind>,
    /// How much of it came after the last fault of NATS or of the role's key: what the protocol must bound.
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
            gaps.push(gap(
                evidence,
                role,
                (led_until, first),
                [before, Some(tenure)],
            ));
        }
        if last >= led_until {
            led_until = last;
            before = Some(tenure);
        }
    }
    // Who leads until the end was heard a few milliseconds before it; a busy machine makes that more.
    if notes.ended.since(led_until) > Duration::from_secs(1) {
        let open = gap(evidence, role, (led_until, notes.ended), [before, None]);
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
    leaders: [Option<&Tenure>; 2],
) -> Gap {
    let leaders = leaders.into_iter().flatten();
    let names: Vec<_> = leaders.map(|tenure| tenure.instance.as_str()).collect();
    let faults = &evidence.notes.faults;
    let concerned = faults
        .iter()
        .filter(|fault| fault.concerns(&role.name, role.ttl, (from, to), &names));
    let mut causes: Vec<_> = concerned.map(|fault| fault.kind).collect();
    causes.sort_unstable();
    causes.dedup();
    let of_nats = faults.iter().filter(|fault| match fault.kind.subject() {
        Subject::Server | Subject::Stream => true,
        Subject::Role => fault.target == role.name,
        Subject::Process | Subject::Network => false,
    });
    let blows = of_nats
        .flat_map(|fault| [fault.from, fault.until])
        .filter(|at| (from..=to).contains(at));
    let last_blow = blows.max().unwrap_or(from);
    Gap {
        role: role.name.clone(),
        from,
        to,
        closed: true,
        causes,
        quiet: to.since(last_blow),
    }
}
