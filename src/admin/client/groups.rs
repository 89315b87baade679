//! Requests about the units of groups.

use super::AdminClient;
use super::orders::{LONGEST, ON_THE_WAY, ORDER, UNKNOWN};
use crate::admin::{AdminError, Instance};
use crate::model::admin::{AdminRequest, ExplanationReply, PlanReply, ProblemCode, Taken, Verb};
use crate::model::group_plan::GroupPlan;
use crate::model::unit_explanation::UnitExplanation;
use nats_elect_core::name::{GroupName, RoleName};
use nats_elect_core::token::FencingToken;

impl AdminClient {
    /// Returns what the planner of a group wants now, as this instance sees it. The plan of the
    /// planner itself is the best: see [`GroupPlan::is_planners`]. Of long lists the beginning is
    /// told. Waits up to 5 s.
    ///
    /// # Errors
    /// Returns [`AdminError::Refused`] with the codes `UnknownGroup`, `NotReady` and `Busy`. Returns
    /// [`AdminError::NoSuchInstance`] if the instance is not there, has no groups, or its version
    /// does not know this request. Returns [`AdminError::Timeout`] and [`AdminError::Name`].
    ///
    /// # Cancel safety
    /// This method is cancel safe. Nothing is lost if the future is dropped.
    pub async fn group_plan(
        &self,
        instance: &Instance,
        group: &str,
    ) -> Result<GroupPlan, AdminError> {
        let group = group_name(group)?;
        let request = AdminRequest::default();
        let asked = self.ask::<PlanReply>(instance, Verb::GroupPlan, Some(&group), &request, ORDER);
        Ok(asked.await?.plan)
    }

    /// Returns why a unit of a group is where it is, as this instance sees it. Waits up to 5 s. For
    /// this project's command.
    ///
    /// # Errors
    /// Returns [`AdminError::Refused`] with the codes `UnknownGroup`, `UnknownUnit`, `NotReady` (also
    /// if the group's policy explains nothing) and `Busy`; with `BadRequest` if the instance's
    /// version can't explain units.
    #[doc(hidden)]
    pub async fn explain_unit(
        &self,
        instance: &Instance,
        group: &str,
        unit: &str,
    ) -> Result<UnitExplanation, AdminError> {
        let group = group_name(group)?;
        let request = AdminRequest::for_unit(unit);
        let asked =
            self.ask::<ExplanationReply>(instance, Verb::GroupPlan, Some(&group), &request, ORDER);
        Ok(asked.await?.explanation)
    }

    /// Has a unit of a group given to this instance, and waits until it owns it. Returns the token
    /// of its term. [`GroupHandle::move_unit`](crate::GroupHandle::move_unit) describes the rules.
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
        let within = match self.status(instance).await {
            Ok(report) => {
                let group = report.groups.get(group);
                group.map_or(ORDER, |it| it.answers_within.min(LONGEST)) + ON_THE_WAY
            }
            Err(error) => match error.refusal() {
                Some(ProblemCode::TooLarge | ProblemCode::Busy) => UNKNOWN,
                _ => return Err(error),
            },
        };
        let request = AdminRequest::for_unit(unit);
        let asked = self.ask::<Taken>(instance, Verb::TakeUnit, Some(&name), &request, within);
        Ok(asked.await?.fencing_token)
    }
}

/// Returns a group's name as it stands in a subject. It has the rule of a role's name.
fn group_name(group: &str) -> Result<RoleName, AdminError> {
    let group = GroupName::new(group)?;
    Ok(RoleName::new(group.as_str())?)
}
