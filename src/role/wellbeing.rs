//! Whether a role's handler says that it is well.

use std::future::Future;
use std::sync::{Arc, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};

use super::RoleScope;

/// A check under way.
pub(super) type Check = Shared<BoxFuture<'static, bool>>;

impl RoleScope {
    /// Asks the handler on its own runtime; a timer of the caller's answers for it if it does not.
    pub fn is_well(&self) -> impl Future<Output = bool> + use<> {
        let asked = self.runtime.spawn(Arc::clone(&self.handler).healthy());
        let timeout = self.settings.health.timeout;
        async move {
            let abort = asked.abort_handle();
            let healthy = matches!(tokio::time::timeout(timeout, asked).await, Ok(Ok(true)));
            abort.abort();
            healthy
        }
    }

    /// One check for all who ask from elsewhere while it lasts: many of them are no reason to ask the handler as often.
    pub fn is_well_for_others(&self) -> Check {
        let mut check = self.check.lock().unwrap_or_else(PoisonError::into_inner);
        let under_way = check.take_if(|check| check.peek().is_none());
        let asked = under_way.unwrap_or_else(|| {
            let asked = self.is_well().boxed().shared();
            // Those who ask may lose patience: what they leave half done would be an old answer for the next one.
            tokio::spawn(asked.clone());
            asked
        });
        *check = Some(asked.clone());
        asked
    }
}
