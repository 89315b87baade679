//! What members send, and what becomes of it.

use std::sync::Arc;

use nats_elect_core::event::FailureKind;
use nats_elect_core::group::{
    Epoch, GroupInput, GroupKey, GroupRecord, MemberContent, UnitKey, UnitRecord,
};
use nats_elect_core::record::{Entry, Snapshot};
use nats_elect_core::{Effect, Failure, Input, OpId, WriteOutcome};

use super::fault::Fault;
use super::member::{Asks, Progress, Request};
use super::properties::{Misconduct, Witness};
use super::state::State;
use super::stream::{Body, MADE, Stored};
use super::turn::{To, Turn};

impl Turn<'_> {
    /// What an election wants to be sent.
    pub fn send_of_keeper(&mut self, member: usize, epoch: Epoch, effect: Effect) {
        match effect {
            Effect::Write(write) => {
                let keeper = self.process(member).keeper(epoch);
                match keeper.and_then(|keeper| keeper.writes(&write.kind)) {
                    Some(asks) => self.send(member, Some(epoch), write.op, asks),
                    None => self.misbehaved(Misconduct::WroteAFenceRecord),
                }
            }
            Effect::Read { op, .. } => self.send(member, Some(epoch), op, Asks::Read),
            _ => {}
        }
    }

    pub fn send(&mut self, member: usize, whose: Option<Epoch>, op: OpId, asks: Asks) {
        let sent = self.state.now;
        self.process(member).requests.push(Request {
            whose,
            op,
            asks,
            progress: Progress::Sent,
            sent,
            given_up: false,
        });
    }

    /// The requests that were just sent take effect and are answered, unless it is still to be
    /// chosen what becomes of them.
    pub fn carry_requests(&mut self) {
        while let Some((member, request)) = self.state.just_sent() {
            if self.state.broken.is_some() || self.state.may_fail(member, request) {
                return;
            }
            self.arrive(member, request);
        }
    }

    /// The request takes effect and is answered.
    pub fn arrive(&mut self, member: usize, request: usize) {
        let request = self.process(member).requests.remove(request);
        match request.asks {
            Asks::Read => self.read(member, &request),
            Asks::Write { .. } => {
                let outcome = self.commit(&request.asks);
                self.tell_outcome(member, &request, outcome);
            }
        }
    }

    fn read(&mut self, member: usize, request: &Request) {
        let Some(epoch) = request.whose else {
            return;
        };
        let stands = self.state.stream.get(&GroupKey::Member(epoch));
        let snapshot = Snapshot {
            role: stands.and_then(|stored| entry(stored)),
            fence: None,
            epoch: Some(MADE.epoch),
            last_sequence: Some(self.state.stream.last),
        };
        let (op, outcome) = (request.op, Ok(snapshot));
        let input = Input::ReadEnded { op, outcome };
        self.feed(member, [To::Keeper(epoch, input)]);
    }

    fn tell_outcome(&mut self, member: usize, request: &Request, outcome: WriteOutcome) {
        let op = request.op;
        let input = match request.whose {
            None => To::Group(GroupInput::WriteEnded { op, outcome }),
            Some(epoch) => To::Keeper(epoch, Input::WriteEnded { op, outcome }),
        };
        self.feed(member, [input]);
    }

    /// The request does not take effect for now.
    pub fn delay(&mut self, member: usize, request: usize) {
        self.spend(Fault::Late);
        self.process(member).requests[request].progress = Progress::Adrift;
    }

    /// The request takes effect, and its answer does not come for now.
    pub fn take_silently(&mut self, member: usize, request: usize) {
        self.spend(Fault::Unanswered);
        self.land(member, request);
    }

    /// A request takes effect, maybe long after it was sent. Its answer is on its way.
    pub fn land(&mut self, member: usize, request: usize) {
        self.disturbed();
        let asks = self.process(member).requests[request].asks.clone();
        let outcome = self.commit(&asks);
        let request = &mut self.process(member).requests[request];
        let late = request.given_up;
        request.progress = Progress::Answered(outcome);
        if late {
            self.witness(Witness::GhostLanded);
        }
    }

    /// A write of a process that died takes effect.
    pub fn land_ghost(&mut self, ghost: usize) {
        self.disturbed();
        let ghost = self.state.ghosts.remove(ghost);
        self.commit(&ghost);
        self.witness(Witness::GhostLanded);
    }

    /// An answer comes, twice.
    pub fn answer(&mut self, member: usize, request: usize) {
        self.disturbed();
        let request = self.process(member).requests.remove(request);
        if let Progress::Answered(outcome) = &request.progress {
            self.tell_outcome(member, &request, outcome.clone());
            self.tell_outcome(member, &request, outcome.clone());
        }
    }

    /// The request is given up. Its answer may come later.
    pub fn give_up(&mut self, member: usize, request: usize) {
        let request = &mut self.process(member).requests[request];
        request.given_up = true;
        let request = request.clone();
        let failure = Failure {
            kind: FailureKind::Timeout,
            detail: String::new(),
        };
        self.tell_outcome(member, &request, WriteOutcome::Failed(failure));
    }

    fn commit(&mut self, asks: &Asks) -> WriteOutcome {
        let Asks::Write { key, over, body } = asks else {
            unreachable!("reads are answered at once");
        };
        let stream = Arc::make_mut(&mut self.state.stream);
        let before = stream.get(key).cloned();
        match stream.store(key.clone(), Some(*over), body.clone()) {
            Ok(revision) => {
                self.say(|| format!("    {key} = {revision} over {over}: {body:?}"));
                self.note(key, before.as_deref(), body);
                WriteOutcome::Acked { revision }
            }
            Err(stands) => {
                self.say(|| format!("    {key} is refused, it stands at {stands}"));
                self.witness(Witness::Refused);
                let current = Some(stands);
                WriteOutcome::Conflict { current }
            }
        }
    }

    fn note(&mut self, key: &GroupKey, before: Option<&Stored>, body: &Body) {
        match body {
            Body::Unit(Some(UnitRecord::Owned(to)), Some(from)) if to != from => {
                self.witness(Witness::Given);
            }
            Body::Unit(Some(UnitRecord::Closed), _) => self.witness(Witness::Closed),
            Body::Unit(Some(UnitRecord::Nobody), None) if before.is_none() => {
                self.witness(Witness::Created);
            }
            Body::Member(_, MemberContent::Tombstone { secret: None, .. }) => {
                self.witness(Witness::Deposed);
                let mut leases = self.state.living().filter_map(|(_, it)| {
                    let until = it.group.lease_until();
                    let holds = until.is_some_and(|until| self.state.now < until);
                    it.group.own_epoch().filter(|_| holds)
                });
                let holds = leases.any(|epoch| GroupKey::Member(epoch) == *key);
                drop(leases);
                if holds {
                    self.misbehaved(Misconduct::DeposedAMemberWithALease);
                }
            }
            _ => {}
        }
    }

    /// Forgets what does nothing any more: writes that can't take effect, as a key never comes back
    /// to a sequence that it has left but to none by a purge, and answers that nobody waits for.
    pub fn forget_requests(&mut self) {
        let state = &self.state;
        let can_land = |asks: &Asks| state.can_land(asks);
        let ghosts: Vec<Asks> = state
            .ghosts
            .iter()
            .filter(|it| can_land(it))
            .cloned()
            .collect();
        let ttl = self.configuration.lease.ttl;
        let is_done = |process: &super::member::Process, request: &Request| {
            let waits = !request.given_up
                || request.whose.is_some_and(|epoch| {
                    let lives = process.keepers.iter().any(|it| it.epoch == epoch);
                    lives && state.now < request.sent + ttl
                });
            match request.progress {
                Progress::Sent => false,
                Progress::Adrift => request.given_up && !can_land(&request.asks),
                Progress::Answered(_) => !waits,
            }
        };
        let done = state.living().map(|(member, process)| {
            let requests = process.requests.iter();
            let done: Vec<bool> = requests.map(|it| is_done(process, it)).collect();
            (member, done)
        });
        let done: Vec<_> = done.filter(|(_, done)| done.contains(&true)).collect();
        for (member, done) in done {
            let mut done = done.into_iter();
            let requests = &mut self.process(member).requests;
            requests.retain(|_| !done.next().unwrap_or(false));
        }
        if ghosts.len() < self.state.ghosts.len() {
            self.state.ghosts = ghosts;
        }
    }
}

