//! Requests about a group: of its handles, and of operators.

use std::collections::VecDeque;

use super::{MemberState, Step};
use crate::role::{GroupRequest, GroupView};
use nats_elect_core::group::{Epoch, GroupInput, Hint, MemberState as Standing, UnitKey};
use nats_elect_core::name::{GroupName, UnitName};

impl MemberState {
    pub(super) fn asked_group(
        &self,
        group: &GroupName,
        request: GroupRequest,
        steps: &mut VecDeque<Step>,
    ) {
        match request {
            GroupRequest::View(reply) => {
                // Who asked may have gone.
                let _ = reply.send(self.view_of(group));
            }
            GroupRequest::Move { unit, to } => self.pass_on(group, unit, to, steps),
            GroupRequest::Order(..) => {}
        }
    }

    fn view_of(&self, group: &GroupName) -> Option<GroupView> {
        let (fleet, policy) = self.group.plans_from(group)?;
        let members = self.group.members();
        Some(GroupView {
            fleet,
            policy,
            instances: members
                .map(|it| (it.epoch, it.instance.to_owned()))
                .collect(),
            own: self.group.own_epoch(),
            planner: self.group.planner_of(group),
        })
    }

    /// Hints the move to the unit's owner. Without a living one the next owner takes the unit.
    fn pass_on(&self, group: &GroupName, unit: UnitName, to: Epoch, steps: &mut VecDeque<Step>) {
        let Some(scope) = self.groups.get(group) else {
            return;
        };
        let unit = UnitKey {
            group: group.clone(),
            generation: scope.read(|board| board.generation),
            unit,
        };
        let Some((sequence, owner)) = self.group.unit_owner(&unit) else {
            return;
        };
        let lives = |owner: &Epoch| {
            let mut members = self.group.members();
            members.any(|it| it.epoch == *owner && it.state != Standing::Deposed)
        };
        let acts = owner.filter(lives).unwrap_or(to);
        let hints = vec![Hint { unit, sequence, to }];
        if self.group.own_epoch() == Some(acts) {
            steps.push_back(Step::Group(GroupInput::Hint { hints }));
        } else {
            self.send_hints(acts, hints);
        }
    }
}
