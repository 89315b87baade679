//! Requests about the units of groups.

use std::time::Duration;

use super::AdminClient;
use super::orders::ORDER;
use crate::admin::{AdminError, Instance, InstanceReport};
use crate::model::admin::{AdminRequest, Done, PlanReply, Taken, Verb};
use crate::model::unit_explanation::UnitExplanation;
use nats_elect_core::name::{GroupName, RoleName};
use nats_elect_core::token::FencingToken;

impl AdminClient {
    /// Returns the units of a group that its plan would move now, that no instance may own, or that are
    /// changing hands, as this instance sees them. The first 500 are told. Waits up to 5 s. For this
    /// project's command.
    ///
    /// # Errors
    /// Returns [`AdminError::Refused`] with the codes `UnknownGroup`, `NotReady` and `Busy`.
    #[doc(hidden)]
    pub async fn group_plan(
        &self,
        instance: &Instance,
        group: &str,
    ) -> Result<Vec<UnitExplanation>, AdminError> {
        let group = group_name(group)?;
        let request = AdminRequest::default();
        let asked = self.ask::<PlanReply>(instance, Verb::GroupPlan, Some(&group), &request, ORDER);
        Ok(asked.await?.units)
    }

    /// Returns why a unit of a group is where it is, as this instance sees it. What the coordinator itself
    /// says is the best. The first 500 members are told. Waits up to 5 s. For this project's command.
    ///
    /// # Errors
    /// Those of [`group_plan`](Self::group_plan), and the code `UnknownUnit`.
    #[doc(hidden)]
    pub async fn explain_unit(
        &self,
        instance: &Instance,
        group: &str,
        unit: &str,
    ) -> Result<UnitExplanation, AdminError> {
        let group = group_name(group)?;
        let request = AdminRequest::for_unit(unit);
        self.ask(instance, Verb::GroupPlan, Some(&group), &request, ORDER)
            .await
    }

    /// Has a unit of a group given to this instance, and waits until its handler may act. Returns the
    /// token of its term. [`GroupHandle::move_unit`](crate::GroupHandle::move_unit) describes the rules.
    ///
    /// The client first asks the instance for its status, to learn how long it may take.
    ///
    /// # Errors
    /// Returns [`AdminError::Refused`] with the codes `UnknownGroup`, `UnknownUnit`, `NotReady`,
    /// `TakesNone`, `AlreadyThere`, `TakenBack` and `Busy`. Nothing was done then. With the code
    /// `Unfinished` the unit may still move. Also returns [`AdminError::NoSuchInstance`],
    /// [`AdminError::Timeout`] and [`AdminError::Name`].
    ///
    /// # Cancel safety
    /// If the future is dropped after the request was sent, the unit may move all the same.
    pub async fn take_unit(
        &self,
        instance: &Instance,
        group: &str,
        unit: &str,
    ) -> Result<FencingToken, AdminError> {
        let name = group_name(group)?;
        let within = self.answers_within(instance, group).await?;
        let request = AdminRequest::for_unit(unit);
        let asked = self.ask::<Taken>(instance, Verb::TakeUnit, Some(&name), &request, within);
        Ok(asked.await?.fencing_token)
    }

    /// Has an instance give a group another number of shards, from 1 to 65,536, and waits until the
    /// group's map says so. [`GroupHandle::resize`](crate::GroupHandle::resize) describes what follows.
    ///
    /// The client first asks the instance for its status, to learn how long it may take.
    ///
    /// # Errors
    /// Returns [`AdminError::Refused`] with the codes `UnknownGroup`, `NotReady`, `Busy` and
    /// `BadRequest` (the group has named units, or can't have so many shards). Nothing was done then.
    /// With the code `Unfinished` the group may still be resized. Also returns
    /// [`AdminError::NoSuchInstance`], [`AdminError::Timeout`] and [`AdminError::Name`].
    ///
    /// # Cancel safety
    /// If the future is dropped after the request was sent, the group may be resized all the same.
    pub async fn resize_group(
        &self,
        instance: &Instance,
        group: &str,
        shards: u32,
    ) -> Result<(), AdminError> {
        let name = group_name(group)?;
        let within = self.answers_within(instance, group).await?;
        let request = AdminRequest {
            shards: Some(shards),
            ..AdminRequest::default()
        };
        let asked = self.ask::<Done>(instance, Verb::ResizeGroup, Some(&name), &request, within);
        asked.await.map(drop)
    }

    /// How long an order about a group may take.
    async fn answers_within(
        &self,
        instance: &Instance,
        group: &str,
    ) -> Result<Duration, AdminError> {
        let told = |report: &InstanceReport| {
            let group = report.groups.get(group);
            group.map_or(ORDER, |it| it.answers_within)
        };
        self.time_by(instance, None, told).await
    }
}

/// Returns a group's name as it stands in a subject. It has the rule of a role's name.
fn group_name(group: &str) -> Result<RoleName, AdminError> {
    let group = GroupName::new(group)?;
    Ok(RoleName::new(group.as_str())?)
}
