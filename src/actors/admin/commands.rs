//! The admin service's queries about the roles, and its orders to their elections.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::{TryAcquireError, oneshot};

use super::AdminHandler;
use super::handler::VERSION;
use super::ration::ORDERS;
use crate::actors::messages::SupervisorMsg;
use crate::error::Error;
use crate::model::admin::{
    AdminReply, AdminRequest, Done, GroupReport, InstanceReport, LeaderReport, PlanReply, Problem,
    ProblemCode, RoleReport, Taken,
};
use crate::model::config::RoleSettings;
use crate::model::unit_explanation::UnitExplanation;
use crate::role::{GroupScope, Health, Order, Request, RoleScope, StepDown, Taker, not_here};
use nats_elect_core::Reply;
use nats_elect_core::duration::rounded;
use nats_elect_core::name::{GroupName, RoleName, UnitName};

/// The most units or members in the answer to a request for a plan.
const MOST_LISTED: usize = 500;

/// The time that a status waits for a handler's health check.
const PATIENCE: Duration = Duration::from_secs(1);

impl AdminHandler {
    pub(super) async fn status_of(&self, role: &RoleName) -> Result<InstanceReport, Problem> {
        let scope = self.scope(role)?;
        Ok(self.report(vec![scope], BTreeMap::new()).await)
    }

    /// Reports on all roles.
    pub(super) async fn report_all(&self) -> InstanceReport {
        let groups = self.groups.iter();
        let groups = groups.map(|(name, scope)| (name.to_string(), scope.report()));
        self.report(self.registry.all(), groups.collect()).await
    }

    async fn report(
        &self,
        scopes: Vec<Arc<RoleScope>>,
        groups: BTreeMap<String, GroupReport>,
    ) -> InstanceReport {
        let well = join_all(scopes.iter().map(|scope| {
            let well = scope.is_healthy_for_others();
            async move {
                match tokio::time::timeout(PATIENCE, well).await {
                    Ok(Health::Well) => Some(true),
                    Ok(Health::Ill) => Some(false),
                    Ok(Health::Unanswered) | Err(_) => None,
                }
            }
        }))
        .await;
        let roles = scopes.iter().zip(well).map(|(scope, well)| {
            let name = scope.role.as_str().to_owned();
            (name, role_report(scope, well))
        });
        let roles = roles.collect();
        given_back(scopes);
        InstanceReport {
            kind: InstanceReport::KIND.into(),
            instance_id: self.instance.id.as_str().to_owned(),
            incarnation: self.instance.incarnation,
            version: VERSION.into(),
            bucket: self.instance.bucket.as_str().to_owned(),
            application: Some(self.instance.application.name.clone()),
            meta: self.instance.meta.clone(),
            uptime: self.uptime(),
            trouble: self.trouble(),
            last_will: self.bequests.as_ref().map(|it| it.companion()),
            roles,
            groups,
        }
    }

    pub(super) async fn step_down(
        &self,
        role: &RoleName,
        request: AdminRequest,
    ) -> Result<Done, Problem> {
        let scope = self.scope(role)?;
        let how = StepDown {
            to: request.to,
            expected: request.expected_fencing_token,
            hold_off: request.hold_off,
        };
        let within = answers_within(&scope.settings);
        let ended = in_time(within, scope.step_down(how)).await;
        scope.give_back();
        let ended = ended?.map_err(|error| {
            let code = match error {
                Error::SuccessorAbsent { .. } => ProblemCode::SuccessorAbsent,
                Error::SuccessorRefused { .. } => ProblemCode::SuccessorRefused,
                Error::UnexpectedTerm { .. } => ProblemCode::UnexpectedTerm,
                Error::Stopped => ProblemCode::Stopped,
                _ => ProblemCode::NotLeader,
            };
            Problem::new(code, error)
        })?;
        let ended = BTreeMap::from([(role.to_string(), ended)]);
        Ok(Done { ended })
    }

    /// Gives an order to one role, or to all roles and those that are added later.
    pub(super) async fn order(
        &self,
        order: Order,
        role: Option<&RoleName>,
    ) -> Result<Done, Problem> {
        let ended = if let Some(name) = role {
            let scope = self.scope(name)?;
            let (within, followed) = (answers_within(&scope.settings), scope.order(order));
            scope.give_back();
            let ended = in_time(within, followed).await?.map_err(stopped)?;
            ended.map(|it| (name.to_string(), it)).into_iter().collect()
        } else {
            let (reply, followed) = oneshot::channel();
            let _ = self
                .supervisor
                .send_message(SupervisorMsg::Order { order, reply });
            let scopes = self.registry.all();
            let longest = scopes.iter().map(|scope| answers_within(&scope.settings));
            let longest = longest.max().unwrap_or(PATIENCE);
            given_back(scopes);
            in_time(longest, followed).await?.map_err(stopped)?
        };
        Ok(Done { ended })
    }

    /// Takes an operator's word that the writer of the message at this revision no longer leads.
    pub(super) async fn end_lease(&self, role: &RoleName, revision: u64) -> Result<Done, Problem> {
        let scope = self.scope(role)?;
        let (reply, answer) = oneshot::channel();
        (scope.ask)(Request::EndLease { revision, reply });
        scope.give_back();
        match in_time(PATIENCE, answer).await?.map_err(stopped)? {
            Reply::Noted => Ok(Done::default()),
            _ => Err(Problem::new(
                ProblemCode::Changed,
                format!(
                    "{} does not wait for {role}, or sees another message there than {revision}",
                    self.instance.id
                ),
            )),
        }
    }

