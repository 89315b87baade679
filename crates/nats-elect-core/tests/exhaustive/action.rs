//! What can happen next.

use nats_elect_core::record::Content;

use crate::configuration::Configuration;
use crate::fault::Fault;
use crate::instance::{Instance, Process, Progress};
use crate::peers::Stage;
use crate::state::State;

/// One indivisible event. Instances are told by their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A tick of time passes, on all clocks,
    Advance,
    /// or on all but this instance's.
    AdvanceWithout(usize),
    /// A due timer fires.
    Wake(usize),
    /// The instance's request takes effect,
    Arrive(usize),
    /// or, a read, shows what was one write ago.
    ArriveStale(usize),
    /// The answer is received.
    Answer(usize),
    /// The request is given up.
    GiveUp(usize),
    /// A request that its sender gave up takes effect after all.
    ArriveLate(usize),
    /// The watch shows its next message,
    Show(usize),
    /// or loses it.
    Lose(usize),
    /// The handler and all that it spawned end.
    EndHandler(usize),
    /// The handler won't listen to being cancelled.
    Ignore(usize),
    /// The handler won't end by being aborted.
    Block(usize),
    Pause(usize),
    Resume(usize),
    Crash(usize),
    /// The companion of a process that died reads what stands there, and writes its release.
    CompanionReads(usize),
    Start(usize),
    Cut(usize),
    Link(usize),
    /// The monitor tells that an outage has lasted for the grace period, be it over or told before.
    TellGraceOver(usize),
    /// A question reaches an instance,
    Deliver {
        from: usize,
        to: usize,
    },
    /// its answer comes back,
    HearAnswer(usize),
    /// or one of them is lost.
    LosePeerMessage(usize),
    StepDown(usize),
    /// The leader is asked to hand over to another.
    HandOver(usize),
    StandAside(usize),
    Cordon(usize),
    /// The instance is told to stand again.
    StandAgain(usize),
    Stop(usize),
    Delete,
    Purge,
    WriteAsStranger,
}

impl Action {
    /// Whether it comes by itself, without a fault.
    pub const fn is_prompt(self) -> bool {
        matches!(
            self,
            Self::Wake(_)
                | Self::Arrive(_)
                | Self::Answer(_)
                | Self::Show(_)
                | Self::Deliver { .. }
                | Self::HearAnswer(_)
        )
    }
}

/// Everything that can happen in this state.
pub fn possible(configuration: &Configuration, state: &State, actions: &mut Vec<Action>) {
    if state.broken.is_some() {
        return;
    }
    for (index, instance) in state.instances.iter().enumerate() {
        possible_to(configuration, state, index, instance, actions);
    }
    peers(state, actions);
    for ghost in 0..state.ghosts.len() {
        actions.push(Action::ArriveLate(ghost));
    }
    actions.extend((0..state.wills.len()).map(Action::CompanionReads));
    if state.faults.may(Fault::Delete) && is_record(state) {
        actions.push(Action::Delete);
    }
    if state.faults.may(Fault::Purge) && state.bucket.role().is_some() {
        actions.push(Action::Purge);
    }
    if state.faults.may(Fault::Stranger) {
        actions.push(Action::WriteAsStranger);
    }
    let urgent = state
        .instances
        .iter()
        .filter_map(|instance| instance.process.as_ref())
        .any(|process| process.is_urgent(configuration));
    let goes_on = configuration
        .horizon
        .is_none_or(|horizon| state.time < horizon);
    if !urgent && goes_on {
        actions.push(Action::Advance);
        if state.faults.may(Fault::Slip) {
            let running = |index: &usize| state.instances[*index].process.is_some();
            let slips = (0..state.instances.len()).filter(running);
            actions.extend(slips.map(Action::AdvanceWithout));
        }
    }
}

