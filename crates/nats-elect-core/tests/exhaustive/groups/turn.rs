//! One event and all that follows from it at once: what the driver of a member does.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nats_elect_core::group::{
    Epoch, GroupEffect, GroupInput, GroupWrite, Hint, MemberInfo, MemberState, Support, UnitKey,
    UnitRecord,
};
use nats_elect_core::release::ReleaseSecret;
use nats_elect_core::token::LeaseToken;
use nats_elect_core::{
    Effect, Fresh, HandlerEnd, Input, Intent, Link, Moment, RequestId, TermStart, WriteOutcome,
};
use uuid::Uuid;

use super::configuration::{Configuration, group};
use super::fault::Fault;
use super::member::{Keeper, Process, Term, written};
use super::properties::{Broken, Misconduct, Witness, Witnessed};
use super::state::State;
use super::stream::MADE;

/// An input, for the machine or for an epoch's election.
#[derive(Debug)]
pub enum To {
    Group(GroupInput),
    Keeper(Epoch, Input),
}

/// A state on its way to the next.
pub struct Turn<'a> {
    pub configuration: &'a Configuration,
    pub state: State,
    /// What happens, in words, if anybody listens.
    pub tale: Option<Vec<String>>,
    /// Hints that were sent in this turn.
    pub hints: VecDeque<(Epoch, Vec<Hint>)>,
}

impl<'a> Turn<'a> {
    pub fn new(configuration: &'a Configuration, state: &State) -> Self {
        let mut state = state.clone();
        state.witnessed = Witnessed::default();
        Self {
            configuration,
            state,
            tale: None,
            hints: VecDeque::new(),
        }
    }

