//! When two states are the same situation: see the fingerprints of roles. Here these are names:
//!
//! - *True time.* All clocks show the same, and moments are taken relative to it.
//! - *Sequences and beats.* Their ranks count.
//! - *Members.* All are alike: their settings are the same, and their epochs are numbered together. So
//!   members have no order. Epochs keep their numbers: turns and planners follow from their bytes.
//! - *Sequences that an election knows.* They are all of its own key, so their ranks among these count.
//! - *What nobody looks at*: see `Group::hash_state`. How far a watch has come counts by the last
//!   message that it has passed and others have not.

use std::hash::Hash;

use nats_elect_core::Moment;
use nats_elect_core::group::{GroupKey, LONGEST_LEASE, MemberContent};

use super::configuration::TICK;
use super::member::{Asks, Keeper, Process};
use super::state::State;
use super::stream::{Body, Stored};
use crate::scribe::{Fold, Page, Ranks, Scribe};

/// A number for the situation. Two situations get the same by accident alone.
pub fn of(state: &State) -> u64 {
    let look_back = u64::try_from((LONGEST_LEASE + TICK).as_nanos()).expect("short");
    let page = |take_down: &dyn Fn(&mut Scribe)| {
        let mut scribe = Scribe::new(state.now, look_back);
        take_down(&mut scribe);
        Page::new(scribe.words, false)
    };
    let common = page(&|scribe| take_down_common(state, scribe));
    let ghosts: Vec<Page> = state
        .ghosts
        .iter()
        .map(|ghost| page(&|scribe| take_down_asks(ghost, scribe)))
        .collect();
    let members: Vec<Page> = state
        .living()
        .map(|(_, process)| page(&|scribe| take_down(process, state, scribe)))
        .collect();
    let ranks = Ranks::of(std::iter::once(&common).chain(&ghosts).chain(&members));
    let name = |number| number;
    let mut fold = Fold(0);
    common.fold(&mut fold, &ranks, &name);
    fold.mix(10, Page::sum(ghosts.iter(), &ranks, &name));
    let folded = state.living().zip(&members).map(|((_, process), member)| {
        let mut own = Fold(1);
        member.fold(&mut own, &ranks, &name);
        for keeper in &process.keepers {
            let page = page(&|scribe| take_down_keeper(keeper, process, state, scribe));
            page.fold(&mut own, &Ranks::of(std::iter::once(&page)), &name);
        }
        own.0
    });
    fold.mix(11, folded.fold(0, u64::wrapping_add));
    fold.0
}

fn take_down_common(state: &State, scribe: &mut Scribe) {
    let State {
        now: _,
        stream,
        members,
        ghosts: _,
        faults,
        epochs,
        tokens,
        unserved,
        watched_anew,
        time,
        broken,
        witnessed: _,
    } = state;
    (members.len(), faults, epochs, tokens).hash(scribe);
    (unserved, watched_anew, time, broken).hash(scribe);
    for (passing, messages) in [(false, stream.standing()), (true, stream.passing())] {
        for stored in messages {
            (passing, &stored.key, stored.sequence).hash(scribe);
            let is_heartbeat = matches!(stored.body, Body::Member(_, MemberContent::Record(_)));
            let over = stored.over.filter(|_| !is_heartbeat);
            over.hash(scribe);
            take_down_body(&stored.body, scribe);
        }
    }
}

fn take_down_body(body: &Body, scribe: &mut Scribe) {
    match body {
        Body::Member(_, MemberContent::Record(seen)) => (0u8, seen.nonce, &seen.info).hash(scribe),
        Body::Member(_, MemberContent::Tombstone { secret, identity }) => {
            (1u8, secret.is_some(), identity.is_some()).hash(scribe);
        }
        Body::Group(record) => (2u8, record).hash(scribe),
        Body::Unit(record, signed) => (3u8, record, signed).hash(scribe),
    }
}

fn take_down_asks(asks: &Asks, scribe: &mut Scribe) {
    if let Asks::Write { key, over, body } = asks {
        (key, over).hash(scribe);
        take_down_body(body, scribe);
    }
}

fn take_down(process: &Process, state: &State, scribe: &mut Scribe) {
    let Process {
        group,
        keepers,
        present,
        next_epoch_at,
        watch,
        wants_watch,
        requests,
        terms,
        paused,
        leaves,
    } = process;
    let now: Moment = state.now;
    group.hash_state(now, scribe);
    keepers.len().hash(scribe);
    // It counts where there is no epoch.
    let next_epoch_at = present.is_none().then(|| (*next_epoch_at).max(now));
    (present, next_epoch_at, terms).hash(scribe);
    (paused, leaves, wants_watch).hash(scribe);
    if let Some(watch) = watch {
        let all = state.stream.standing().iter().chain(state.stream.passing());
        let passed = all.map(|it: &std::sync::Arc<Stored>| it.sequence);
        let passed = passed.filter(|it| *it <= watch.position).max();
        (passed, watch.target, watch.lags).hash(scribe);
        let passing = state.stream.passing().iter().map(|it| it.sequence);
        let hides = |it: &u64| *it > watch.position && watch.hidden.contains(it);
        for hidden in passing.filter(hides) {
            hidden.hash(scribe);
        }
    }
    for request in requests {
        take_down_asks(&request.asks, scribe);
        (request.whose, &request.progress, request.given_up).hash(scribe);
        (request.sent < now, request.whose.map(|_| request.sent)).hash(scribe);
    }
}

/// The sequences that an election knows are all of its own key.
fn take_down_keeper(keeper: &Keeper, process: &Process, state: &State, scribe: &mut Scribe) {
    (keeper.epoch, keeper.term, &keeper.info, keeper.leaving).hash(scribe);
    keeper.election.hash_state(state.now, scribe);
    let key = GroupKey::Member(keeper.epoch);
    let all = state.stream.standing().iter().chain(state.stream.passing());
    for stored in all.filter(|it| it.key == key) {
        stored.sequence.hash(scribe);
    }
    for request in &process.requests {
        if let Asks::Write { over, .. } = &request.asks
            && request.whose == Some(keeper.epoch)
        {
            (over, &request.progress).hash(scribe);
        }
    }
}