impl State {
    /// A request of which it is not chosen yet what becomes of it. They are carried in the order in
    /// which they were sent.
    pub fn just_sent(&self) -> Option<(usize, usize)> {
        self.living().find_map(|(member, process)| {
            let mut requests = process.requests.iter();
            let request = requests.position(|it| it.progress == Progress::Sent)?;
            Some((member, request))
        })
    }

    /// Whether the way of a request can make a difference: it would take effect.
    pub fn may_fail(&self, member: usize, request: usize) -> bool {
        let process = self.members[member].as_ref().expect("it lives");
        let may = self.faults.may(Fault::Late) || self.faults.may(Fault::Unanswered);
        may && self.lands_now(&process.requests[request].asks)
    }

    fn lands_now(&self, asks: &Asks) -> bool {
        match asks {
            Asks::Read => false,
            Asks::Write { key, over, .. } => self.stream.sequence(key) == *over,
        }
    }

    fn can_land(&self, asks: &Asks) -> bool {
        let Asks::Write { key, over, .. } = asks else {
            return false;
        };
        let purge = match key {
            GroupKey::Unit(_) => Fault::Purge,
            GroupKey::Member(_) => Fault::PurgeMember,
            GroupKey::Group(_) => Fault::PurgeGroup,
        };
        self.lands_now(asks) || (*over == 0 && self.faults.may(purge))
    }

    /// The group's record, and where it stands.
    pub fn group_record(&self) -> Option<(u64, GroupRecord)> {
        let key = GroupKey::Group(super::configuration::group());
        let stored = self.stream.get(&key)?;
        match stored.body {
            Body::Group(record) => Some((stored.sequence, record)),
            _ => None,
        }
    }

    /// Whether a unit of an earlier generation stands at this sequence as one that members closed.
    pub fn is_closed_for_good(&self, unit: &UnitKey, over: u64) -> bool {
        let stands = self.stream.get(&GroupKey::Unit(unit.clone()));
        let closed = stands.is_some_and(|it| {
            it.sequence == over && matches!(it.body, Body::Unit(Some(UnitRecord::Closed), _))
        });
        let group = self.group_record();
        closed && group.is_some_and(|(at, record)| unit.generation < record.generation && at < over)
    }
}

/// A message under a member's key, as its election reads it.
pub fn entry(stored: &Stored) -> Option<Entry> {
    let Body::Member(content, _) = &stored.body else {
        return None;
    };
    Some(Entry {
        revision: stored.sequence,
        content: content.clone(),
    })
}