fn peers(state: &State, actions: &mut Vec<Action>) {
    let reached = |index: usize| {
        let process = state.instances[index].process.as_ref();
        process.is_some_and(|process| process.linked && !process.paused)
    };
    for from in (0..state.instances.len()).filter(|from| reached(*from)) {
        let process = state.instances[from].process.as_ref();
        let Some(reply_to) = process.and_then(|process| process.reply_to.as_ref()) else {
            continue;
        };
        actions.push(Action::LosePeerMessage(from));
        match reply_to.stage {
            Stage::Answered(_) => actions.push(Action::HearAnswer(from)),
            Stage::Sent => {
                let others = (0..state.instances.len()).filter(|to| *to != from && reached(*to));
                actions.extend(others.map(|to| Action::Deliver { from, to }));
            }
            Stage::Unanswered => {}
        }
    }
}

fn possible_to(
    configuration: &Configuration,
    state: &State,
    index: usize,
    instance: &Instance,
    actions: &mut Vec<Action>,
) {
    let may = |fault| state.faults.may(fault);
    let Some(process) = &instance.process else {
        actions.push(Action::Start(index));
        return;
    };
    if let Some(request) = &process.request {
        if request.progress == Progress::Sent {
            actions.push(Action::Arrive(index));
            if may(Fault::Stale) && request.is_read() {
                actions.push(Action::ArriveStale(index));
            }
        }
        if !process.paused {
            if matches!(request.progress, Progress::Answered(_)) {
                actions.push(Action::Answer(index));
            }
            if request.age >= configuration.timeout && may_give_up(request, may) {
                actions.push(Action::GiveUp(index));
            }
        }
    }
    if process.paused {
        actions.push(Action::Resume(index));
        return;
    }
    possible_to_running(process, index, may, actions);
}

fn may_give_up(request: &crate::instance::Request, may: impl Fn(Fault) -> bool) -> bool {
    request.excused
        || match request.progress {
            Progress::Sent => may(Fault::Late),
            Progress::Answered(_) => may(Fault::Unanswered),
            Progress::Gone => true,
        }
}

fn possible_to_running(
    process: &Process,
    index: usize,
    may: impl Fn(Fault) -> bool,
    actions: &mut Vec<Action>,
) {
    actions.extend(process.is_timer_due().then_some(Action::Wake(index)));
    if !process.watch.is_empty() {
        actions.push(Action::Show(index));
        actions.extend(may(Fault::Unseen).then_some(Action::Lose(index)));
    }
    if let Some(term) = process.term.as_ref().filter(|term| term.running) {
        let asked = term.cancelled && !term.deaf || term.aborted;
        if asked || may(Fault::Returned) {
            actions.push(Action::EndHandler(index));
        }
        if term.cancelled && !term.deaf && !term.aborted && may(Fault::Deaf) {
            actions.push(Action::Ignore(index));
        }
        if term.aborted && !term.blocked && may(Fault::Blocked) {
            actions.push(Action::Block(index));
        }
        if !term.cancelled && may(Fault::StepDown) {
            actions.push(Action::StepDown(index));
        }
        if !term.cancelled && may(Fault::HandOver) {
            actions.push(Action::HandOver(index));
        }
    }
    actions.extend(may(Fault::Pause).then_some(Action::Pause(index)));
    actions.extend(may(Fault::Crash).then_some(Action::Crash(index)));
    if process.is_aside() {
        actions.push(Action::StandAgain(index));
    } else if may(Fault::StandAside) {
        actions.push(Action::StandAside(index));
    }
    actions.extend(may(Fault::Cordon).then_some(Action::Cordon(index)));
    if may(Fault::Stop) && !process.stopping {
        actions.push(Action::Stop(index));
    }
    if process.grace_over.is_some() {
        actions.push(Action::TellGraceOver(index));
    }
    if !process.linked {
        actions.push(Action::Link(index));
    } else if may(Fault::Cut) {
        actions.push(Action::Cut(index));
    }
}

fn is_record(state: &State) -> bool {
    let role = state.bucket.role();
    role.is_some_and(|entry| matches!(entry.content, Content::Record(_)))
}
