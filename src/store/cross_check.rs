//! Whether the server checks a condition on another key than the message's own.
//!
//! Servers before 2.11 overlook the header that names the other key, in silence, and check the message's own. So one
//! request that must fail either way is asked first, and its refusal tells which key was looked at.

use std::time::Duration;

use async_nats::Request;

use super::bucket::Bucket;
use super::error::StoreError;
use super::write::expecting_of;
use crate::model::name::RoleName;

/// No stream gets that far.
const IMPOSSIBLE_SEQUENCE: u64 = i64::MAX as u64;

/// What is known of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CrossCheck {
    Unknown,
    Supported,
    Unsupported,
}

impl Bucket {
    /// Passes where a condition on the role's key is known to be checked, or turns out to be.
    pub(super) async fn require_cross_check(
        &self,
        role: &RoleName,
        sequence: u64,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let verdict = match self.cross_check() {
            CrossCheck::Unknown => {
                let verdict = self.probe_cross_check(role, sequence, timeout).await?;
                self.set_cross_check(verdict);
                verdict
            }
            known => known,
        };
        match verdict {
            CrossCheck::Supported => Ok(()),
            CrossCheck::Unknown | CrossCheck::Unsupported => Err(StoreError::Unsupported(
                "a condition on another key (nats-server 2.11)".into(),
            )),
        }
    }

    /// Asks for a fence record on an impossible sequence of the role's key: nothing is ever written.
    ///
    /// The refusal tells the last sequence of the key that was looked at. `sequence` is where the role's key is believed to
    /// stand, which mostly spares reading it.
    pub(super) async fn probe_cross_check(
        &self,
        role: &RoleName,
        sequence: u64,
        timeout: Duration,
    ) -> Result<CrossCheck, StoreError> {
        let headers = expecting_of(&self.role_subject(role), IMPOSSIBLE_SEQUENCE);
        let request = Request::new().headers(headers);
        let told = match self
            .publish(self.fence_subject(role), request, timeout)
            .await
        {
            Err(StoreError::Conflict { current }) => current,
            Err(error) => return Err(error),
            Ok(_) => return Ok(CrossCheck::Unsupported),
        };
        let Some(told) = told else {
            return Ok(CrossCheck::Unknown);
        };
        if told == sequence && sequence != 0 {
            return Ok(CrossCheck::Supported);
        }
        let keys = self.snapshot(role, false, timeout).await?;
        let role_at = keys.role.map_or(0, |entry| entry.revision);
        let fence_at = keys.fence.map_or(0, |entry| entry.revision);
        Ok(match (told == role_at, told == fence_at) {
            (true, false) => CrossCheck::Supported,
            (false, true) => CrossCheck::Unsupported,
            // Both are missing, or somebody writes at this very moment: the next probe will tell.
            _ => CrossCheck::Unknown,
        })
    }
}