    pub fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(tale) = &mut self.tale {
            tale.push(line());
        }
    }

    pub fn process(&mut self, member: usize) -> &mut Process {
        let process = self.state.members[member].as_mut();
        Arc::make_mut(process.expect("only live ones act"))
    }

    pub fn spend(&mut self, fault: Fault) {
        self.state.faults.spend(fault);
        self.disturbed();
    }

    /// Something went wrong, or ended to be wrong: the time to an owner counts anew.
    pub const fn disturbed(&mut self) {
        self.state.count_anew();
    }

    pub fn broke(&mut self, broken: Broken) {
        self.state.broken.get_or_insert(broken);
    }

    pub fn misbehaved(&mut self, misconduct: Misconduct) {
        self.broke(Broken::Conduct(misconduct));
    }

    pub const fn witness(&mut self, witness: Witness) {
        self.state.witnessed.add(witness);
    }

    pub fn tell_group(&mut self, member: usize, input: GroupInput) {
        self.feed(member, [To::Group(input)]);
    }

    /// Feeds inputs, and what their effects bring at once.
    pub fn feed(&mut self, member: usize, inputs: impl IntoIterator<Item = To>) {
        let mut inputs = VecDeque::from_iter(inputs);
        if self.state.members[member].is_none() {
            return;
        }
        loop {
            while let Some(input) = inputs.pop_front() {
                if self.state.broken.is_some() {
                    return;
                }
                self.say(|| format!("    {member} takes {input:?}"));
                match input {
                    To::Group(input) => self.step_group(member, input, &mut inputs),
                    To::Keeper(epoch, input) => self.step_keeper(member, epoch, input, &mut inputs),
                }
            }
            self.settle(member, &mut inputs);
            if inputs.is_empty() {
                break;
            }
        }
        let process = self.process(member);
        let left = process.leaves && process.group.is_idle() && process.keepers.is_empty();
        if left && process.terms.is_empty() {
            self.end_process(member);
            self.witness(Witness::Left);
        }
    }

    fn step_group(&mut self, member: usize, input: GroupInput, inputs: &mut VecDeque<To>) {
        let now = self.state.now;
        let ticks = matches!(input, GroupInput::Tick);
        let group = &mut self.process(member).group;
        let Ok(effects) = catch_unwind(AssertUnwindSafe(|| group.step(now, input))) else {
            self.misbehaved(Misconduct::Panicked);
            return;
        };
        let due = group.next_wakeup();
        let shortened = group.regressed_until().is_some();
        for effect in effects {
            self.say(|| format!("    {member} wants {effect:?}"));
            self.obey(member, effect, inputs);
        }
        if ticks && due.is_some_and(|due| due <= now) {
            self.misbehaved(Misconduct::WantedToWakeInThePast);
        }
        if shortened {
            self.misbehaved(Misconduct::TookTheStreamForShortened);
        }
    }

    fn step_keeper(
        &mut self,
        member: usize,
        epoch: Epoch,
        input: Input,
        inputs: &mut VecDeque<To>,
    ) {
        let now = self.state.now;
        let confirmed = match &input {
            Input::WriteEnded {
                outcome: WriteOutcome::Acked { revision },
                ..
            } => Some(*revision),
            _ => None,
        };
        let Some(keeper) = self.process(member).keeper(epoch) else {
            return;
        };
        let fresh = Fresh {
            lease_token: LeaseToken::new(Uuid::nil()),
            release_secret: ReleaseSecret::new(0),
            chance: 0.0,
        };
        let election = &mut keeper.election;
        let Ok(effects) = catch_unwind(AssertUnwindSafe(|| election.step(now, fresh, input)))
        else {
            self.misbehaved(Misconduct::Panicked);
            return;
        };
        let sequence = confirmed.max(election.status().revision);
        let granted = |until| {
            let input = sequence.map(|sequence| GroupInput::Granted {
                epoch,
                sequence,
                until,
            });
            input.map(To::Group)
        };
        for effect in effects {
            match effect {
                Effect::StartTerm(TermStart { term, lease, .. }) => {
                    if let Some(keeper) = self.process(member).keeper(epoch) {
                        keeper.term = Some(term);
                    }
                    inputs.extend(granted(lease));
                }
                Effect::Extend { lease, .. } => inputs.extend(granted(lease)),
                Effect::Cancel { .. } => {
                    let of_epoch = |term: &Term| term.epoch == Some(epoch);
                    self.each_term(member, of_epoch, |term| term.cancelled = true, inputs);
                    self.end_lease_if_idle(member, epoch, inputs);
                }
                Effect::Revoke { .. } | Effect::Abort { .. } => {
                    inputs.push_back(To::Group(GroupInput::LeaseLost { epoch }));
                    self.end_lease_if_idle(member, epoch, inputs);
                }
                effect => self.send_of_keeper(member, epoch, effect),
            }
        }
    }

    /// Changes terms, and ends the handlers that end by that.
    fn each_term(
        &mut self,
        member: usize,
        which: impl Fn(&Term) -> bool,
        change: impl Fn(&mut Term),
        inputs: &mut VecDeque<To>,
    ) {
        let terms = &mut self.process(member).terms;
        for term in terms.values_mut().filter(|term| which(term)) {
            change(term);
        }
        self.end_handlers(member, inputs);
    }

    /// Ends the handlers that end now, unless it is still to be chosen whether they do.
    fn end_handlers(&mut self, member: usize, inputs: &mut VecDeque<To>) {
        let faults = self.state.faults;
        let waits = |term: &Term| {
            let fault = if term.revoked {
                Fault::Blocked
            } else {
                Fault::Deaf
            };
            faults.may(fault)
        };
        let terms = &self.process(member).terms;
        let ending = terms.iter().filter(|(_, it)| it.ends() && !waits(it));
        let ending: Vec<UnitKey> = ending.map(|(unit, _)| unit.clone()).collect();
        for unit in ending {
            self.handler_ends(member, &unit, HandlerEnd::Returned, inputs);
        }
    }

    /// The handler and all that it spawned have ended.
    pub fn handler_ends(
        &mut self,
        member: usize,
        unit: &UnitKey,
        end: HandlerEnd,
        inputs: &mut VecDeque<To>,
    ) {
        let process = self.process(member);
        let Some(term) = process.terms.remove(unit) else {
            return;
        };
        let present = process.present;
        inputs.push_back(To::Group(GroupInput::HandlerEnded {
            unit: unit.clone(),
            sequence: term.sequence,
            end,
        }));
        if let Some(epoch) = term.epoch.filter(|_| term.epoch != present) {
            self.end_lease_if_idle(member, epoch, inputs);
        }
    }

    /// Tells the election of an epoch that nothing of it runs any more.
    fn end_lease_if_idle(&mut self, member: usize, epoch: Epoch, inputs: &mut VecDeque<To>) {
        let process = self.process(member);
        let runs = process.terms.values().any(|it| it.epoch == Some(epoch));
        let keeper = process.keeper(epoch).filter(|_| !runs);
        if let Some(term) = keeper.and_then(|keeper| keeper.term.take()) {
            let end = HandlerEnd::Returned;
            inputs.push_back(To::Keeper(epoch, Input::HandlerEnded { term, end }));
        }
    }

    fn obey(&mut self, member: usize, effect: GroupEffect, inputs: &mut VecDeque<To>) {
        let now = self.state.now;
        match effect {
            GroupEffect::Write { op, write } => {
                self.may_write(member, &write);
                self.send(member, None, op, written(write));
            }
            GroupEffect::HeartbeatNow => self.heartbeat(member, inputs),
            GroupEffect::Rewatch => self.process(member).wants_watch = true,
            GroupEffect::NewEpoch => {
                self.witness(Witness::LeaseLost);
                self.process(member).present = None;
            }
            GroupEffect::Retire { epoch } => {
                self.end_lease_if_idle(member, epoch, inputs);
                self.stop_keepers(member, |keeper| keeper.epoch == epoch, inputs);
            }
            GroupEffect::Extend { until } => self.extend(member, until, inputs),
            GroupEffect::Start {
                unit,
                sequence,
                until,
            } => self.start(member, unit, sequence, until),
            GroupEffect::Cancel { unit, sequence } => {
                self.end_term(
                    member,
                    &unit,
                    sequence,
                    |term| term.cancelled = true,
                    inputs,
                );
            }
            GroupEffect::Revoke { unit, sequence } => {
                let term = self.process(member).terms.get(&unit);
                if term.is_some_and(|term| term.is_valid(now)) {
                    self.witness(Witness::Revoked);
                }
                self.end_term(member, &unit, sequence, |term| term.revoked = true, inputs);
            }
            GroupEffect::Hint { to, hints } => self.hints.push_back((to, hints)),
        }
    }

    fn end_term(
        &mut self,
        member: usize,
        unit: &UnitKey,
        sequence: u64,
        how: impl Fn(&mut Term),
        inputs: &mut VecDeque<To>,
    ) {
        if let Some(term) = self.process(member).terms.get_mut(unit)
            && term.sequence == sequence
        {
            how(term);
        }
        self.end_handlers(member, inputs);
    }

    fn heartbeat(&mut self, member: usize, inputs: &mut VecDeque<To>) {
        let process = self.process(member);
        let keeper = process.present.and_then(|epoch| process.keeper(epoch));
        if let Some(keeper) = keeper
            && let Some(term) = keeper.term
        {
            let request = RequestId::NOBODY;
            let term = Some(term);
            let validate = Input::Validate { request, term };
            inputs.push_back(To::Keeper(keeper.epoch, validate));
        }
    }

    fn extend(&mut self, member: usize, until: Moment, inputs: &mut VecDeque<To>) {
        self.tell_of_itself(member, inputs);
        let now = self.state.now;
        let process = self.process(member);
        let Some(present) = process.present else {
            return;
        };
        let mut over = false;
        for term in process.terms.values_mut() {
            if term.epoch == Some(present) && !term.revoked {
                // A deadline that was passed stays passed: somebody may have seen it.
                over |= !term.is_valid(now);
                if term.is_valid(now) {
                    term.until = until;
                }
            }
        }
        if over {
            let lost = GroupInput::LeaseLost { epoch: present };
            inputs.push_back(To::Group(lost));
        }
    }

    /// Has the member's record say whether it takes units, and which units keep failing there. It does
    /// not say that it waits: that only changes plans, and members of an earlier version do not either.
    pub fn tell_of_itself(&mut self, member: usize, inputs: &mut VecDeque<To>) {
        let process = self.process(member);
        let cordoned = process.leaves || !process.group.has_joined();
        let support = Support {
            generation: process.group.generation(&group()),
            failing: process.group.failing(&group()),
            ..Support::default()
        };
        let groups = BTreeMap::from([(group(), support)]);
        let keeper = process.present.and_then(|epoch| process.keeper(epoch));
        let is_new = |it: &MemberInfo| it.cordoned != cordoned || it.groups != groups;
        if let Some(keeper) = keeper.filter(|keeper| is_new(&keeper.info)) {
            (keeper.info.cordoned, keeper.info.groups) = (cordoned, groups);
            let tell = Input::Tell(Box::new(keeper.info.clone()));
            inputs.push_back(To::Keeper(keeper.epoch, tell));
            self.heartbeat(member, inputs);
        }
    }

    fn start(&mut self, member: usize, unit: UnitKey, sequence: u64, until: Moment) {
        let last = self.state.tokens.get(&unit).copied();
        if last.is_some_and(|last| sequence <= last) {
            self.broke(Broken::TokenOrder);
        }
        self.state.tokens.insert(unit.clone(), sequence);
        self.witness(last.map_or(Witness::Owned, |_| Witness::OwnedAgain));
        if unit.generation > 1 {
            self.witness(Witness::Grown);
        }
        let process = self.process(member);
        let term = Term {
            sequence,
            epoch: process.present,
            until,
            revoked: false,
            cancelled: false,
            deaf: false,
            blocked: false,
        };
        if process.terms.insert(unit, term).is_some() {
            self.misbehaved(Misconduct::StartedASecondHandler);
        }
    }

    /// What a write must fulfil before it is sent.
    fn may_write(&mut self, member: usize, write: &GroupWrite) {
        let now = self.state.now;
        let GroupWrite::Unit {
            key,
            over,
            record,
            sign,
        } = write
        else {
            return;
        };
        let over_closed = self.state.is_closed_for_good(key, *over);
        let process = self.process(member);
        let acts = process.valid_terms(now).any(|unit| unit == key);
        let known = process.group.unit_owner(key);
        let (stands, owner) = known.unwrap_or_default();
        let is_own = |epoch| process.keepers.iter().any(|it| it.epoch == epoch);
        let foreign = sign.is_some_and(|by| !is_own(by));
        let lives = |owner| {
            let mut members = process.group.members();
            let seen = members.find(|it| it.epoch == owner);
            seen.is_some_and(|it| it.state != MemberState::Deposed || now < it.over_at)
        };
        let taken = sign.is_none() && owner.is_some_and(lives);
        for (is, misconduct) in [
            (acts, Misconduct::WroteOverAUnitOnWhichItActs),
            (foreign, Misconduct::SignedForAnother),
            (stands != *over, Misconduct::WroteOverWhatItDoesNotKnow),
            (taken, Misconduct::TookFromALivingOwner),
            (
                over_closed && *record != UnitRecord::Closed,
                Misconduct::WroteOverAClosedUnit,
            ),
        ] {
            if is {
                self.misbehaved(misconduct);
            }
        }
    }

    fn stop_keepers(
        &mut self,
        member: usize,
        which: impl Fn(&Keeper) -> bool,
        inputs: &mut VecDeque<To>,
    ) {
        for keeper in &mut self.process(member).keepers {
            if which(keeper) && !std::mem::replace(&mut keeper.leaving, true) {
                let stop = Input::Intend(RequestId::NOBODY, Intent::Stop { release: true });
                inputs.push_back(To::Keeper(keeper.epoch, stop));
            }
        }
    }

    /// Does what follows from where all stands: begins an epoch where there is none, and forgets
    /// those that have ended.
    fn settle(&mut self, member: usize, inputs: &mut VecDeque<To>) {
        let (now, epochs) = (self.state.now, self.state.epochs);
        let configuration = self.configuration;
        let process = self.process(member);
        process.keepers.retain(|it| !it.election.is_stopped());
        let present = process.present;
        if present.is_some_and(|epoch| process.keeper(epoch).is_none()) {
            process.present = None;
        }
        if process.leaves {
            if process.group.is_idle() {
                self.stop_keepers(member, |_| true, inputs);
            }
        } else if process.present.is_none() && process.next_epoch_at <= now {
            process.next_epoch_at = now + configuration.lease.heartbeat;
            let keeper = Keeper::new(epochs, configuration, now);
            let epoch = keeper.epoch;
            process.present = Some(epoch);
            process.keepers.push(keeper);
            self.state.epochs += 1;
            let link = Input::Link(Link::Up(MADE));
            inputs.push_back(To::Keeper(epoch, link));
        }
    }
}
