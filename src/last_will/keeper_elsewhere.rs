//! There are no companions on this system.

use std::sync::Arc;

use crate::model::bequests::{Bequests, LastWillStatus};
use crate::model::config::ManagerConfig;
use crate::role::Instance;

/// Never made.
pub(crate) enum Ends {}

/// Never made.
pub(crate) enum Keeper {}

impl Keeper {
    #[expect(clippy::unused_async, reason = "as on other systems")]
    pub async fn start(_: &ManagerConfig, _: &Instance, _: Option<Ends>) -> Result<Self, String> {
        Err("this system has no way to know of the death of a process: it works on Unix".into())
    }

    pub fn bequests(&self) -> Arc<Bequests> {
        match *self {}
    }

    pub fn status(&self) -> LastWillStatus {
        match *self {}
    }

    pub async fn stop(&self) {
        match *self {}
    }
}
