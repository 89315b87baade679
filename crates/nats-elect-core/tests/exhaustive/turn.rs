//! One event and all that follows from it at once.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use nats_elect_core::record::Content;
use nats_elect_core::release::ReleaseSecret;
use nats_elect_core::token::LeaseToken;
use nats_elect_core::{Fresh, HandlerEnd, Input, Intent, RequestId, WriteOutcome};
use uuid::Uuid;

use crate::action::Action;
use crate::bucket::stranger;
use crate::configuration::Configuration;
use crate::fault::Fault;
use crate::instance::{Instance, Process, Term};
use crate::properties::{Broken, Misconduct, Witness, Witnessed, is_overdue};
use crate::state::State;

/// Whoever asks for something: the answers tell nothing more.
const REQUEST: RequestId = RequestId(1);

/// A state on its way to the next.
pub struct Turn<'a> {
    pub configuration: &'a Configuration,
    pub state: State,
    /// What happens, in words, if anybody listens.
    pub tale: Option<Vec<String>>,
    /// Whose question is being read.
    pub correspondent: Option<usize>,
}

impl<'a> Turn<'a> {
    pub fn new(configuration: &'a Configuration, state: &State) -> Self {
        let mut state = state.clone();
        state.witnessed = Witnessed::default();
        Self {
            configuration,
            state,
            tale: None,
            correspondent: None,
        }
    }

    pub fn take(&mut self, action: Action) {
        match action {
            Action::Advance => self.advance(None),
            Action::AdvanceWithout(slow) => {
                self.spend(Fault::Slip);
                self.advance(Some(slow));
            }
            Action::Wake(index) => self.input(index, Input::Tick),
            Action::Arrive(index) => self.arrive(index, false),
            Action::ArriveStale(index) => {
                self.spend(Fault::Stale);
                self.arrive(index, true);
            }
            Action::Answer(index) => self.answer(index),
            Action::GiveUp(index) => self.give_up(index),
            Action::ArriveLate(ghost) => self.arrive_late(ghost),
            Action::Show(index) => {
                if let Some((entry, _)) = self.process(index).watch.pop_front() {
                    self.input(index, Input::Observed(entry));
                }
            }
            Action::Lose(index) => {
                self.spend(Fault::Unseen);
                self.process(index).watch.pop_front();
            }
            Action::EndHandler(index) => self.end_handler(index),
            Action::Ignore(index) => {
                self.spend(Fault::Deaf);
                self.term(index).deaf = true;
            }
            Action::Block(index) => {
                self.spend(Fault::Blocked);
                self.term(index).blocked = true;
            }
            Action::Pause(index) => {
                self.spend(Fault::Pause);
                let process = self.process(index);
                process.paused = true;
                if let Some(request) = &mut process.request {
                    request.excused = true;
                }
            }
            Action::Resume(index) => {
                self.disturbed();
                self.process(index).paused = false;
            }
            Action::Crash(index) => self.crash(index),
            Action::CompanionReads(will) => self.companion_reads(will),
            Action::Start(index) => {
                self.disturbed();
                self.start(index);
            }
            Action::Cut(index) => self.cut(index),
            Action::Link(index) => {
                self.disturbed();
                self.link(index);
            }
            Action::TellGraceOver(index) => self.tell_grace_over(index),
            Action::Deliver { from, to } => self.deliver(from, to),
            Action::HearAnswer(index) => self.hear_answer(index, false),
            Action::LosePeerMessage(index) => self.hear_answer(index, true),
            Action::StepDown(index) => {
                self.spend(Fault::StepDown);
                self.step_down(index, None);
            }
            Action::HandOver(index) => {
                self.spend(Fault::HandOver);
                // All have one id, and whoever leads does not mean itself.
                self.step_down(index, Some("n".to_owned()));
            }
            Action::StandAside(index) => {
                self.spend(Fault::StandAside);
                self.intend(index, Intent::Pause);
            }
            Action::Cordon(index) => {
                self.spend(Fault::Cordon);
                self.intend(index, Intent::Cordon);
            }
            Action::StandAgain(index) => {
                self.disturbed();
                self.intend(index, Intent::Resume);
            }
            Action::Stop(index) => {
                self.spend(Fault::Stop);
                self.process(index).stopping = true;
                self.intend(index, Intent::Stop { release: true });
            }
            Action::Delete => {
                self.spend(Fault::Delete);
                self.write_by_another_hand(Content::ForeignMarker);
            }
            Action::Purge => {
                self.spend(Fault::Purge);
                Arc::make_mut(&mut self.state.bucket).purge(Duration::ZERO);
            }
            Action::WriteAsStranger => {
                self.spend(Fault::Stranger);
                let ttl = self.configuration.settings.ttl;
                self.write_by_another_hand(stranger(Some(ttl)));
            }
        }
        self.look();
    }

