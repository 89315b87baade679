//! A rate limit, so that a flood of questions does not cost a leader its heartbeats. Questions that
//! come too often are dropped unread. A serious asker asks again.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use nats_elect_core::Moment;

const SECOND: Duration = Duration::from_secs(1);
/// The bound for one thing (a role, a kind of request), and the bound for all. Both are far more
/// than the normal number of questions, and far less than an election can bear.
const MOST_OF_ONE: u32 = 200;
const MOST: u32 = 5_000;

/// The number of questions within the present second.
#[derive(Debug)]
pub(super) struct RateLimit<K> {
    since: Moment,
    all: u32,
    of_each: HashMap<K, u32>,
}

impl<K: Clone + Eq + Hash> RateLimit<K> {
    pub fn new(now: Moment) -> Self {
        Self {
            since: now,
            all: 0,
            of_each: HashMap::new(),
        }
    }

    /// Returns whether this question may pass.
    pub fn passes(&mut self, what: &K, now: Moment) -> bool {
        if now.since(self.since) >= SECOND {
            *self = Self::new(now);
        }
        self.all += 1;
        if self.all > MOST {
            return false;
        }
        let of_one = self.of_each.entry(what.clone()).or_default();
        *of_one += 1;
        *of_one <= MOST_OF_ONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nats_elect_core::name::RoleName;

    fn role(name: &str) -> RoleName {
        RoleName::new(name).expect("a name")
    }

    fn passed(gate: &mut RateLimit<RoleName>, name: &str, count: u32, now: Moment) -> usize {
        let role = role(name);
        (0..count).filter(|_| gate.passes(&role, now)).count()
    }

    #[test]
    fn a_flood_about_one_role_does_not_silence_another() {
        let now = Moment::from_nanos(1);
        let mut gate = RateLimit::new(now);
        assert_eq!(passed(&mut gate, "a", 1_000, now), 200);
        assert_eq!(passed(&mut gate, "b", 100, now), 100);
        let later = now + SECOND;
        assert_eq!(passed(&mut gate, "a", 1_000, later), 200);
    }

    #[test]
    fn floods_about_many_roles_are_bounded_together() {
        let now = Moment::from_nanos(1);
        let mut gate = RateLimit::new(now);
        let all = (0..100).map(|i| passed(&mut gate, &format!("r{i}"), 200, now));
        assert_eq!(all.sum::<usize>(), 5_000);
        assert!(gate.of_each.len() <= 5_000);
    }
}
