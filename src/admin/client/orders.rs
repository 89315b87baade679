//! Requests about the terms of an instance, and about its part in elections.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{AdminClient, LeaderFound};
use crate::admin::{AdminError, Instance, InstanceReport};
use crate::model::admin::{AdminRequest, Done, ProblemCode, Verb};
use crate::role::{StepDown, SteppedDown};
use nats_elect_core::name::RoleName;

/// How long an answer may be on its way, beside the time that the instance needs for it.
const ON_THE_WAY: Duration = Duration::from_secs(2);
/// The timeout for an order. An instance records at once whether it takes part in elections.
pub(super) const ORDER: Duration = Duration::from_secs(5);
/// How long to wait for roles to be handed over by an instance that can't report how long it may
/// take.
const UNKNOWN: Duration = Duration::from_secs(5 * 60);
/// The longest wait for roles to be handed over, whatever an instance reports about its time.
const LONGEST: Duration = Duration::from_secs(60 * 60);

impl AdminClient {
    /// Has an instance end its term, and waits until it has. The handler is wound down, and then
    /// the role is freed, or handed to the successor that was named.
    ///
    /// The client first asks the instance for its status, to learn how long it may take. By the
    /// instance's own settings this is its stop budget, three heartbeats and two requests at most.
    /// [`step_down_leader`](Self::step_down_leader) does without that question.
    ///
    /// # Errors
    /// Returns [`AdminError::Refused`] with the codes `NotLeader`, `UnexpectedTerm`,
    /// `SuccessorAbsent`, `SuccessorRefused` and `UnknownRole`. Nothing was done then. With the
    /// code `Unfinished` the instance goes on.
    ///
    /// Returns [`AdminError::Timeout`] if there is no answer in time. The request may have been
    /// done or not, so ask for the status. Returns [`AdminError::NoSuchInstance`] if the instance
    /// is not there, and [`AdminError::Name`] if the name breaks a rule.
    ///
    /// # Cancel safety
    /// If the future is dropped after the request was sent, the term ends all the same.
    pub async fn step_down(
        &self,
        instance: &Instance,
        role: &str,
        how: StepDown,
    ) -> Result<SteppedDown, AdminError> {
        let role = RoleName::new(role)?;
        let within = self.time_to_end(instance, Some(&role)).await?;
        self.end_term(instance, &role, how, within).await
    }

    /// Has a leader that [`leader`](Self::leader) found end its term, and waits until it has. The
    /// request names that term, unless `how` expects another one. Otherwise the same as
    /// [`step_down`](Self::step_down).
    ///
    /// # Errors
    /// The same as `step_down`, without [`AdminError::Name`].
    ///
    /// # Cancel safety
    /// If the future is dropped after the request was sent, the term ends all the same.
    pub async fn step_down_leader(
        &self,
        leader: &LeaderFound,
        mut how: StepDown,
    ) -> Result<SteppedDown, AdminError> {
        how.expected.get_or_insert(leader.fencing_token);
        let within = patience(leader.report.answers_within);
        self.end_term(&leader.instance, &leader.role, how, within)
            .await
    }

    async fn end_term(
        &self,
        instance: &Instance,
        role: &RoleName,
        how: StepDown,
        within: Duration,
    ) -> Result<SteppedDown, AdminError> {
        let request = AdminRequest {
            to: how.to,
            hold_off: how.hold_off,
            expected_fencing_token: how.expected,
            ..AdminRequest::default()
        };
        let asked = self.ask::<Done>(instance, Verb::StepDown, Some(role), &request, within);
        let ended = asked.await?.ended.remove(role.as_str());
        ended.ok_or_else(|| AdminError::NotUnderstood {
            instance: Box::new(instance.clone()),
        })
    }

    /// Keeps an instance from taking new terms of the role. Without a role this applies to every
    /// role that it has or is given later. Where the instance leads, it still leads.
    ///
    /// The method waits until the order is in force, up to 5 s.
    ///
    /// # Errors
    /// Returns [`AdminError::Refused`] with the codes `UnknownRole` and `Stopped`. Returns
    /// [`AdminError::NoSuchInstance`], [`AdminError::Timeout`] and [`AdminError::Name`].
    ///
    /// # Cancel safety
    /// If the future is dropped after the request was sent, the instance is paused all the same.
    pub async fn pause(&self, instance: &Instance, role: Option<&str>) -> Result<(), AdminError> {
        self.order(instance, Verb::Pause, role, ORDER).await?;
        Ok(())
    }

