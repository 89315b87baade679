//! Carries out effects as the library will.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use nats_elect_core::config::Membership;
use nats_elect_core::group::{
    Epoch, EpochKey, Group, GroupEffect, GroupInput, GroupKey, GroupWrite, Identity, MemberContent,
    MemberInfo, SeenMember, Support, UnitKey,
};
use nats_elect_core::record::{Content, Record};
use nats_elect_core::release::ReleaseSecret;
use nats_elect_core::{
    Candidate, Effect, Election, HandlerEnd, Input, Link, Moment, OpId, RequestId, WriteKind,
};

use super::node::{Claimed, Keeper, SharedTerm};
use super::requests::{Kind, Request};
use super::stream::{Body, Signature};
use super::world::{Happening, World};
use crate::bucket::seen;

/// An input, for the machine or for an epoch's election.
enum To {
    Group(GroupInput),
    Keeper(Epoch, Input),
}

impl World {
    pub fn group_input(&mut self, node: usize, input: GroupInput) {
        self.feed(node, To::Group(input));
    }

    pub fn keeper_input(&mut self, node: usize, epoch: Epoch, input: Input) {
        self.feed(node, To::Keeper(epoch, input));
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

    fn feed(&mut self, node: usize, first: To) {
        let mut inputs = VecDeque::from([first]);
        while let Some(input) = inputs.pop_front() {
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
            let at = self.nodes[node].clock.when(due);
            let life = self.nodes[node].life;
            let keeper = None;
            let wake = Happening::Wake {
                node,
                life,
                keeper,
                wake,
            };
            self.schedule(at, wake);
        }
    }

    fn step_keeper(&mut self, node: usize, epoch: Epoch, input: Input, inputs: &mut VecDeque<To>) {
        let fresh = self.chance.fresh();
        let now = self.nodes[node].clock.at(self.now);
        let Some(keeper) = (self.nodes[node].process.as_mut()).and_then(|it| it.keeper(epoch))
        else {
            return;
        };
        let effects = keeper.election.step(now, fresh, input);
        let due = keeper.election.next_wakeup();
        keeper.wake += 1;
        let wake = keeper.wake;
        let (identity, bequest) = (keeper.identity, keeper.election.bequest());
        let held = bequest.map(|it| it.revision);
        self.bequeath(node, identity, bequest);
        for effect in effects {
            match effect {
                Effect::StartTerm(start) => {
                    if let Some(keeper) = self.keeper_of(node, epoch) {
                        keeper.term = Some(start.term);
                    }
                    granted(epoch, held, start.lease, inputs);
                }
                Effect::Extend { lease, .. } => granted(epoch, held, lease, inputs),
                Effect::Cancel { .. } | Effect::Revoke { .. } => {
                    inputs.push_back(To::Group(GroupInput::LeaseLost { epoch }));
                }
                Effect::Write(write) => {
                    let Some(keeper) = self.keeper_of(node, epoch) else {
                        continue;
                    };
                    let identity = keeper.identity;
                    let (over, body) = match &write.kind {
                        WriteKind::Claim { over, record } | WriteKind::Renew { over, record } => {
                            (*over, heartbeat(record, identity))
                        }
                        WriteKind::Release { over, release } => {
                            let secret = release.secret;
                            let identity = Some(identity);
                            let tombstone = MemberContent::Tombstone { secret, identity };
                            (*over, Body::Member(Content::Release(*release), tombstone))
                        }
                        WriteKind::Fence { .. } => {
                            let detail = format!("node-{node} writes a fence record");
                            self.judge(Err(self.broken_conduct(detail)));
                            continue;
                        }
                    };
                    let key = GroupKey::Member(epoch);
                    let request = Request::Store { key, over, body };
                    let whose = (Some(epoch), write.op);
                    self.send(node, whose, write.within, Kind::Heartbeat, request);
                }
                Effect::Read { op, within, .. } => {
                    let request = Request::Read(epoch);
                    self.send(node, (Some(epoch), op), within, Kind::Read, request);
                }
                Effect::Reopen => {
                    let (at, life) = (self.now + self.latency(), self.nodes[node].life);
                    self.schedule(at, Happening::Link { node, life });
                }
                _ => {}
            }
        }
        if let Some(due) = due {
            let at = self.nodes[node].clock.when(due);
            let life = self.nodes[node].life;
            let keeper = Some(epoch);
            let wake = Happening::Wake {
                node,
                life,
                keeper,
                wake,
            };
            self.schedule(at, wake);
        }
        self.forget_stopped(node);
    }

    fn keeper_of(&mut self, node: usize, epoch: Epoch) -> Option<&mut Keeper> {
        self.nodes[node].process.as_mut()?.keeper(epoch)
    }

    /// Elections that have left are not needed. If the present one has, another epoch follows.
    fn forget_stopped(&mut self, node: usize) {
        let pause = self.nodes[node].settings.heartbeat / 2;
        let (at, life) = (self.now + pause, self.nodes[node].life);
        let Some(process) = &mut self.nodes[node].process else {
            return;
        };
        let present = process.keepers.last().map(|keeper| keeper.epoch);
        (process.keepers).retain(|it| Some(it.epoch) == present || !it.election.is_stopped());
        let last = process.keepers.last();
        if last.is_some_and(|keeper| keeper.election.is_stopped()) {
            self.schedule(at, Happening::Claim { node, life });
        }
    }

    pub fn claim_if_needed(&mut self, node: usize) {
        let process = self.nodes[node].process.as_ref();
        let last = process.and_then(|process| process.keepers.last());
        if last.is_none_or(|keeper| keeper.election.is_stopped()) {
            self.begin_epoch(node);
        }
    }

    /// Claims a new epoch.
    pub fn begin_epoch(&mut self, node: usize) {
        let claimed = self.draw_epoch(node);
        let Claimed {
            epoch,
            identity,
            secret,
        } = claimed;
        self.claimed.push(claimed);
        self.tally.epochs += 1;
        self.say(node, "claims", &epoch);
        let info = self.info(node, identity.key);
        let incarnation = self.chance.uuid();
        let at = &mut self.nodes[node];
        let mut settings = at.settings.clone();
        settings.member = Some(Box::new(Membership { secret, info }));
        let candidate = Candidate {
            instance_id: format!("node-{node}"),
            incarnation,
            first_beat: 0,
            paused: false,
            settings,
        };
        let election = Election::new(candidate, at.clock.at(self.now));
        let (linked, bucket) = (at.linked, self.stream.made);
        let Some(process) = &mut at.process else {
            return;
        };
        process.own.insert(epoch);
        process.keepers.push(Keeper {
            epoch,
            identity,
            election,
            term: None,
            wake: 0,
        });
        if linked {
            self.keeper_input(node, epoch, Input::Link(Link::Up(bucket)));
        }
    }

    /// A name that nobody knows before.
    pub fn draw_epoch(&mut self, node: usize) -> Claimed {
        let mut key = [0; 32];
        for part in key.chunks_mut(8) {
            part.copy_from_slice(&self.chance.next().to_be_bytes());
        }
        let secret = ReleaseSecret::new(self.chance.uuid().as_u128());
        let identity = Identity {
            key: EpochKey::new(key),
            ttl: self.nodes[node].settings.ttl,
            release: secret.hash(),
        };
        Claimed {
            epoch: identity.epoch(),
            identity,
            secret,
        }
    }

    /// What a member says of itself.
    pub fn info(&self, node: usize, key: EpochKey) -> MemberInfo {
        let process = self.nodes[node].process.as_ref();
        let support = |name| Support {
            format: 2,
            generation: process.map_or(0, |it| it.group.generation(name)),
            failing: process.map_or_else(BTreeSet::new, |it| it.group.failing(name)),
            ..Support::default()
        };
        let groups = self.nodes[node].group.groups.keys();
        MemberInfo {
            groups: groups.map(|name| (name.clone(), support(name))).collect(),
            ..MemberInfo::new(key)
        }
    }

    fn obey(&mut self, node: usize, effect: GroupEffect, inputs: &mut VecDeque<To>) {
        match effect {
            GroupEffect::Write { op, write } => self.write(node, op, write),
            GroupEffect::HeartbeatNow => {
                if let Some(epoch) = self.nodes[node].present_epoch() {
                    let request = RequestId(0);
                    let term = None;
                    inputs.push_back(To::Keeper(epoch, Input::Validate { request, term }));
                }
            }
            GroupEffect::Rewatch => {
                self.tally.rewatches += 1;
                self.watch(node, Duration::ZERO);
            }
            GroupEffect::NewEpoch => {
                self.tally.leases_lost += 1;
                if let Some(epoch) = self.nodes[node].present_epoch() {
                    inputs.push_back(To::Keeper(epoch, Input::Stop { release: true }));
                }
                self.begin_epoch(node);
            }
            GroupEffect::Retire { epoch } => {
                let end = HandlerEnd::Returned;
                if let Some(term) = self.keeper_of(node, epoch).and_then(|it| it.term) {
                    inputs.push_back(To::Keeper(epoch, Input::HandlerEnded { term, end }));
                }
            }
            GroupEffect::Extend { until } => {
                let present = self.nodes[node].present_epoch();
                let keeper = present.and_then(|epoch| self.keeper_of(node, epoch));
                if let Some((epoch, key)) = keeper.map(|it| (it.epoch, it.identity.key)) {
                    let info = Box::new(self.info(node, key));
                    inputs.push_back(To::Keeper(epoch, Input::Tell(info)));
                }
                let now = self.nodes[node].clock.at(self.now);
                let Some(process) = &mut self.nodes[node].process else {
                    return;
                };
                for term in process.terms.values_mut() {
                    // A deadline that has passed stays passed.
                    if Some(term.epoch) == present && term.is_valid(now) {
                        term.until = until;
                    }
                }
            }
            GroupEffect::Start {
                unit,
                sequence,
                until,
            } => self.start(node, &unit, sequence, until),
            GroupEffect::Cancel { unit, sequence } => {
                self.end_handler_after(node, &unit, sequence, |term| {
                    term.cancelled = true;
                    term.handler.winds_down_in
                });
            }
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

    fn start(&mut self, node: usize, unit: &UnitKey, sequence: u64, until: Moment) {
        self.tally.terms += 1;
        let verdict = super::checkers::Checkers::started(self, node, unit, sequence);
        self.judge(verdict);
        let Some(epoch) = self.nodes[node].present_epoch() else {
            return;
        };
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
        self.end_handler_after(node, unit, sequence, |term| term.handler.ends_by_itself);
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
            self.group_input(node, ended);
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

/// A member's record, as both machines read it.
pub fn heartbeat(record: &Record, identity: Identity) -> Body {
    let seen_member = SeenMember {
        id: record.id.clone(),
        nonce: Some(record.nonce),
        identity: Some(identity),
        info: record.member.as_deref().cloned(),
    };
    Body::Member(seen(record), MemberContent::Record(Box::new(seen_member)))
}

/// The machine is told what the epoch's election has confirmed.
fn granted(epoch: Epoch, sequence: Option<u64>, until: Moment, inputs: &mut VecDeque<To>) {
    if let Some(sequence) = sequence {
        inputs.push_back(To::Group(GroupInput::Granted {
            epoch,
            sequence,
            until,
        }));
    }
}
