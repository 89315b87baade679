//! What happens to members: their timers fire, their watches show something, they die, start, stand
//! still and leave. And what other hands write.

use std::collections::VecDeque;
use std::sync::Arc;

use nats_elect_core::group::{
    Epoch, GroupContent, GroupInput, GroupKey, Hint, MemberContent, Message, UnitKey, UnitRecord,
};
use nats_elect_core::record::Content;
use nats_elect_core::{HandlerEnd, Input};

use super::action::Action;
use super::fault::Fault;
use super::member::{Process, Progress, Watch};
use super::properties::Broken;
use super::requests::entry;
use super::stream::{Body, Stored};
use super::turn::{To, Turn};

impl Turn<'_> {
    pub fn take(&mut self, action: Action) {
        match action {
            Action::Advance => self.advance(),
            Action::Wake(member) => self.wake(member),
            Action::Watch(member) => self.watch(member),
            Action::WatchSlowly(member) => {
                self.spend(Fault::Lag);
                self.begin_watch(member, true);
            }
            Action::Lag(member) => {
                self.spend(Fault::Lag);
                if let Some(watch) = &mut self.process(member).watch {
                    watch.lags = true;
                }
            }
            Action::Break(member) => {
                self.spend(Fault::Break);
                let process = self.process(member);
                (process.watch, process.wants_watch) = (None, true);
            }
            Action::Show(member) => self.show(member),
            Action::Skip(member) => drop(self.pass(member)),
            Action::Arrive(member, request) => self.arrive(member, request),
            Action::TakeSilently(member, request) => self.take_silently(member, request),
            Action::Delay(member, request) => self.delay(member, request),
            Action::Land(member, request) => self.land(member, request),
            Action::LandGhost(ghost) => self.land_ghost(ghost),
            Action::Answer(member, request) => self.answer(member, request),
            Action::GiveUp(member, request) => self.give_up(member, request),
            Action::EndHandler(member, unit) => self.end_handler(member, &unit),
            Action::Fail(member, unit) => {
                self.spend(Fault::Failed);
                let mut inputs = VecDeque::new();
                self.handler_ends(member, &unit, HandlerEnd::Failed, &mut inputs);
                self.feed(member, inputs);
            }
            Action::Sicken(member, unit) => self.sicken(member, unit),
            Action::Ignore(member, unit) => {
                self.spend(Fault::Deaf);
                self.term(member, &unit, |term| term.deaf = true);
            }
            Action::Block(member, unit) => {
                self.spend(Fault::Blocked);
                self.term(member, &unit, |term| term.blocked = true);
            }
            Action::Pause(member) => {
                self.spend(Fault::Pause);
                self.process(member).paused = true;
            }
            Action::Resume(member) => {
                self.disturbed();
                self.process(member).paused = false;
            }
            Action::Crash(member) => {
                self.spend(Fault::Crash);
                self.end_process(member);
            }
            Action::Start(member) => {
                self.disturbed();
                self.boot(member);
            }
            Action::Drain(member) => self.drain(member),
            Action::Hint(unit, to) => self.hint(unit, to),
            action => self.strike(action),
        }
        self.carry_requests();
        self.deliver_hints();
        let watches = self.state.living().filter_map(|(_, it)| it.watch.as_ref());
        let passed = watches.map(|it| it.position).min().unwrap_or(u64::MAX);
        Arc::make_mut(&mut self.state.stream).forget(passed);
        self.forget_requests();
        self.look();
    }

    /// What must hold after every event.
    fn look(&mut self) {
        let now = self.state.now;
        let terms: Vec<&UnitKey> = self
            .state
            .living()
            .flat_map(|(_, process)| process.valid_terms(now))
            .collect();
        let mut broken = None;
        for (at, unit) in terms.iter().enumerate() {
            for other in &terms[at + 1..] {
                if unit == other {
                    broken = Some(Broken::TwoOwners);
                } else if unit.generation != other.generation {
                    broken = broken.or(Some(Broken::TwoGenerations));
                }
            }
        }
        if let Some(broken) = broken {
            self.broke(broken);
        }
    }

    fn advance(&mut self) {
        self.state.count_unserved(self.configuration);
        self.state.now = self.state.now + super::configuration::TICK;
        if self.configuration.horizon.is_some() {
            self.state.time += 1;
        }
    }

    fn wake(&mut self, member: usize) {
        let now = self.state.now;
        let process = self.process(member);
        let is_due = |at: Option<nats_elect_core::Moment>| at.is_some_and(|at| at <= now);
        let keepers = process
            .keepers
            .iter()
            .filter(|it| is_due(it.election.next_wakeup()));
        let mut inputs: Vec<To> = keepers
            .map(|keeper| To::Keeper(keeper.epoch, Input::Tick))
            .collect();
        if is_due(process.group.next_wakeup()) {
            inputs.push(To::Group(GroupInput::Tick));
        }
        self.feed(member, inputs);
    }

    pub fn boot(&mut self, member: usize) {
        let process = Process::new(self.configuration, self.state.now);
        self.state.members[member] = Some(Arc::new(process));
        self.feed(member, []);
    }

    /// The process is gone. What it had sent may still take effect.
    pub fn end_process(&mut self, member: usize) {
        let process = self.state.members[member].take();
        let requests = process.iter().flat_map(|process| &process.requests);
        let adrift = requests.filter(|it| it.progress == Progress::Adrift);
        self.state.ghosts.extend(adrift.map(|it| it.asks.clone()));
    }

    fn drain(&mut self, member: usize) {
        self.spend(Fault::Drain);
        self.process(member).leaves = true;
        let mut inputs = VecDeque::new();
        self.tell_of_itself(member, &mut inputs);
        inputs.push_back(To::Group(GroupInput::Drain));
        self.feed(member, inputs);
    }

    fn end_handler(&mut self, member: usize, unit: &UnitKey) {
        let asked = self
            .process(member)
            .terms
            .get(unit)
            .is_some_and(|term| term.cancelled || term.revoked);
        if asked {
            self.disturbed();
        } else {
            self.spend(Fault::Returned);
        }
        let mut inputs = VecDeque::new();
        self.handler_ends(member, unit, HandlerEnd::Returned, &mut inputs);
        self.feed(member, inputs);
    }

    fn sicken(&mut self, member: usize, unit: UnitKey) {
        self.spend(Fault::Unhealthy);
        let term = self.process(member).terms.get(&unit);
        if let Some(sequence) = term.map(|term| term.sequence) {
            self.tell_group(member, GroupInput::Unhealthy { unit, sequence });
        }
    }

    fn term(&mut self, member: usize, unit: &UnitKey, how: impl Fn(&mut super::member::Term)) {
        if let Some(term) = self.process(member).terms.get_mut(unit) {
            how(term);
        }
    }

    /// An operator's hint about the record that stands there goes to the one that has to act.
    fn hint(&mut self, unit: UnitKey, to: Epoch) {
        self.spend(Fault::Hint);
        let stands = self.state.stream.get(&GroupKey::Unit(unit.clone()));
        let Some((sequence, Body::Unit(record, _))) = stands.map(|it| (it.sequence, &it.body))
        else {
            return;
        };
        let owner = record.and_then(UnitRecord::owner).unwrap_or(to);
        self.hints
            .push_back((owner, vec![Hint { unit, sequence, to }]));
    }

    fn deliver_hints(&mut self) {
        while let Some((to, hints)) = self.hints.pop_front() {
            let receiver = self
                .state
                .living()
                .find(|(_, it)| it.present == Some(to) && !it.paused);
            if let Some((member, _)) = receiver {
                self.tell_group(member, GroupInput::Hint { hints });
                self.carry_requests();
            }
        }
    }

    /// A new watch begins, and shows all that stands there.
    fn watch(&mut self, member: usize) {
        self.begin_watch(member, false);
        // A message that it shows may end the process.
        let catches_up = |turn: &Self| {
            let process = turn.state.members[member].as_ref();
            let watch = process.and_then(|it| it.watch.as_ref());
            watch.is_some_and(|it| it.target.is_some())
        };
        while catches_up(self) {
            self.show(member);
        }
    }

    fn begin_watch(&mut self, member: usize, lags: bool) {
        let last = self.state.stream.last;
        let passing = self.state.stream.passing().iter();
        let hidden = passing.map(|it| it.sequence).collect();
        let process = self.process(member);
        process.wants_watch = false;
        process.watch = Some(Watch {
            position: 0,
            target: Some(last),
            lags,
            hidden,
        });
        self.tell_group(member, GroupInput::WatchBegan);
    }

    /// The watch shows its next message. A new one shows what stands there.
    fn show(&mut self, member: usize) {
        if let Some(next) = self.pass(member) {
            let input = GroupInput::Shown(self.understand(member, &next));
            let mut inputs = vec![To::Group(input)];
            if let (GroupKey::Member(epoch), Some(entry)) = (&next.key, entry(&next)) {
                inputs.insert(0, To::Keeper(*epoch, Input::Observed(entry)));
            }
            self.feed(member, inputs);
        }
        let stream = Arc::clone(&self.state.stream);
        let Some(process) = &mut self.state.members[member] else {
            return;
        };
        if let Some(watch) = &mut Arc::make_mut(process).watch
            && let Some(last) = watch.target
            && watch.next(&stream).is_none_or(|it| it.sequence > last)
        {
            watch.target = None;
            watch.position = watch.position.max(last);
            let standing = stream.standing().iter();
            let members = Some(standing.filter_map(|it| it.key.member()).collect());
            self.tell_group(member, GroupInput::CaughtUp { last, members });
        }
    }

    /// The watch goes past its next message.
    fn pass(&mut self, member: usize) -> Option<Arc<Stored>> {
        let stream = Arc::clone(&self.state.stream);
        let watch = self.process(member).watch.as_mut()?;
        let next = Arc::clone(watch.next(&stream)?);
        watch.position = next.sequence;
        Some(next)
    }

    /// A message as the driver hands it to the machine: with the signature that it can check.
    fn understand(&mut self, member: usize, stored: &Stored) -> Message {
        let content = match (&stored.key, &stored.body) {
            (GroupKey::Member(epoch), Body::Member(_, content)) => {
                GroupContent::Member(*epoch, content.clone())
            }
            (GroupKey::Group(name), Body::Group(record)) => {
                GroupContent::Group(name.clone(), Some(*record))
            }
            (GroupKey::Unit(key), Body::Unit(record, by)) => {
                let group = &self.process(member).group;
                let giver = stored.over.and_then(|over| group.giver(key, over));
                GroupContent::Unit {
                    key: key.clone(),
                    record: *record,
                    signed: giver.map(|(giver, _)| giver).filter(|it| Some(*it) == *by),
                }
            }
            (key, body) => unreachable!("{body:?} under {key}"),
        };
        Message {
            sequence: stored.sequence,
            over: stored.over,
            content,
        }
    }

    /// What operators and strangers do in the bucket.
    fn strike(&mut self, action: Action) {
        let (fault, key, body) = match action {
            Action::Purge(key) => {
                self.spend(match key {
                    GroupKey::Unit(_) => Fault::Purge,
                    GroupKey::Member(_) => Fault::PurgeMember,
                    GroupKey::Group(_) => Fault::PurgeGroup,
                });
                Arc::make_mut(&mut self.state.stream).purge(&key);
                return;
            }
            Action::Forge(unit, record) => {
                let fault = match record {
                    None | Some(UnitRecord::Closed) => Fault::Spoil,
                    Some(_) => Fault::Forge,
                };
                (fault, GroupKey::Unit(unit), Body::Unit(record, None))
            }
            Action::Bury(epoch) => {
                let tombstone = MemberContent::Tombstone {
                    secret: None,
                    identity: None,
                };
                let body = Body::Member(Content::ForeignMarker, tombstone);
                (Fault::Bury, GroupKey::Member(epoch), body)
            }
            Action::Prepare => {
                let unit = GroupKey::Unit(super::configuration::unit(2, 0));
                (
                    Fault::Prepare,
                    unit,
                    Body::Unit(Some(UnitRecord::Nobody), None),
                )
            }
            Action::Grow => {
                let Some((_, record)) = self.state.group_record() else {
                    return;
                };
                let grown = record.resized(1).expect("it can grow");
                let key = GroupKey::Group(super::configuration::group());
                (Fault::Grow, key, Body::Group(grown))
            }
            action => unreachable!("{action:?} is of a member"),
        };
        self.spend(fault);
        let stream = Arc::make_mut(&mut self.state.stream);
        let over = stream.sequence(&key);
        let _ = stream.store(key, Some(over), body);
    }
}
