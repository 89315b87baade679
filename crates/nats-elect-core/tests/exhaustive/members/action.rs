//! What can happen next.

use nats_elect_core::assignment::{Epoch, Key};
use nats_elect_core::member::UnitId;

use super::configuration::Configuration;
use super::fault::Fault;
use super::process::Asks;
use super::state::State;
use super::stream::map_key;

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Nothing more happens in this tick.
    Advance,
    /// A timer fires.
    Wake(usize),
    /// The watch shows what comes next, or leaves it out as it is overwritten.
    Show(usize),
    Skip(usize),
    /// A request takes effect and is answered at once, or too late, or takes effect later.
    Arrive(usize, usize),
    Silently(usize, usize),
    Delay(usize, usize),
    /// What was given up takes effect, or is answered.
    LandGhost(usize),
    LateAnswer(usize, usize),
    EndHandler(usize, UnitId),
    /// A handler does not listen when it is told to end.
    Ignore(usize, UnitId),
    Return(usize, UnitId),
    Pause(usize),
    Resume(usize),
    Lag(usize),
    CatchUp(usize),
    /// The watch begins anew, and tells too early that it has caught up, or not.
    Rewatch(usize, bool),
    Crash(usize),
    Start(usize),
    Leave(usize),
    Move(usize, Epoch),
    Resize(usize),
    /// Somebody overwrites a key, empties it, or puts the first value back.
    Spoil(Key),
    Purge(Key),
    PutBack(Epoch),
}

impl Action {
    /// Whether it happens as soon as it can while nothing goes wrong.
    pub const fn is_prompt(&self) -> bool {
        matches!(
            self,
            Self::Wake(_) | Self::Show(_) | Self::Arrive(..) | Self::EndHandler(..)
        )
    }
}

pub fn possible(configuration: &Configuration, state: &State, actions: &mut Vec<Action>) {
    if state.broken.is_some() {
        return;
    }
    let may = |fault| state.faults.may(fault);
    let requests = |actions: &mut Vec<Action>| {
        for (index, process) in state.living() {
            for (at, request) in process.requests.iter().enumerate() {
                if process.paused {
                    continue;
                }
                actions.push(Action::Arrive(index, at));
                if may(Fault::Unanswered) && matches!(request.asks, Asks::Write(..)) {
                    actions.push(Action::Silently(index, at));
                }
                actions.extend(may(Fault::Late).then_some(Action::Delay(index, at)));
            }
        }
    };
    requests(actions);
    if !configuration.in_flight && !actions.is_empty() {
        // Requests take no time, but for those that go wrong.
        return;
    }
    let is_urgent =
        |(_, it): (usize, &super::process::Process)| it.is_urgent(state.now, &state.stream);
    actions.extend((!state.living().any(is_urgent)).then_some(Action::Advance));
    for (index, process) in state.living() {
        if process.paused {
            actions.push(Action::Resume(index));
        } else {
            of_process(state, index, actions);
        }
        actions.extend(may(Fault::Crash).then_some(Action::Crash(index)));
    }
    if may(Fault::Start)
        && let Some(index) = state.members.iter().position(Option::is_none)
    {
        actions.push(Action::Start(index));
    }
    actions.extend((0..state.ghosts.len()).map(Action::LandGhost));
    by_hands(state, actions);
}

fn of_process(state: &State, index: usize, actions: &mut Vec<Action>) {
    let Some(process) = state.members[index].as_deref() else {
        return;
    };
    let may = |fault| state.faults.may(fault);
    if process.member.wakeup().is_some_and(|at| at <= state.now) {
        actions.push(Action::Wake(index));
    }
    if let Some(next) = process.watch.next(&state.stream) {
        actions.push(Action::Show(index));
        if state.stream.is_overwritten(next) {
            actions.push(Action::Skip(index));
        }
    }
    let late = 0..process.late.len();
    actions.extend(late.map(|at| Action::LateAnswer(index, at)));
    for (unit, handler) in &process.handlers {
        let unit = || unit.clone();
        if handler.is_told {
            actions.push(Action::EndHandler(index, unit()));
            if may(Fault::Deaf) && !handler.is_deaf {
                actions.push(Action::Ignore(index, unit()));
            }
        } else if may(Fault::Returned) {
            actions.push(Action::Return(index, unit()));
        }
    }
    if process.watch.lags {
        actions.push(Action::CatchUp(index));
    } else if may(Fault::Lag) {
        actions.push(Action::Lag(index));
    }
    actions.extend(may(Fault::Pause).then_some(Action::Pause(index)));
    actions.extend(may(Fault::Rewatch).then_some(Action::Rewatch(index, false)));
    actions.extend(may(Fault::Behind).then_some(Action::Rewatch(index, true)));
    actions.extend(may(Fault::Leave).then_some(Action::Leave(index)));
    actions.extend(may(Fault::Resize).then_some(Action::Resize(index)));
    if may(Fault::Move) {
        let others = state.living().filter_map(|(_, it)| it.member.epoch());
        actions.extend(others.map(|to| Action::Move(index, to)));
    }
}

/// What people do to keys.
fn by_hands(state: &State, actions: &mut Vec<Action>) {
    let may = |fault| state.faults.may(fault);
    actions.extend(may(Fault::SpoilMap).then_some(Action::Spoil(map_key())));
    let keys = || state.stream.standing.keys().cloned();
    let of_members = || keys().filter(|it| *it != map_key());
    if may(Fault::PurgeMap) && keys().any(|it| it == map_key()) {
        actions.push(Action::Purge(map_key()));
    }
    if may(Fault::SpoilMember) {
        actions.extend(of_members().map(Action::Spoil));
    }
    if may(Fault::PurgeMember) {
        actions.extend(of_members().map(Action::Purge));
    }
    if may(Fault::PutBack) {
        let epochs = state.stream.first.keys().copied();
        actions.extend(epochs.map(Action::PutBack));
    }
}
