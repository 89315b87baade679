//! Keeps a flood of questions from costing a leader its heartbeats: what comes too often is dropped unread. Whoever meant it asks
//! again.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock::Moment;
use crate::model::name::RoleName;

const SECOND: Duration = Duration::from_secs(1);
/// Far more than a fleet asks about one role, or about all, and far less than an election can stand.
const MOST_OF_A_ROLE: u32 = 200;
const MOST: u32 = 5_000;

/// How many questions came within the present second.
#[derive(Debug)]
pub(super) struct Floodgate {
    since: Moment,
    all: u32,
    of_roles: HashMap<RoleName, u32>,
}

impl Floodgate {
    pub fn new(now: Moment) -> Self {
        Self {
            since: now,
            all: 0,
            of_roles: HashMap::new(),
        }
    }

    /// Whether this question may pass.
    pub fn passes(&mut self, role: &RoleName, now: Moment) -> bool {
        if now.since(self.since) >= SECOND {
            *self = Self::new(now);
        }
        self.all += 1;
        if self.all > MOST {
            return false;
        }
        let of_role = self.of_roles.entry(role.clone()).or_default();
        *of_role += 1;
        *of_role <= MOST_OF_A_ROLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str) -> RoleName {
        RoleName::new(name).expect("a name")
    }

    fn passed(gate: &mut Floodgate, name: &str, count: u32, now: Moment) -> usize {
        let role = role(name);
        (0..count).filter(|_| gate.passes(&role, now)).count()
    }

    #[test]
    fn a_flood_about_one_role_does_not_silence_another() {
        let now = Moment::from_nanos(1);
        let mut gate = Floodgate::new(now);
        assert_eq!(passed(&mut gate, "a", 1_000, now), 200);
        assert_eq!(passed(&mut gate, "b", 100, now), 100);
        let later = now + SECOND;
        assert_eq!(passed(&mut gate, "a", 1_000, later), 200);
    }

    #[test]
    fn floods_about_many_roles_are_bounded_together() {
        let now = Moment::from_nanos(1);
        let mut gate = Floodgate::new(now);
        let all = (0..100).map(|i| passed(&mut gate, &format!("r{i}"), 200, now));
        assert_eq!(all.sum::<usize>(), 5_000);
        assert!(gate.of_roles.len() <= 5_000);
    }
}
