//! What can happen next.

use nats_elect_core::group::{Epoch, GroupKey, UnitKey, UnitRecord};

use super::configuration::Configuration;
use super::fault::Fault;
use super::member::{Process, Progress};
use super::state::State;
use super::stream::Body;

/// One indivisible event. Members are told by their index, and so are their requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A tick of time passes, on all clocks.
    Advance,
    /// Due timers fire.
    Wake(usize),
    /// A new watch begins, and shows all that stands there.
    Watch(usize),
    /// A new watch begins, and shows it as slowly as it likes.
    WatchSlowly(usize),
    /// The present watch is as slow as it likes from now on.
    Lag(usize),
    /// The watch breaks, and its member wants a new one.
    Break(usize),
    /// The watch shows its next message,
    Show(usize),
    /// or leaves it out, as it was overwritten.
    Skip(usize),
    /// A request takes effect and is answered,
    Arrive(usize, usize),
    /// or takes effect, and its answer does not come for now,
    TakeSilently(usize, usize),
    /// or does not take effect for now.
    Delay(usize, usize),
    /// It takes effect after all.
    Land(usize, usize),
    /// So does a request of a process that died.
    LandGhost(usize),
    /// An answer comes after all.
    Answer(usize, usize),
    /// The request is given up.
    GiveUp(usize, usize),
    /// The handler and all that it spawned end.
    EndHandler(usize, UnitKey),
    /// They end by an error.
    Fail(usize, UnitKey),
    /// The handler fails its health checks.
    Sicken(usize, UnitKey),
    /// The handler won't listen to being cancelled,
    Ignore(usize, UnitKey),
    /// or won't end by being aborted.
    Block(usize, UnitKey),
    Pause(usize),
    Resume(usize),
    Crash(usize),
    Start(usize),
    Drain(usize),
    /// The unit should go to this epoch.
    Hint(UnitKey, Epoch),
    Purge(GroupKey),
    /// A stranger writes over a unit, by a compare-and-set over what stands there.
    Forge(UnitKey, Option<UnitRecord>),
    Bury(Epoch),
    /// Somebody creates a unit of the next generation,
    Prepare,
    /// or has the group grow.
    Grow,
}

impl Action {
    /// Whether it comes by itself, without a fault.
    pub const fn is_prompt(&self) -> bool {
        matches!(
            self,
            Self::Wake(_) | Self::Watch(_) | Self::Show(_) | Self::Arrive(..)
        )
    }
}

/// Everything that can happen in this state.
pub fn possible(configuration: &Configuration, state: &State, actions: &mut Vec<Action>) {
    if state.broken.is_some() || choices(state, actions) {
        return;
    }
    for (index, process) in state.members.iter().enumerate() {
        match process {
            None => actions.push(Action::Start(index)),
            Some(process) => possible_to(state, index, process, actions),
        }
    }
    actions.extend((0..state.ghosts.len()).map(Action::LandGhost));
    by_others(state, actions);
    let urgent = state.living().any(|(_, it)| it.is_urgent(state));
    let goes_on = configuration.horizon.is_none_or(|end| state.time < end);
    if !urgent && goes_on {
        actions.push(Action::Advance);
    }
}

/// What is to be chosen before anything else happens: what becomes of a request that was just sent,
/// and whether a handler ends that was just told to.
fn choices(state: &State, actions: &mut Vec<Action>) -> bool {
    if let Some((member, request)) = state.just_sent() {
        actions.push(Action::Arrive(member, request));
        if state.faults.may(Fault::Unanswered) {
            actions.push(Action::TakeSilently(member, request));
        }
        if state.faults.may(Fault::Late) {
            actions.push(Action::Delay(member, request));
        }
        return true;
    }
    let ending = state.living().find_map(|(member, process)| {
        let mut terms = process.terms.iter().filter(|(_, term)| term.ends());
        terms.next().map(|(unit, term)| (member, unit, term))
    });
    let Some((member, unit, term)) = ending else {
        return false;
    };
    actions.push(Action::EndHandler(member, unit.clone()));
    actions.push(if term.revoked {
        Action::Block(member, unit.clone())
    } else {
        Action::Ignore(member, unit.clone())
    });
    true
}

