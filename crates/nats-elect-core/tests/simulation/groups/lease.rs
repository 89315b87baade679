//! The lease of a process: its epochs, and the elections that keep them.

use std::collections::{BTreeSet, VecDeque};

use nats_elect_core::config::Membership;
use nats_elect_core::group::{
    Epoch, EpochKey, GroupInput, GroupKey, Identity, MemberContent, MemberInfo, SeenMember, Support,
};
use nats_elect_core::record::{Content, Record};
use nats_elect_core::release::ReleaseSecret;
use nats_elect_core::{
    Candidate, Effect, Election, HandlerEnd, Input, Intent, Link, Moment, RequestId, WriteKind,
};

use super::driver::To;
use super::node::{Claimed, Keeper, Trouble};
use super::requests::{Kind, Request};
use super::stream::Body;
use super::world::{Happening, World};
use crate::bucket::seen;

impl World {
    pub fn step_keeper(
        &mut self,
        node: usize,
        epoch: Epoch,
        input: Input,
        inputs: &mut VecDeque<To>,
    ) {
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
                // The lease may last on for the handlers to finish.
                Effect::Cancel { .. } => {
                    self.tally.wound_down += 1;
                    if let Some(keeper) = self.keeper_of(node, epoch) {
                        keeper.ending = true;
                    }
                    self.cancel_terms_of(node, epoch);
                    self.end_lease_if_idle(node, epoch, inputs);
                }
                Effect::Revoke { .. } | Effect::Abort { .. } => {
                    inputs.push_back(To::Group(GroupInput::LeaseLost { epoch }));
                    self.end_lease_if_idle(node, epoch, inputs);
                }
                Effect::CheckHealth { term } => {
                    let healthy = true;
                    inputs.push_back(To::Keeper(epoch, Input::Health { term, healthy }));
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
            self.wake_at(due, node, Some(epoch), wake);
        }
        self.forget_stopped(node);
    }

    /// Asks all handlers under an epoch's lease to end.
    fn cancel_terms_of(&mut self, node: usize, epoch: Epoch) {
        let process = self.nodes[node].process.as_ref();
        let terms = process.into_iter().flat_map(|it| &it.terms);
        let of_epoch = terms.filter(|(_, it)| it.running && it.epoch == epoch);
        for (unit, sequence) in of_epoch.map(|(of, _)| of.clone()).collect::<Vec<_>>() {
            self.cancel(node, &unit, sequence);
        }
    }

    /// Tells the election of an epoch that nothing of it runs any more.
    pub fn end_lease_if_idle(&mut self, node: usize, epoch: Epoch, inputs: &mut VecDeque<To>) {
        let Some(process) = &mut self.nodes[node].process else {
            return;
        };
        let mut terms = process.terms.values();
        let runs = terms.any(|it| it.running && it.epoch == epoch);
        let keeper = process.keeper(epoch).filter(|_| !runs);
        if let Some(term) = keeper.and_then(|it| it.term.take()) {
            let end = HandlerEnd::Returned;
            inputs.push_back(To::Keeper(epoch, Input::HandlerEnded { term, end }));
        }
    }

    /// Has the election of an epoch end, if it has not been told so.
    pub fn leave_epoch(&mut self, node: usize, epoch: Epoch, inputs: &mut VecDeque<To>) {
        if let Some(keeper) = self.keeper_of(node, epoch)
            && !std::mem::replace(&mut keeper.leaving, true)
        {
            inputs.push_back(To::Keeper(
                epoch,
                Input::Intend(RequestId::NOBODY, Intent::Stop { release: true }),
            ));
        }
    }

    pub fn keeper_of(&mut self, node: usize, epoch: Epoch) -> Option<&mut Keeper> {
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
        let usable = at.linked && !at.troubles.contains_key(&Trouble::Unusable);
        let bucket = self.stream.made;
        let Some(process) = &mut at.process else {
            return;
        };
        process.own.insert(epoch);
        process.keepers.push(Keeper {
            epoch,
            identity,
            election,
            term: None,
            ending: false,
            leaving: false,
            wake: 0,
        });
        if usable {
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
            waits: process.is_some_and(|it| it.group.waits(name)),
            ..Support::default()
        };
        let groups = self.nodes[node].group.groups.keys();
        let takes_units = process.is_some_and(|it| it.group.has_joined() && !it.drains);
        MemberInfo {
            groups: groups.map(|name| (name.clone(), support(name))).collect(),
            cordoned: self.nodes[node].tells_joined && !takes_units,
            ..MemberInfo::new(key)
        }
    }

    /// Has the next heartbeat say what there is to say.
    pub fn tell(&mut self, node: usize, inputs: &mut VecDeque<To>) {
        let present = self.nodes[node].present_epoch();
        let keeper = present.and_then(|epoch| self.keeper_of(node, epoch));
        if let Some((epoch, key)) = keeper.map(|it| (it.epoch, it.identity.key)) {
            let info = Box::new(self.info(node, key));
            inputs.push_back(To::Keeper(epoch, Input::Tell(info)));
        }
    }

    /// Has the next heartbeat written now, with what there is to say.
    pub fn heartbeat_now(&mut self, node: usize, inputs: &mut VecDeque<To>) {
        self.tell(node, inputs);
        let present = self.nodes[node].present_epoch();
        let keeper = present.and_then(|epoch| self.keeper_of(node, epoch));
        if let Some(keeper) = keeper
            && keeper.term.is_some()
        {
            let (request, term) = (RequestId::NOBODY, keeper.term);
            let validate = Input::Validate { request, term };
            inputs.push_back(To::Keeper(keeper.epoch, validate));
        }
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
