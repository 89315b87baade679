//! Which elections `exec` takes part in for one role: its own, or those of its slots.
//!
//! The slots of a role are roles of their own. An instance stands for one slot after another. Once
//! its handler of one has been let in, it leaves the elections of the others, and comes back to
//! them when that term and its cool-down are over. In between it may win a second slot: the gate
//! keeps that handler out, and the slot is given back without a run.

use std::convert::Infallible;
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use nats_elect::{Error, RoleConfig, RoleHandle, RoleManager, RoleManagerBuilder, RoleState};

use super::Instant;
use super::gate::Gate;
use super::guarded::End;
use super::handler::RunCommand;

/// How often the states of all slots are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// The longest wait for one slot to be decided, before the next one is stood for as well.
const DECISION: Duration = Duration::from_secs(1);

/// Why `exec --try` does not lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLed {
    /// Each of the roles has another leader.
    Taken,
    /// An election was not decided in time.
    Undecided,
}

/// A role, or the slots of one.
pub struct Standing {
    pub config: RoleConfig,
    /// A handler for each role.
    pub seats: Vec<RunCommand>,
    pub gate: Gate,
}

impl Standing {
    /// Adds the first role, so that a start fails if the bucket does not fit it.
    pub fn begin(&self, builder: RoleManagerBuilder) -> RoleManagerBuilder {
        let first = self.seats.first().into_iter();
        first.fold(builder, |builder, seat| {
            builder.role(seat.role.clone(), self.config.clone(), seat.clone())
        })
    }

    /// How the last run of the command ended, if it is over and was not forgotten.
    pub fn last_end(&self) -> Option<End> {
        // All seats share it.
        self.seats.first()?.last.borrow().map(|(end, _)| end)
    }

    /// Forgets how the last run ended, if that was longer ago.
    pub fn forget_runs_before(&self, age: Duration) {
        for seat in &self.seats {
            let is_old = |(_, at): &mut (End, Instant)| at.plus(age).is_over();
            seat.last
                .send_if_modified(|last| last.take_if(is_old).is_some());
        }
    }

    /// Takes part in the elections, as long as it is polled.
    pub async fn keep(&self, manager: &RoleManager) -> Result<Infallible, Error> {
        loop {
            self.stand(manager).await?;
            let led = self.gate.taken().await;
            let others = self.seats.iter().filter(|seat| seat.role != led);
            let leaving = others.map(async |seat| match manager.remove_role(&seat.role).await {
                Ok(()) | Err(Error::UnknownRole(_)) => Ok(()),
                Err(error) => Err(error),
            });
            let left: Result<Vec<()>, _> = join_all(leaving).await.into_iter().collect();
            left?;
            let handle = manager.role(&led)?;
            loop {
                // Neither before the cool-down is over, nor a hold-off that an operator ordered.
                until(&handle, |state| {
                    matches!(state, RoleState::Candidate | RoleState::Follower)
                })
                .await;
                if self.gate.reopen() {
                    break;
                }
                // It leads again already, or its handler outlives the term.
                self.gate.left().await;
            }
        }
    }

    /// Stands for one role after another, until it leads one or stands for all.
    async fn stand(&self, manager: &RoleManager) -> Result<(), Error> {
        for seat in &self.seats {
            let handle = if let Ok(handle) = manager.role(&seat.role) {
                handle
            } else {
                let config = self.config.clone();
                manager.add_role(&seat.role, config, seat.clone()).await?
            };
            let _ = tokio::time::timeout(DECISION, self.decided(&handle)).await;
            if self.gate.is_taken() {
                break;
            }
        }
        Ok(())
    }

    /// Waits until this instance leads, or another one leads this role.
    async fn decided(&self, handle: &RoleHandle) {
        tokio::select! {
            _ = self.gate.taken() => {}
            () = until(handle, |state| state == RoleState::Follower) => {}
        }
    }

    /// Waits until this instance does not lead at once: another one leads each of the roles, or an
    /// election was not decided in this time.
    pub async fn missed(&self, manager: &RoleManager, within: Duration) -> NotLed {
        let all_taken = async {
            loop {
                let is_taken = |seat: &RunCommand| {
                    let handle = manager.role(&seat.role);
                    handle.is_ok_and(|it| it.status().state == RoleState::Follower)
                };
                if self.seats.iter().all(is_taken) {
                    return;
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        match tokio::time::timeout(within, all_taken).await {
            Ok(()) => NotLed::Taken,
            Err(_) => NotLed::Undecided,
        }
    }
}

/// Waits until this instance's state in the election is so.
async fn until(handle: &RoleHandle, is_so: impl Fn(RoleState) -> bool) {
    let mut events = handle.events();
    // A change is in the status before its event comes.
    while !is_so(handle.status().state) {
        if events.next().await.is_none() {
            // The role has ended: this will never be so.
            return std::future::pending().await;
        }
    }
}
