//! What a companion process must know to release the terms of this instance, and how it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::lock::lock;
use nats_elect_core::Bequest;
use nats_elect_core::group::Identity;
use nats_elect_core::name::RoleName;

/// A lease that a companion process can free.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lease {
    Role(RoleName),
    /// The lease for all units that this epoch of a member owns.
    Member(Identity),
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
    present: BTreeMap<Lease, Bequest>,
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

    /// Notes the present term of a lease, or that there is none.
    pub fn set(&self, lease: &Lease, bequest: Option<Bequest>) {
        let is_first = {
            let mut terms = lock(&self.terms);
            match bequest {
                Some(bequest) => terms.present.insert(lease.clone(), bequest),
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

    /// Strikes off the epochs of a member whose actor has crashed. Nobody else does.
    pub fn forget_member(&self) {
        let is_member = |lease: &&Lease| matches!(lease, Lease::Member(_));
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
    pub fn changes(&self) -> Vec<(Lease, Option<Bequest>)> {
        let mut terms = lock(&self.terms);
        let changed = std::mem::take(&mut terms.changed).into_iter();
        changed
            .map(|lease| {
                let bequest = terms.present.get(&lease).copied();
                (lease, bequest)
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
    use std::time::Duration;

    use nats_elect_core::group::EpochKey;
    use nats_elect_core::heirs::Heirs;
    use nats_elect_core::release::ReleaseSecret;
    use nats_elect_core::token::FencingToken;
    use uuid::Uuid;

    use super::*;

    fn bequest(revision: u64) -> Bequest {
        Bequest {
            incarnation: Uuid::from_u128(1),
            fencing_token: FencingToken {
                epoch: 1,
                sequence: 1,
            },
            revision,
            secret: ReleaseSecret::new(1),
            line: Heirs::NONE,
            lease: Duration::from_secs(15),
        }
    }

    #[test]
    fn changes_are_told_once_until_they_are_taken() {
        let told = Arc::new(AtomicU32::new(0));
        let tell = Arc::clone(&told);
        let bequests = Bequests::new(move || {
            tell.fetch_add(1, Ordering::Relaxed);
        });
        let [a, b] = ["a", "b"].map(|role| Lease::Role(RoleName::new(role).expect("a name")));
        bequests.set(&a, Some(bequest(1)));
        bequests.set(&a, Some(bequest(2)));
        bequests.set(&b, Some(bequest(3)));
        assert_eq!(told.load(Ordering::Relaxed), 1);
        let both = [(a.clone(), Some(bequest(2))), (b.clone(), Some(bequest(3)))];
        assert_eq!(bequests.changes(), both);
        assert_eq!(bequests.changes(), []);
        bequests.set(&a, None);
        assert_eq!(told.load(Ordering::Relaxed), 2);
        assert_eq!(bequests.changes(), [(a, None)]);
        bequests.start_over();
        assert_eq!(bequests.changes(), [(b, Some(bequest(3)))]);
    }

    #[test]
    fn the_epochs_of_a_member_that_crashed_are_struck_off_and_no_role_is() {
        let bequests = Bequests::new(|| {});
        let role = Lease::Role(RoleName::new("a").expect("a name"));
        let epochs = [1, 2].map(|number| {
            Lease::Member(Identity {
                key: EpochKey::new([number; 32]),
                ttl: Duration::from_secs(15),
                release: ReleaseSecret::new(1).hash(),
            })
        });
        for lease in epochs.iter().chain([&role]) {
            bequests.set(lease, Some(bequest(1)));
        }
        bequests.changes();
        bequests.forget_member();
        assert_eq!(bequests.changes(), epochs.map(|epoch| (epoch, None)));
        bequests.start_over();
        assert_eq!(bequests.changes(), [(role, Some(bequest(1)))]);
    }
}
