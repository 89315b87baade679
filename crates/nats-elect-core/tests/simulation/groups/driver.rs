//! Carries out the effects of the machines as the library does, and runs the handlers of units.

use std::collections::VecDeque;
use std::time::Duration;

use nats_elect_core::group::{
    Epoch, Group, GroupEffect, GroupInput, GroupKey, GroupWrite, MemberContent, UnitKey,
};
use nats_elect_core::record::Content;
use nats_elect_core::{HandlerEnd, Input, Moment, OpId};

use super::node::SharedTerm;
use super::requests::{Kind, Request};
use super::stream::{Body, Signature};
use super::world::{Happening, World};

/// So many inputs do not follow from one.
const MOST_INPUTS: usize = 10_000;

/// An input, for the machine or for an epoch's election.
pub enum To {
    Group(GroupInput),
    Keeper(Epoch, Input),
}

impl World {
    pub fn group_input(&mut self, node: usize, input: GroupInput) {
        self.feed(node, VecDeque::from([To::Group(input)]));
    }

    pub fn keeper_input(&mut self, node: usize, epoch: Epoch, input: Input) {
        self.feed(node, VecDeque::from([To::Keeper(epoch, input)]));
    }

    pub fn wake(&mut self, node: usize, keeper: Option<Epoch>, wake: u64) {
        let Some(process) = &mut self.nodes[node].process else {
            return;
        };
        let due = match keeper {
            None => process.wake == wake,
            Some(epoch) => process.keeper(epoch).is_some_and(|it| it.wake == wake),
        };
        match keeper {
            _ if !due => {}
            None => self.group_input(node, GroupInput::Tick),
            Some(epoch) => self.keeper_input(node, epoch, Input::Tick),
        }
    }

    fn feed(&mut self, node: usize, mut inputs: VecDeque<To>) {
        for count in 0.. {
            let Some(input) = inputs.pop_front() else {
                return;
            };
            if count == MOST_INPUTS {
                let detail = format!("node-{node} does not come to rest");
                self.judge(Err(self.broken_conduct(detail)));
                return;
            }
            match input {
                To::Group(input) => self.step_group(node, input, &mut inputs),
                To::Keeper(epoch, input) => self.step_keeper(node, epoch, input, &mut inputs),
            }
        }
    }

    fn step_group(&mut self, node: usize, input: GroupInput, inputs: &mut VecDeque<To>) {
        self.say(node, "takes", &input);
        let now = self.nodes[node].clock.at(self.now);
        let Some(process) = &mut self.nodes[node].process else {
            return;
        };
        let ticks = matches!(input, GroupInput::Tick);
        let effects = process.group.step(now, input);
        let due = process.group.next_wakeup();
        process.wake += 1;
        let wake = process.wake;
        for effect in effects {
            self.say(node, "wants", &effect);
            self.obey(node, effect, inputs);
        }
        if ticks && due.is_some_and(|due| due <= now) {
            self.judge(Err(
                self.broken_conduct(format!("node-{node} is due again at once"))
            ));
        }
        if let Some(due) = due {
            self.wake_at(due, node, None, wake);
        }
    }

    /// Has the machine or an epoch's election step when that moment has come by the node's clock.
    pub fn wake_at(&mut self, due: Moment, node: usize, keeper: Option<Epoch>, wake: u64) {
        let at = self.nodes[node].clock.when(due);
        let life = self.nodes[node].life;
        let wake = Happening::Wake {
            node,
            life,
            keeper,
            wake,
        };
        self.schedule(at, wake);
    }

    fn obey(&mut self, node: usize, effect: GroupEffect, inputs: &mut VecDeque<To>) {
        match effect {
            GroupEffect::Write { op, write } => self.write(node, op, write),
            GroupEffect::HeartbeatNow => self.heartbeat_now(node, inputs),
            GroupEffect::Rewatch => {
                self.tally.rewatches += 1;
                self.watch(node, Duration::ZERO);
            }
            GroupEffect::NewEpoch => {
                self.tally.leases_lost += 1;
                if let Some(epoch) = self.nodes[node].present_epoch() {
                    self.leave_epoch(node, epoch, inputs);
                }
                self.begin_epoch(node);
            }
            GroupEffect::Retire { epoch } => {
                self.end_lease_if_idle(node, epoch, inputs);
                self.leave_epoch(node, epoch, inputs);
            }
            GroupEffect::Extend { until } => {
                let present = self.nodes[node].present_epoch();
                self.tell(node, inputs);
                let now = self.nodes[node].clock.at(self.now);
                let Some(process) = &mut self.nodes[node].process else {
                    return;
                };
                let mut over = false;
                for term in process.terms.values_mut() {
                    if Some(term.epoch) == present && term.running && !term.revoked {
                        // A deadline that has passed stays passed: somebody may have seen it.
                        over |= !term.is_valid(now);
                        if term.is_valid(now) {
                            term.until = until;
                        }
                    }
                }
                if let Some(epoch) = present.filter(|_| over) {
                    inputs.push_back(To::Group(GroupInput::LeaseLost { epoch }));
                }
            }
            GroupEffect::Start {
                unit,
                sequence,
                until,
            } => self.start(node, unit, sequence, until, inputs),
            GroupEffect::Cancel { unit, sequence } => self.cancel(node, &unit, sequence),
            GroupEffect::Hint { to, hints } => {
                let receiver = (0..self.nodes.len())
                    .find(|index| self.nodes[*index].present_epoch() == Some(to));
                let is_lost = self.chance.permille(self.hints_lost) || !self.nodes[node].linked;
                if let (Some(node), false) = (receiver, is_lost) {
                    let (at, life) = (self.now + self.latency(), self.nodes[node].life);
                    self.schedule(at, Happening::Hinted { node, life, hints });
                }
            }
            GroupEffect::Revoke { unit, sequence } => {
                self.tally.revoked += 1;
                self.end_handler_after(node, &unit, sequence, |term| {
                    term.revoked = true;
                    term.handler.aborts_in
                });
            }
        }
    }

