//! The handle on one role.

use std::fmt;
use std::sync::Arc;

use futures::Stream;
use tokio::sync::oneshot;

use crate::broadcasts::until_ended;
use crate::error::Error;
use crate::model::status::RoleStatus;
use crate::role::{Order, Request, RoleScope, StepDown, SteppedDown, proof};
use nats_elect_core::event::Event;
use nats_elect_core::status::LeaderInfo;
use nats_elect_core::token::FencingToken;

/// One role on this instance. A handle is cheap to clone.
#[derive(Clone)]
pub struct RoleHandle {
    scope: Arc<RoleScope>,
}

impl RoleHandle {
    pub(super) const fn new(scope: Arc<RoleScope>) -> Self {
        Self { scope }
    }

    /// Returns the role's name.
    pub fn name(&self) -> &str {
        self.scope.role.as_str()
    }

    /// Returns whether this instance leads, by the clock at the time of this call.
    ///
    /// The call sends no request and waits for nothing. It never returns `true` after the lease has
    /// ended, even in a process that was paused or on a machine that slept. It returns `false` as
    /// soon as the term is being wound down.
    ///
    /// A virtual machine that its hypervisor paused may have a clock that stood still. There the
    /// call may return `true` until the next heartbeat is refused. `docs/guarantees.md` says what to
    /// do about that.
    pub fn is_leader(&self) -> bool {
        self.scope.is_leader()
    }

    /// Returns the leader, as far as this instance knows.
    pub fn leader(&self) -> Option<LeaderInfo> {
        self.scope.status.borrow().leader.clone()
    }

    /// Returns the status at the time of this call.
    pub fn status(&self) -> RoleStatus {
        self.scope.status()
    }

    /// Returns a stream of the events from now on.
    ///
    /// A reader that is too slow gets [`Event::Lagged`], with the number of events that it missed.
    /// The stream ends with the role.
    ///
    /// # Cancel safety
    /// Nothing is lost if a pending `next` is dropped.
    pub fn events(&self) -> impl Stream<Item = Event> + Send + Unpin + use<> {
        let events = self.scope.listen();
        let ended = self.scope.ended.clone();
        until_ended(events, ended, |missed| Event::Lagged { missed })
    }

    /// Waits until this instance or another one is known to lead.
    ///
    /// # Errors
    /// Returns [`Error::Stopped`] if the role is stopped meanwhile.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Nothing is lost if the future is dropped.
    pub async fn wait_for_leader(&self) -> Result<LeaderInfo, Error> {
        let mut leader = self.scope.leader.subscribe();
        let known = async {
            let found = leader.wait_for(Option::is_some).await.ok()?;
            found.clone()
        };
        let known = self.scope.ended.run_until_cancelled(known).await;
        known.flatten().ok_or(Error::Stopped)
    }

    /// Waits until this instance leads, that is until [`is_leader`](Self::is_leader) is `true`.
    ///
    /// The term may already have ended when you act on it. It proves no more than `is_leader`.
    ///
    /// # Errors
    /// Returns [`Error::Stopped`] if the role is removed or the manager is stopped meanwhile, or
    /// was before.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Nothing is lost if the future is dropped.
    pub async fn wait_until_leading(&self) -> Result<(), Error> {
        let mut status = self.scope.status.subscribe();
        let leading = status.wait_for(|_| self.is_leader());
        match self.scope.ended.run_until_cancelled(leading).await {
            Some(Ok(_)) => Ok(()),
            Some(Err(_)) | None => Err(Error::Stopped),
        }
    }

    /// Proves leadership by a compare-and-set that is sent after this call, and returns the fencing
    /// token.
    ///
    /// # Errors
    /// Returns [`Error::NotLeader`] if this instance does not lead. Returns [`Error::Unproven`] if
    /// there was no answer in time. Returns [`Error::Stopped`] if the role is stopped.
    ///
    /// # Cancel safety
    /// The renewal goes on if the future is dropped. Nothing else is lost.
    pub async fn validate(&self) -> Result<FencingToken, Error> {
        let (reply, answer) = oneshot::channel();
        (self.scope.ask)(Request::Validate { term: None, reply });
        Ok(proof(answer).await?)
    }