    fn step_down(&mut self, index: usize, to: Option<String>) {
        let intent = Intent::StepDown {
            to,
            expected: None,
            hold_off: Duration::ZERO,
        };
        self.intend(index, intent);
    }

    fn intend(&mut self, index: usize, intent: Intent) {
        self.input(index, Input::Intend(REQUEST, intent));
    }

    fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(tale) = &mut self.tale {
            tale.push(line());
        }
    }

    pub fn process(&mut self, index: usize) -> &mut Process {
        let instance = Arc::make_mut(&mut self.state.instances[index]);
        instance.process.as_mut().expect("only live ones act")
    }

    pub fn term(&mut self, index: usize) -> &mut Term {
        let term = self.process(index).term.as_mut();
        term.expect("effects speak of terms that were started")
    }

    pub fn spend(&mut self, fault: Fault) {
        self.state.faults.spend(fault);
        self.disturbed();
    }

    /// Something went wrong, or ended to be wrong: the time to a leader counts anew.
    pub const fn disturbed(&mut self) {
        self.state.leaderless = 0;
    }

    pub fn broke(&mut self, broken: Broken) {
        self.state.broken.get_or_insert(broken);
    }

    pub fn misbehaved(&mut self, misconduct: Misconduct) {
        self.broke(Broken::Conduct(misconduct));
    }

    pub fn witness(&mut self, witness: Witness) {
        self.state.witnessed.add(witness);
    }

    /// What must hold after every event.
    fn look(&mut self) {
        let valid = |instance: &&Arc<Instance>| instance.valid_term().is_some();
        if self.state.instances.iter().filter(valid).count() > 1 {
            self.broke(Broken::TwoLeaders);
        }
        let out_of_grace = |instance: &&Arc<Instance>| {
            let process = instance.process.as_ref();
            let out = process.is_some_and(|it| it.has_outlasted_grace(self.configuration));
            out && instance.leads()
        };
        if self.state.instances.iter().any(|it| out_of_grace(&it)) {
            self.misbehaved(Misconduct::LedBeyondItsGrace);
        }
        for instance in &self.state.instances {
            if instance.valid_term().is_some() && !instance.leads() {
                self.state.witnessed.add(Witness::ValidButNotLeading);
            }
        }
    }

    fn advance(&mut self, slow: Option<usize>) {
        self.look_at_handlers();
        let processes = || {
            let instances = self.state.instances.iter();
            instances.filter_map(|instance| instance.process.as_ref())
        };
        let troubled = processes().any(Process::is_troubled);
        let candidates = processes().any(Process::is_candidate);
        let led = self.state.instances.iter().any(|instance| instance.leads());
        if led || troubled || !candidates {
            self.state.leaderless = 0;
        } else {
            self.state.leaderless += 1;
            if is_overdue(self.configuration, &self.state) {
                self.broke(Broken::NoLeader);
            }
        }
        if self.configuration.horizon.is_some() {
            self.state.time += 1;
        }
        for index in 0..self.state.instances.len() {
            if self.state.instances[index].process.is_some() {
                let configuration = self.configuration;
                self.process(index).age(configuration, slow == Some(index));
            }
        }
    }

    /// At the end of an instant all timers of that instant have been served.
    fn look_at_handlers(&mut self) {
        let allowance = self.configuration.allowance;
        let outside = self.state.instances.iter().any(|instance| {
            instance.process.as_ref().is_some_and(|process| {
                let Some(term) = &process.term else {
                    return false;
                };
                let excused = term.revoked_for.is_some_and(|ticks| ticks <= allowance)
                    || term.overrun && term.aborted && term.blocked;
                term.running && !process.paused && !term.is_valid(process.clock) && !excused
            })
        });
        if outside {
            self.broke(Broken::HandlerOutsideLease);
        }
    }

    /// Feeds one input, and what its effects bring at once.
    pub fn input(&mut self, index: usize, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            if self.state.broken.is_some() {
                return;
            }
            self.say(|| format!("    takes {input:?}"));
            self.see_passed_deadline(index);
            self.learn(index, &input);
            if let Some(shown) = self.shows_own(index, &input) {
                self.spare_request(index, shown);
            }
            let read = matches!(input, Input::ReadEnded { .. });
            let process = self.process(index);
            let now = process.clock;
            let fresh = Fresh {
                lease_token: LeaseToken::new(Uuid::nil()),
                // One for all: whatever is released is believed, which is the less safe world.
                release_secret: ReleaseSecret::new(0),
                chance: 0.0,
            };
            let election = &mut process.election;
            let Ok(effects) = catch_unwind(AssertUnwindSafe(|| election.step(now, fresh, input)))
            else {
                self.misbehaved(Misconduct::Panicked);
                return;
            };
            process.due = process.election.next_wakeup();
            let late = process.due.is_some_and(|due| due <= now);
            if late {
                self.misbehaved(Misconduct::WantedToWakeInThePast);
            }
            for effect in effects {
                self.say(|| format!("    wants {effect:?}"));
                inputs.extend(self.carry_out(index, effect, read));
            }
        }
        self.forget_old_news(index);
    }

    /// Applications that look at a deadline after it has passed have seen it over for good.
    fn see_passed_deadline(&mut self, index: usize) {
        if !self.configuration.readers {
            return;
        }
        let process = self.process(index);
        let now = process.clock;
        if let Some(term) = &mut process.term {
            term.over |= now >= term.lease;
        }
    }

    /// Where a write of this instance stands, if the input shows one.
    fn shows_own(&self, index: usize, input: &Input) -> Option<u64> {
        let own = Instance::incarnation(index, self.state.instances[index].life);
        match input {
            Input::Observed(entry) => {
                let writer = entry.content.nonce().map(|nonce| nonce.incarnation);
                (writer == Some(own)).then_some(entry.revision)
            }
            _ => None,
        }
    }

    /// What an input shows of the role's key.
    fn learn(&mut self, index: usize, input: &Input) {
        let shown = match input {
            Input::Observed(entry) => entry.revision,
            Input::ReadEnded {
                outcome: Ok(snapshot),
                ..
            } => snapshot.role.as_ref().map_or(0, |entry| entry.revision),
            Input::WriteEnded {
                outcome: WriteOutcome::Acked { revision },
                ..
            } => *revision,
            _ => return,
        };
        let seen = &mut self.process(index).seen;
        if !seen.contains(&shown) {
            seen.push(shown);
        }
    }

    /// What the watch has yet to show does nothing if something newer was seen already.
    fn forget_old_news(&mut self, index: usize) {
        let process = self.process(index);
        if process.watch.is_empty() {
            return;
        }
        let seen = process.election.status().revision;
        process
            .watch
            .retain(|(entry, _)| seen.is_none_or(|seen| entry.revision > seen));
    }

    fn end_handler(&mut self, index: usize) {
        let asked = {
            let term = self.term(index);
            term.running = false;
            term.cancelled || term.aborted
        };
        if !asked {
            self.spend(Fault::Returned);
        }
        let term = self.term(index);
        if term.deaf || term.blocked {
            self.disturbed();
        }
        let term = self.term(index);
        let end = if term.aborted {
            HandlerEnd::Aborted
        } else {
            HandlerEnd::Returned
        };
        let input = Input::HandlerEnded { term: term.id, end };
        self.input(index, input);
        // A term that ended and was revoked is never heard of again.
        let process = self.process(index);
        if process
            .term
            .as_ref()
            .is_some_and(|term| !term.running && term.over)
        {
            process.term = None;
        }
    }

    fn write_by_another_hand(&mut self, content: Content) {
        Arc::make_mut(&mut self.state.bucket).put(content, Duration::ZERO);
        self.announce();
    }
}