    fn start(
        &mut self,
        node: usize,
        unit: UnitKey,
        sequence: u64,
        until: Moment,
        inputs: &mut VecDeque<To>,
    ) {
        let verdict = super::checkers::Checkers::started(self, node, &unit, sequence);
        self.judge(verdict);
        let process = self.nodes[node].process.as_ref();
        let Some(keeper) = process.and_then(|it| it.keepers.last()) else {
            return;
        };
        let epoch = keeper.epoch;
        if keeper.ending {
            // The handler would be aborted in the midst of its work.
            let end = HandlerEnd::Returned;
            inputs.push_back(To::Group(GroupInput::HandlerEnded {
                unit,
                sequence,
                end,
            }));
            return;
        }
        self.tally.terms += 1;
        let handler = self.nodes[node].handler;
        let Some(process) = &mut self.nodes[node].process else {
            return;
        };
        // What has ended is of no interest any more.
        process.terms.retain(|_, term| term.running);
        let term = SharedTerm {
            epoch,
            until,
            revoked: false,
            running: true,
            cancelled: false,
            handler,
        };
        process.terms.insert((unit.clone(), sequence), term);
        self.end_handler_after(node, &unit, sequence, |term| term.handler.ends_by_itself);
    }

    pub fn cancel(&mut self, node: usize, unit: &UnitKey, sequence: u64) {
        self.end_handler_after(node, unit, sequence, |term| {
            term.cancelled = true;
            term.handler.winds_down_in
        });
    }

    fn end_handler_after(
        &mut self,
        node: usize,
        unit: &UnitKey,
        sequence: u64,
        after: impl FnOnce(&mut SharedTerm) -> Option<Duration>,
    ) {
        let life = self.nodes[node].life;
        let term = self.nodes[node].process.as_mut();
        let term = term.and_then(|it| it.terms.get_mut(&(unit.clone(), sequence)));
        let Some(after) = term.and_then(after) else {
            return;
        };
        let unit = unit.clone();
        self.schedule(
            self.now + after,
            Happening::HandlerEnds {
                node,
                life,
                unit,
                sequence,
            },
        );
    }

    pub fn handler_ends(&mut self, node: usize, unit: &UnitKey, sequence: u64) {
        let process = self.nodes[node].process.as_mut();
        let term = process.and_then(|it| it.terms.get_mut(&(unit.clone(), sequence)));
        if let Some(term) = term
            && std::mem::take(&mut term.running)
        {
            let end = if term.cancelled {
                HandlerEnd::Returned
            } else {
                HandlerEnd::Failed
            };
            let ended = GroupInput::HandlerEnded {
                unit: unit.clone(),
                sequence,
                end,
            };
            let epoch = term.epoch;
            self.group_input(node, ended);
            let process = self.nodes[node].process.as_ref();
            let present = process.and_then(|it| it.keepers.last());
            if present.is_none_or(|it| it.epoch != epoch || it.ending) {
                let mut inputs = VecDeque::new();
                self.end_lease_if_idle(node, epoch, &mut inputs);
                self.feed(node, inputs);
            }
        }
    }

    fn write(&mut self, node: usize, op: OpId, write: GroupWrite) {
        let verdict = super::checkers::Checkers::writes(self, node, &write);
        self.judge(verdict);
        let (kind, key, over, body) = match write {
            GroupWrite::Unit {
                key,
                over,
                record,
                sign,
            } => {
                let signature = sign.map(|by| Signature {
                    by,
                    key: key.clone(),
                    over,
                    record,
                });
                let body = Body::Unit(Some(record), signature);
                (Kind::Unit, GroupKey::Unit(key), over, body)
            }
            GroupWrite::Depose {
                epoch,
                over,
                identity,
            } => {
                self.tally.deposed += 1;
                let tombstone = MemberContent::Tombstone {
                    secret: None,
                    identity,
                };
                let body = Body::Member(Content::ForeignMarker, tombstone);
                (Kind::Tombstone, GroupKey::Member(epoch), over, body)
            }
            GroupWrite::Group {
                group,
                over,
                record,
            } => (
                Kind::Group,
                GroupKey::Group(group),
                over,
                Body::Group(Some(record)),
            ),
        };
        let within = self.nodes[node].settings.request_timeout;
        let request = Request::Store { key, over, body };
        self.send(node, (None, op), within, kind, request);
    }

    /// A machine that knows nothing.
    pub fn new_group(&self, node: usize) -> Group {
        let at = &self.nodes[node];
        Group::new(at.group.clone(), at.clock.at(self.now))
    }
}