    /// Ends this instance's term. The handler is wound down, and then the role is freed.
    ///
    /// The method waits for both. With [`StepDown::to`] it also waits until the successor has
    /// claimed the role, or until a heartbeat and a request timeout have passed.
    ///
    /// # Errors
    /// Returns [`Error::NotLeader`] if this instance does not lead, or its term ended meanwhile.
    /// Returns [`Error::UnexpectedTerm`] if it leads in another term than the
    /// [expected](StepDown::expecting) one, and [`Error::Stopped`] if the role is stopped.
    ///
    /// After [`Error::SuccessorAbsent`] and [`Error::SuccessorRefused`] nothing was done, and this
    /// instance still leads.
    ///
    /// # Cancel safety
    /// If the future is dropped, the term ends all the same.
    pub async fn step_down(&self, how: StepDown) -> Result<SteppedDown, Error> {
        self.scope.step_down(how).await
    }

    /// Keeps this instance from taking new terms of the role until [`resume`](Self::resume).
    ///
    /// A term that the instance has goes on. When that term ends, the instance stays out of the
    /// election. Meanwhile it watches: its status and events report the leader.
    ///
    /// The order is kept in this process only, where it outlives a crash of the election. A process
    /// that starts again takes part in the election again. Of several calls, including those of the
    /// manager, the last one counts. Pausing a paused role changes nothing.
    ///
    /// When this method returns, no claim is sent any more. A claim that was under way is given
    /// back if it is won.
    ///
    /// # Errors
    /// Returns [`Error::Stopped`] if the role is stopped.
    ///
    /// # Cancel safety
    /// Once the future was polled, the role is paused all the same if it is dropped.
    pub async fn pause(&self) -> Result<(), Error> {
        self.scope.order(Order::Pause).await?;
        Ok(())
    }

    /// Lets this instance take part in the election of the role again. It does so at once, or after
    /// its cool-down if one runs. Resuming a role that is not paused changes nothing.
    ///
    /// # Errors
    /// Returns [`Error::Stopped`] if the role is stopped.
    ///
    /// # Cancel safety
    /// Once the future was polled, the role is resumed all the same if it is dropped.
    pub async fn resume(&self) -> Result<(), Error> {
        self.scope.order(Order::Resume).await?;
        Ok(())
    }

    /// [Pauses](Self::pause) the role, and ends the term that this instance has. Use it for
    /// maintenance.
    ///
    /// The handler is wound down. Then the role is freed whatever `delete_on_stop` says. If another
    /// instance answers that it is ready to take the role, the role is freed in its name.
    ///
    /// The method waits until the term has ended. If there is a successor, it also waits until the
    /// successor has claimed the role, or until a heartbeat and a request timeout have passed. It
    /// returns the result of the term, or `None` if this instance did not lead.
    ///
    /// While NATS is out of reach, the role can't be freed before NATS is back. Others take over
    /// when the lease has run out, at the latest.
    ///
    /// # Errors
    /// Returns [`Error::Stopped`] if the role is stopped.
    ///
    /// # Cancel safety
    /// Once the future was polled, the role is cordoned all the same if it is dropped.
    pub async fn cordon(&self) -> Result<Option<SteppedDown>, Error> {
        Ok(self.scope.order(Order::Cordon).await?)
    }

    /// Makes the election's actor panic, to test the end of its handler.
    #[cfg(test)]
    #[doc(hidden)]
    pub fn crash_election(&self) {
        (self.scope.ask)(Request::Crash);
    }
}

impl fmt::Debug for RoleHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoleHandle")
            .field("role", &self.scope.role)
            .field("status", &self.status())
            .finish()
    }
}
