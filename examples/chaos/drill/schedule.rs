//! Which fault comes when: all of it from the seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::fault::{Kind, Subject};
use super::plan::{NODES, Plan};

/// The first fault comes after this.
const WARM_UP: Duration = Duration::from_secs(2);
/// The mean time between the starts of two faults, in a long drill.
const PACE: Duration = Duration::from_secs(2);
/// The same for faults of a group's keys: a shard is without an owner for a minute after each.
const GROUP_PACE: Duration = Duration::from_secs(10);
/// A fault of an instance may find too many that suffer, a fault of the bucket may find NATS away.
const TRIES: u8 = 12;
/// What a cluster is given, at least and at most, to recover from the loss of a node before it
/// loses another.
const RECOVERY: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(9));

/// A fault to come. Whom it hits is known only then: who leads is up to the elections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Since the begin.
    pub at: Duration,
    pub kind: Kind,
    pub lasts: Duration,
    pub aim: Aim,
    /// How often it is tried, a while apart, if it can't be done.
    pub tries: u8,
}

/// What is aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aim {
    /// The leader, of this role or of the stream, rather than the instance or node.
    pub at_leader: bool,
    pub role: usize,
    pub instance: usize,
    pub node: usize,
    pub shard: u32,
}

impl Planned {
    /// The same at a later time, after it could not be done.
    pub fn again(self, at: Duration) -> Self {
        let tries = self.tries - 1;
        Self { at, tries, ..self }
    }
}

/// The faults of a plan, in order.
pub fn schedule(plan: &Plan) -> Vec<Planned> {
    let of = |is_meant: &dyn Fn(Subject) -> bool| -> Vec<Kind> {
        let kinds = plan.faults.iter().copied();
        kinds.filter(|kind| is_meant(kind.subject())).collect()
    };
    // Draws of the one never change the others.
    let others = of(&|subject| !matches!(subject, Subject::Server | Subject::Group));
    let mut faults = series(plan, &others, 1);
    faults.extend(series(plan, &of(&|subject| subject == Subject::Server), 2));
    if plan.shards.is_some() {
        faults.extend(series(plan, &of(&|subject| subject == Subject::Group), 3));
    }
    faults.sort_by_key(|fault| fault.at);
    faults
}

fn series(plan: &Plan, kinds: &[Kind], salt: u64) -> Vec<Planned> {
    let mut faults = Vec::new();
    if kinds.is_empty() {
        return faults;
    }
    let mut rng = StdRng::seed_from_u64(plan.seed.wrapping_mul(2).wrapping_add(salt));
    let shortest = plan.roles.iter().map(|role| role.ttl).min();
    let ttl = shortest.unwrap_or(PACE);
    let count = u32::try_from(kinds.len()).unwrap_or(u32::MAX);
    // A short drill has room for each of them all the same.
    let is_of_group = kinds.iter().all(|kind| kind.subject() == Subject::Group);
    let pace = if is_of_group { GROUP_PACE } else { PACE };
    let pace = pace.min(plan.length.saturating_sub(WARM_UP) * 3 / 4 / count);
    let mut at = WARM_UP;
    let mut round = Vec::new();
    loop {
        at += between(&mut rng, (pace / 2, pace * 5 / 4));
        let Some(kind) = round.pop() else {
            round = kinds.to_vec();
            round.shuffle(&mut rng);
            continue;
        };
        let lasts = between(&mut rng, kind.lasts(ttl));
        let aim = Aim {
            at_leader: rng.random_bool(0.7),
            role: rng.random_range(0..plan.roles.len()),
            instance: rng.random_range(0..plan.instances),
            node: rng.random_range(0..NODES),
            shard: match &plan.shards {
                Some(shards) if is_of_group => rng.random_range(0..shards.count),
                _ => 0,
            },
        };
        if at >= plan.length {
            return faults;
        }
        faults.push(Planned {
            at,
            kind,
            lasts,
            aim,
            tries: TRIES,
        });
        if kind.subject() == Subject::Server {
            at += lasts + between(&mut rng, RECOVERY);
        }
    }
}

fn between(rng: &mut StdRng, (least, most): (Duration, Duration)) -> Duration {
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let (least, most) = (micros(least), micros(most));
    Duration::from_micros(rng.random_range(least..=most.max(least)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drill::plan::{Launch, Role};
    use crate::drill::shards::Shards;

    fn plan(seed: u64, length: u64) -> Plan {
        Plan {
            seed,
            length: Duration::from_secs(length),
            instances: 5,
            roles: Role::several(3, Duration::from_secs(2)),
            shards: Some(Shards::several(32, 5, Duration::from_secs(2))),
            faults: Kind::all().to_vec(),
            out: "unused".into(),
            sabotage: None,
            last_wills: false,
            serve: None,
            launch: Launch {
                program: "unused".into(),
                arguments: Vec::new(),
            },
        }
    }

    #[test]
    fn a_seed_is_a_schedule() {
        let first = schedule(&plan(7, 60));
        assert_eq!(first, schedule(&plan(7, 60)));
        assert_ne!(first, schedule(&plan(8, 60)));
    }

    #[test]
    fn every_kind_of_fault_comes_in_its_turn() {
        for seed in 0..20 {
            let faults = schedule(&plan(seed, 120));
            for kind in Kind::all() {
                let found = faults.iter().any(|fault| fault.kind == *kind);
                assert!(found, "no {kind} with seed {seed}");
            }
        }
    }

    #[test]
    fn a_short_drill_has_room_for_each_fault_of_instances() {
        for seed in 0..20 {
            let faults = schedule(&plan(seed, 15));
            for kind in Kind::all() {
                let found = faults.iter().any(|fault| fault.kind == *kind);
                let of_nats = kind.subject() == Subject::Server;
                assert!(found || of_nats, "no {kind} with seed {seed}");
            }
        }
    }

    #[test]
    fn two_nodes_of_nats_are_never_hurt_at_one_time() {
        let faults = schedule(&plan(7, 3600));
        let of_nats = faults
            .iter()
            .filter(|fault| fault.kind.subject() == Subject::Server);
        let spans: Vec<_> = of_nats
            .map(|fault| (fault.at, fault.at + fault.lasts))
            .collect();
        assert!(spans.len() > 200);
        assert!(
            spans
                .windows(2)
                .all(|pair| pair[0].1 + RECOVERY.0 <= pair[1].0)
        );
    }
}
