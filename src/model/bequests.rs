//! What a companion process must know to release the terms of this instance, and how it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::lock::lock;
use nats_elect_core::Bequest;
use nats_elect_core::name::RoleName;

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
    present: BTreeMap<RoleName, Bequest>,
    /// The roles whose changes nobody has taken yet.
    changed: BTreeSet<RoleName>,
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

    /// Notes the present term of a role, or that there is none.
    pub fn set(&self, role: &RoleName, bequest: Option<Bequest>) {
        let is_first = {
            let mut terms = lock(&self.terms);
            match bequest {
                Some(bequest) => terms.present.insert(role.clone(), bequest),
                None => terms.present.remove(role),
            };
            let is_first = terms.changed.is_empty();
            terms.changed.insert(role.clone());
            is_first
        };
        if is_first {
            (self.changed)();
        }
    }

    /// All present terms count as changed: whoever takes the changes knows of none.
    pub fn start_over(&self) {
        let mut terms = lock(&self.terms);
        terms.changed = terms.present.keys().cloned().collect();
    }

    /// Takes the roles whose terms have changed, each with its present term.
    pub fn changes(&self) -> Vec<(RoleName, Option<Bequest>)> {
        let mut terms = lock(&self.terms);
        let changed = std::mem::take(&mut terms.changed).into_iter();
        changed
            .map(|role| {
                let bequest = terms.present.get(&role).copied();
                (role, bequest)
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
        let [a, b] = ["a", "b"].map(|role| RoleName::new(role).expect("a name"));
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
}
