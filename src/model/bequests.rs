//! What a companion process must know to release the terms of this instance, and how it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::lock::lock;
use nats_elect_core::Bequest;
use nats_elect_core::assignment::Epoch;
use nats_elect_core::name::{GroupName, RoleName};

/// A lease that a companion process can free.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Lease {
    Role(RoleName),
    /// The lease for all units that this epoch owns of a group.
    Member(GroupName, Epoch),
}

/// What frees a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Will {
    /// The term of a role.
    Term(Bequest),
    /// An epoch is ended by a write, in the bucket with this creation time.
    Epoch { bucket: u64, ttl: Duration },
}

impl Will {
    /// How long the lease lasts without a renewal.
    pub const fn lease(&self) -> Duration {
        match self {
            Self::Term(term) => term.lease,
            Self::Epoch { ttl, .. } => *ttl,
        }
    }
}

/// The state of a companion process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LastWillStatus {
    /// There is none just now. Another one is started after a pause.
    #[default]
    Absent,
    /// It watches the process, and has no connection to the bucket.
    Watching,
    /// It watches the process, and is connected.
    Ready,
}

/// The present terms of an instance. The elections keep it, and somebody takes what has changed.
pub(crate) struct Bequests {
    terms: Mutex<Terms>,
    companion: Mutex<LastWillStatus>,
    changed: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Terms {
    present: BTreeMap<Lease, Will>,
    /// The leases whose changes nobody has taken yet.
    changed: BTreeSet<Lease>,
}

impl Bequests {
    /// `changed` is called when there is something to take again. It must not block.
    pub fn new(changed: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            terms: Mutex::default(),
            companion: Mutex::default(),
            changed: Box::new(changed),
        }
    }

    /// Returns how the companion is.
    pub fn companion(&self) -> LastWillStatus {
        *lock(&self.companion)
    }

    pub fn companion_is(&self, status: LastWillStatus) {
        *lock(&self.companion) = status;
    }

    /// Notes what frees the present term of a lease, or that there is none.
    pub fn set(&self, lease: &Lease, will: Option<Will>) {
        let is_first = {
            let mut terms = lock(&self.terms);
            match will {
                Some(will) => terms.present.insert(lease.clone(), will),
                None => terms.present.remove(lease),
            };
            let is_first = terms.changed.is_empty();
            terms.changed.insert(lease.clone());
            is_first
        };
        if is_first {
            (self.changed)();
        }
    }

    /// Strikes off the epochs of a group whose actor has crashed. Nobody else does.
    pub fn forget_member(&self, group: &GroupName) {
        let is_member = |lease: &&Lease| matches!(lease, Lease::Member(of, _) if of == group);
        let present = lock(&self.terms)
            .present
            .keys()
            .filter(is_member)
            .cloned()
            .collect::<Vec<_>>();
        for lease in present {
            self.set(&lease, None);
        }
    }

    /// All present terms count as changed: whoever takes the changes knows of none.
    pub fn start_over(&self) {
        let mut terms = lock(&self.terms);
        terms.changed = terms.present.keys().cloned().collect();
    }

    /// Takes the leases whose terms have changed, each with its present term.
    pub fn changes(&self) -> Vec<(Lease, Option<Will>)> {
        let mut terms = lock(&self.terms);
        let changed = std::mem::take(&mut terms.changed).into_iter();
        changed
            .map(|lease| {
                let will = terms.present.get(&lease).copied();
                (lease, will)
            })
            .collect()
    }
}

impl fmt::Debug for Bequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bequests").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use nats_elect_core::heirs::Heirs;
    use nats_elect_core::release::ReleaseSecret;
    use nats_elect_core::token::FencingToken;
    use uuid::Uuid;

    use super::*;

    fn will(revision: u64) -> Will {
        Will::Term(Bequest {
            incarnation: Uuid::from_u128(1),
            fencing_token: FencingToken {
                epoch: 1,
                sequence: 1,
            },
            revision,
            secret: ReleaseSecret::new(1),
            line: Heirs::NONE,
            lease: Duration::from_secs(15),
        })
    }

    #[test]
    fn changes_are_told_once_until_they_are_taken() {
        let told = Arc::new(AtomicU32::new(0));
        let tell = Arc::clone(&told);
        let bequests = Bequests::new(move || {
            tell.fetch_add(1, Ordering::Relaxed);
        });
        let [a, b] = ["a", "b"].map(|role| Lease::Role(RoleName::new(role).expect("a name")));
        bequests.set(&a, Some(will(1)));
        bequests.set(&a, Some(will(2)));
        bequests.set(&b, Some(will(3)));
        assert_eq!(told.load(Ordering::Relaxed), 1);
        let both = [(a.clone(), Some(will(2))), (b.clone(), Some(will(3)))];
        assert_eq!(bequests.changes(), both);
        assert_eq!(bequests.changes(), []);
        bequests.set(&a, None);
        assert_eq!(told.load(Ordering::Relaxed), 2);
        assert_eq!(bequests.changes(), [(a, None)]);
        bequests.start_over();
        assert_eq!(bequests.changes(), [(b, Some(will(3)))]);
    }

    #[test]
    fn the_epochs_of_a_member_that_crashed_are_struck_off_and_nothing_else_is() {
        let bequests = Bequests::new(|| {});
        let role = Lease::Role(RoleName::new("a").expect("a name"));
        let [group, other] = ["g", "h"].map(|name| GroupName::new(name).expect("a name"));
        let epoch = |of: &GroupName, number| Lease::Member(of.clone(), Epoch::new([number; 16]));
        let crashed = [1, 2].map(|number| epoch(&group, number));
        let kept = [role, epoch(&other, 1)];
        let ends = Will::Epoch {
            bucket: 1,
            ttl: Duration::from_secs(15),
        };
        for lease in crashed.iter().chain(&kept) {
            bequests.set(lease, Some(ends));
        }
        bequests.changes();
        bequests.forget_member(&group);
        assert_eq!(bequests.changes(), crashed.map(|epoch| (epoch, None)));
        bequests.start_over();
        assert_eq!(bequests.changes(), kept.map(|it| (it, Some(ends))));
    }
}
