//! The roles of an instance.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::scope::RoleScope;
use crate::lock::lock;
use nats_elect_core::name::RoleName;

/// The roles in whose elections an instance takes part.
///
/// The supervisor enters them. So the manager knows every role that the supervisor took on,
/// whatever becomes of the call that added it.
#[derive(Clone, Default)]
pub(crate) struct RoleRegistry(Arc<Mutex<BTreeMap<RoleName, Arc<RoleScope>>>>);

impl RoleRegistry {
    pub fn enter(&self, scope: Arc<RoleScope>) {
        lock(&self.0).insert(scope.role.clone(), scope);
    }

    pub fn strike(&self, name: &str) -> Option<Arc<RoleScope>> {
        lock(&self.0).remove(name)
    }

    pub fn find(&self, name: &str) -> Option<Arc<RoleScope>> {
        lock(&self.0).get(name).cloned()
    }

    pub fn all(&self) -> Vec<Arc<RoleScope>> {
        lock(&self.0).values().cloned().collect()
    }
}
