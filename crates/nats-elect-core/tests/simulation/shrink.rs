//! As few faults as still fail.

use crate::checkers::Violation;
use crate::clock::Clock;
use crate::plan::{Kind, Plan};
use crate::run::run;

/// A failing plan with all taken away that is not needed to fail in the same way, and how it fails.
pub fn shrink(plan: &Plan, violation: Violation) -> (Plan, Violation) {
    least(plan, violation, candidates, |plan, violation| {
        let found = run(plan).violation?;
        (found.promise == violation.promise).then_some(found)
    })
}

/// The least of what is left when all is taken away that is not needed to fail alike.
pub fn least<P: Clone, V>(
    plan: &P,
    violation: V,
    candidates: impl Fn(&P) -> Vec<P>,
    fails_alike: impl Fn(&P, &V) -> Option<V>,
) -> (P, V) {
    let mut best = (plan.clone(), violation);
    loop {
        let smaller = candidates(&best.0).into_iter().find_map(|candidate| {
            let found = fails_alike(&candidate, &best.1)?;
            Some((candidate, found))
        });
        match smaller {
            Some(smaller) => best = smaller,
            None => return best,
        }
    }
}

/// A little less of everything, the largest cuts first.
fn candidates(plan: &Plan) -> Vec<Plan> {
    let mut candidates = Vec::new();
    let count = plan.blows.len();
    let mut cut = count;
    while cut > 0 {
        for start in (0..count).step_by(cut) {
            candidates.push(without(plan, start, (start + cut).min(count)));
        }
        cut /= 2;
    }
    let mut simpler = |change: &dyn Fn(&mut Plan)| {
        let mut candidate = plan.clone();
        change(&mut candidate);
        candidates.push(candidate);
    };
    if plan.members.len() > 2 {
        simpler(&|plan| {
            plan.members.pop();
            let left = plan.members.len();
            plan.blows.retain(|blow| blow.node < left);
        });
    }
    if plan.kind != Kind::Ours {
        simpler(&|plan| plan.kind = Kind::Ours);
    }
    for i in 0..plan.members.len() {
        let clock = plan.members[i].clock;
        if clock.ppm != 0 {
            simpler(&|plan| plan.members[i].clock = Clock { ppm: 0, ..clock });
        }
    }
    if plan.liars {
        simpler(&|plan| plan.liars = false);
    }
    if !plan.deaf {
        simpler(&|plan| plan.deaf = true);
    }
    if plan.twins {
        simpler(&|plan| plan.twins = false);
    }
    if plan.traffic > 0 {
        simpler(&|plan| plan.traffic = 0);
    }
    if !plan.timer_lag.is_zero() {
        simpler(&|plan| plan.timer_lag = std::time::Duration::ZERO);
    }
    if plan.readers {
        simpler(&|plan| plan.readers = false);
    }
    candidates
}

/// The faults after those that are left out keep their times.
fn without(plan: &Plan, start: usize, end: usize) -> Plan {
    let mut smaller = plan.clone();
    let gone: Vec<_> = smaller.blows.drain(start..end).collect();
    if let Some(next) = smaller.blows.get_mut(start) {
        next.after += gone
            .iter()
            .map(|blow| blow.after)
            .sum::<std::time::Duration>();
    }
    smaller
}