    /// Lets an instance take part in elections again, for the role or for all its roles.
    ///
    /// # Errors
    /// The same as [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// If the future is dropped after the request was sent, the instance is resumed all the same.
    pub async fn resume(&self, instance: &Instance, role: Option<&str>) -> Result<(), AdminError> {
        self.order(instance, Verb::Resume, role, ORDER).await?;
        Ok(())
    }

    /// Does the same as [`pause`](Self::pause), and ends the terms that the instance has. Use it
    /// for maintenance.
    ///
    /// Each handler is wound down. Then its role is freed, for an instance that is ready to take it
    /// if there is one. The method waits until that is done, and returns the result for each role
    /// that the instance led.
    ///
    /// # Errors
    /// The same as `pause`. With the code `Unfinished` the instance goes on, so ask for the status.
    ///
    /// # Cancel safety
    /// If the future is dropped after the request was sent, the instance is cordoned all the same.
    pub async fn cordon(
        &self,
        instance: &Instance,
        role: Option<&str>,
    ) -> Result<BTreeMap<String, SteppedDown>, AdminError> {
        let name = role.map(RoleName::new).transpose()?;
        let within = self.time_to_end(instance, name.as_ref()).await?;
        self.order(instance, Verb::Cordon, role, within).await
    }

    /// Has an instance treat the message at this revision of the role's key as over, so that it
    /// does not wait for the lease any longer. The revision is 0 if the message is missing.
    ///
    /// Use it for a leader that is known to be gone for good. Only an operator can know this.
    ///
    /// **If the writer of that message still leads, there are two leaders**, until that writer's
    /// next heartbeat is refused. Send the request to every instance. An instance that was not
    /// asked still waits, but any of the others that claims the role then leads it.
    ///
    /// # Errors
    /// Returns [`AdminError::Refused`] with the code `Changed` if the instance does not wait for
    /// the role or sees another message there. Returns it with the code `UnknownRole` if the
    /// instance does not have the role. Nothing was done then.
    ///
    /// Returns [`AdminError::NoSuchInstance`] if the instance is not there, or if its version does
    /// not know this request. Returns [`AdminError::Timeout`] and [`AdminError::Name`].
    ///
    /// # Cancel safety
    /// If the future is dropped after the request was sent, the lease ends all the same.
    pub async fn end_lease(
        &self,
        instance: &Instance,
        role: &str,
        revision: u64,
    ) -> Result<(), AdminError> {
        let role = RoleName::new(role)?;
        let request = AdminRequest {
            revision: Some(revision),
            ..AdminRequest::default()
        };
        let asked = self.ask::<Done>(instance, Verb::EndLease, Some(&role), &request, ORDER);
        asked.await.map(drop)
    }

    async fn order(
        &self,
        instance: &Instance,
        verb: Verb,
        role: Option<&str>,
        within: Duration,
    ) -> Result<BTreeMap<String, SteppedDown>, AdminError> {
        let role = role.map(RoleName::new).transpose()?;
        let request = AdminRequest::default();
        let asked = self.ask::<Done>(instance, verb, role.as_ref(), &request, within);
        Ok(asked.await?.ended)
    }

    /// Returns how long an instance may take to end the terms that it has, by its own settings.
    async fn time_to_end(
        &self,
        instance: &Instance,
        role: Option<&RoleName>,
    ) -> Result<Duration, AdminError> {
        let told = |report: &InstanceReport| {
            let roles = report.roles.values();
            roles.map(|it| it.answers_within).max().unwrap_or_default()
        };
        self.time_by(instance, role, told).await
    }

    /// Returns how long to wait for what an instance takes the time for that its report tells.
    pub(super) async fn time_by(
        &self,
        instance: &Instance,
        role: Option<&RoleName>,
        told: impl FnOnce(&InstanceReport) -> Duration,
    ) -> Result<Duration, AdminError> {
        match self.report(instance, role).await {
            Ok(report) => Ok(patience(told(&report))),
            // The instance has more roles than it can report at once, or just now.
            Err(error) => match error.refusal() {
                Some(ProblemCode::TooLarge | ProblemCode::Busy) => Ok(UNKNOWN),
                _ => Err(error),
            },
        }
    }
}

/// Returns how long to wait for what takes so long by an instance's own settings.
fn patience(takes: Duration) -> Duration {
    takes.min(LONGEST) + ON_THE_WAY
}