fn possible_to(state: &State, index: usize, process: &Process, actions: &mut Vec<Action>) {
    let may = |fault| state.faults.may(fault);
    for (number, request) in process.requests.iter().enumerate() {
        match request.progress {
            Progress::Sent => {}
            Progress::Adrift => actions.push(Action::Land(index, number)),
            Progress::Answered(_) if process.paused => {}
            Progress::Answered(_) => actions.push(Action::Answer(index, number)),
        }
        if !process.paused && !request.given_up && request.sent < state.now {
            actions.push(Action::GiveUp(index, number));
        }
    }
    if process.paused {
        actions.push(Action::Resume(index));
        return;
    }
    if process.is_due(state.now) {
        actions.push(Action::Wake(index));
    }
    watching(state, index, process, actions);
    for (unit, term) in &process.terms {
        let asked = term.cancelled || term.revoked;
        if asked || may(Fault::Returned) {
            actions.push(Action::EndHandler(index, unit.clone()));
        }
        if !asked && may(Fault::Failed) {
            actions.push(Action::Fail(index, unit.clone()));
        }
        if !asked && may(Fault::Unhealthy) {
            actions.push(Action::Sicken(index, unit.clone()));
        }
    }
    if may(Fault::Pause) {
        actions.push(Action::Pause(index));
    }
    if may(Fault::Crash) {
        actions.push(Action::Crash(index));
    }
    if may(Fault::Drain) && !process.leaves {
        actions.push(Action::Drain(index));
    }
}

fn watching(state: &State, index: usize, process: &Process, actions: &mut Vec<Action>) {
    let may_lag = state.faults.may(Fault::Lag);
    if process.wants_watch {
        actions.push(Action::Watch(index));
        if may_lag {
            actions.push(Action::WatchSlowly(index));
        }
    }
    let Some(watch) = &process.watch else {
        return;
    };
    if let Some(next) = watch.next(&state.stream) {
        actions.push(Action::Show(index));
        if state.stream.is_overwritten(next) {
            actions.push(Action::Skip(index));
        }
    }
    if state.faults.may(Fault::Break) && !process.wants_watch {
        actions.push(Action::Break(index));
    }
    if may_lag && !watch.lags {
        actions.push(Action::Lag(index));
    }
}

/// What operators and strangers do.
fn by_others(state: &State, actions: &mut Vec<Action>) {
    let may = |fault| state.faults.may(fault);
    let living = || state.living().filter_map(|(_, it)| it.present);
    for stored in state.stream.standing() {
        let key = &stored.key;
        let purge = match key {
            GroupKey::Unit(_) => Fault::Purge,
            GroupKey::Member(_) => Fault::PurgeMember,
            GroupKey::Group(_) => Fault::PurgeGroup,
        };
        if may(purge) {
            actions.push(Action::Purge(key.clone()));
        }
        match (key, &stored.body) {
            (GroupKey::Unit(unit), Body::Unit(record, _)) => {
                let mut forge = |record| actions.push(Action::Forge(unit.clone(), record));
                if may(Fault::Forge) {
                    forge(Some(UnitRecord::Nobody));
                    living().for_each(|epoch| forge(Some(UnitRecord::Owned(epoch))));
                }
                if may(Fault::Spoil) {
                    forge(None);
                    forge(Some(UnitRecord::Closed));
                }
                if may(Fault::Hint) {
                    let owner = record.and_then(UnitRecord::owner);
                    let others = living().filter(|epoch| Some(*epoch) != owner);
                    actions.extend(others.map(|epoch| Action::Hint(unit.clone(), epoch)));
                }
            }
            (GroupKey::Member(epoch), _) if may(Fault::Bury) => {
                actions.push(Action::Bury(*epoch));
            }
            _ => {}
        }
    }
    if may(Fault::Prepare) {
        actions.push(Action::Prepare);
    }
    if may(Fault::Grow) && state.group_record().is_some_and(|(_, it)| !it.making) {
        actions.push(Action::Grow);
    }
}

impl Process {
    /// Whether something must happen to it before time goes on. A tick is as long as a heartbeat: so
    /// a watch that does not lag shows everything within it.
    fn is_urgent(&self, state: &State) -> bool {
        if self.paused {
            return false;
        }
        let watch = self.watch.as_ref().filter(|watch| !watch.lags);
        let next = watch.and_then(|watch| watch.next(&state.stream));
        let mut requests = self.requests.iter();
        self.is_due(state.now)
            || self.wants_watch
            || next.is_some()
            || requests.any(|it| !it.given_up && it.sent < state.now)
    }
}
