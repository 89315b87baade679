//! What a companion process must know to release the terms of this instance.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use crate::lock::lock;
use nats_elect_core::Bequest;
use nats_elect_core::name::RoleName;

/// The present terms of an instance. The elections keep it, and somebody is told that it changed.
pub(crate) struct Bequests {
    of_roles: Mutex<BTreeMap<RoleName, Bequest>>,
    changed: Box<dyn Fn() + Send + Sync>,
}

impl Bequests {
    /// `changed` is called at each change. It must not block.
    pub fn new(changed: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            of_roles: Mutex::default(),
            changed: Box::new(changed),
        }
    }

    /// Notes the present term of a role, or that there is none.
    pub fn set(&self, role: &RoleName, bequest: Option<Bequest>) {
        {
            let mut of_roles = lock(&self.of_roles);
            match bequest {
                Some(bequest) => of_roles.insert(role.clone(), bequest),
                None => of_roles.remove(role),
            };
        }
        (self.changed)();
    }

    /// Returns all present terms.
    pub fn all(&self) -> BTreeMap<RoleName, Bequest> {
        lock(&self.of_roles).clone()
    }
}

impl fmt::Debug for Bequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bequests").finish_non_exhaustive()
    }
}
