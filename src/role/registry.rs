//! The roles of an instance.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::scope::RoleScope;
use nats_elect_core::name::RoleName;

/// The roles in whose elections an instance takes part.
///
/// The supervisor enters them. So the manager knows every role that the supervisor took on,
/// whatever becomes of the call that added it.
#[derive(Clone, Default)]
pub(crate) struct RoleRegistry(Arc<RwLock<BTreeMap<RoleName, Arc<RoleScope>>>>);

impl RoleRegistry {
    pub fn enter(&self, scope: Arc<RoleScope>) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(scope.role.clone(), scope);
    }

    pub fn strike(&self, name: &str) -> Option<Arc<RoleScope>> {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name)
    }

    pub fn find(&self, name: &str) -> Option<Arc<RoleScope>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
    }

    pub fn all(&self) -> Vec<Arc<RoleScope>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }
}