    /// Tells which units of a group are not to stay where they are.
    pub(super) async fn group_plan(&self, group: &RoleName) -> Result<PlanReply, Problem> {
        let scope = self.group(group)?;
        let _turn = self.group_turns.try_acquire().map_err(busy)?;
        let mut units = scope.plan().await.ok_or_else(not_here)?;
        units.truncate(MOST_LISTED);
        Ok(PlanReply { units })
    }

    /// Tells why a unit of a group is where it is.
    pub(super) async fn explain(
        &self,
        group: &RoleName,
        unit: &str,
    ) -> Result<UnitExplanation, Problem> {
        let scope = self.group(group)?;
        let name = UnitName::new(unit).map_err(|_| scope.unknown(unit))?;
        let _turn = self.group_turns.try_acquire().map_err(busy)?;
        if let Some(explanation) = scope.explain(&name).await {
            return Ok(explanation.cut(MOST_LISTED));
        }
        let board = scope.board.borrow();
        let map = board.map.as_ref().filter(|_| board.joined);
        if map.is_some_and(|map| map.units().place_of(&name).is_none()) {
            return Err(scope.unknown(unit));
        }
        Err(not_here())
    }

    /// Has a unit of a group given to this instance.
    pub(super) async fn take_unit(&self, group: &RoleName, unit: &str) -> Result<Taken, Problem> {
        let scope = self.group(group)?;
        let _turn = self.group_turns.try_acquire().map_err(busy)?;
        self.may_order(1)?;
        let owner = scope.move_unit(unit, Taker::This).await?;
        let fencing_token = owner.fencing_token.ok_or_else(not_here)?;
        Ok(Taken { fencing_token })
    }

    /// Gives a group another number of shards.
    pub(super) async fn resize_group(
        &self,
        group: &RoleName,
        shards: u32,
    ) -> Result<Done, Problem> {
        let scope = self.group(group)?;
        let _turn = self.group_turns.try_acquire().map_err(busy)?;
        // Of these a second has one.
        self.may_order(ORDERS)?;
        scope.resize(shards).await?;
        Ok(Done::default())
    }

    fn group(&self, name: &RoleName) -> Result<&Arc<GroupScope>, Problem> {
        let unknown = || {
            let why = format!("{} takes no part in a group {name}", self.instance.id);
            Problem::new(ProblemCode::UnknownGroup, why)
        };
        let group = GroupName::new(name.as_str()).ok();
        let scope = group.and_then(|group| self.groups.get(&group));
        scope.ok_or_else(unknown)
    }

    fn scope(&self, role: &RoleName) -> Result<Arc<RoleScope>, Problem> {
        let unknown = || {
            let why = format!("{} has no role {role}", self.instance.id);
            Problem::new(ProblemCode::UnknownRole, why)
        };
        self.registry.find(role.as_str()).ok_or_else(unknown)
    }
}

fn busy(_: TryAcquireError) -> Problem {
    Problem::new(
        ProblemCode::Busy,
        "it has as many requests about groups under way as it takes: ask later",
    )
}

/// Handlers belong to the application. The admin service must not drop the last reference to one.
fn given_back(scopes: Vec<Arc<RoleScope>>) {
    for scope in scopes {
        scope.give_back();
    }
}

async fn in_time<T>(within: Duration, answer: impl Future<Output = T>) -> Result<T, Problem> {
    let late = |_| {
        let why = format!("not done within {}; it goes on", rounded(within));
        Problem::new(ProblemCode::Unfinished, why)
    };
    tokio::time::timeout(within, answer).await.map_err(late)
}

fn stopped<E>(_: E) -> Problem {
    Problem::new(ProblemCode::Stopped, "the role is being stopped")
}

/// Returns the sum of the question to a successor, the winding down of the handler, the release,
/// and the time that a successor has to claim the role.
fn answers_within(settings: &RoleSettings) -> Duration {
    settings.handoff_time() + settings.handoff_hold() + settings.request_timeout * 2
}

fn role_report(scope: &RoleScope, healthy: Option<bool>) -> RoleReport {
    let status = scope.status();
    let settings = &scope.settings;
    RoleReport {
        state: Some(status.state),
        is_leader: status.is_leader,
        paused: status.paused,
        failing: status.failing,
        kept: status.kept,
        leader: status.leader.map(|leader| LeaderReport {
            instance_id: leader.instance_id,
            incarnation: leader.incarnation,
            priority: leader.priority,
            signer: leader.signer,
        }),
        fencing_token: status.fencing_token,
        lease_remaining: status.lease_remaining,
        last_heartbeat: status.last_heartbeat,
        heartbeat_took: status.heartbeat_took,
        last_transition: status.last_transition,
        revision: status.revision,
        connection: Some(status.connection),
        healthy,
        priority: settings.priority,
        takeover: Some(settings.takeover),
        ttl: settings.ttl,
        heartbeat: settings.heartbeat,
        stop_budget: settings.stop_budget,
        answers_within: answers_within(settings),
        overruns: scope.overruns(),
        last_failure: status.last_failure,
    }
}
