//! When two states are the same situation.
//!
//! States that behave alike from here on, up to names, count as one. Four things are names:
//!
//! - *True time and clocks.* The core computes with differences of moments of one clock, so all
//!   moments are taken relative to their clock. Those of more than a lease ago are told apart by
//!   their order alone: every comparison with the present comes out the same for all of them, for
//!   no setting looks back further.
//! - *Sequences, beats, terms.* They are compared for equality and order and made by counting up,
//!   so their ranks do. Zero stays zero.
//! - *Incarnations.* They are compared for equality alone. Instances are alike, so all ways of
//!   numbering them are tried and the least result is taken.
//! - *What nobody looks at*: a machine's labels and counters (see `Election::hash_state`), and
//!   revisions that an instance was shown but has forgotten.

use std::hash::Hash;

use crate::instance::{Instance, Process};
use crate::scribe::{Fold, Page, Ranks, Scribe, Word, sorted};
use crate::state::State;

impl Scribe {
    fn of(instance: &Instance, look_back: u64) -> Self {
        let Some(process) = &instance.process else {
            return Self::default();
        };
        let mut scribe = Self::new(process.clock, look_back);
        scribe.take_down(process);
        scribe.take_down_what_was_seen(&process.seen);
        scribe
    }

    fn take_down(&mut self, process: &Process) {
        let Process {
            election,
            clock,
            due,
            request,
            reply_to,
            watch,
            term,
            paused,
            linked,
            lost_at,
            grace_over,
            stopping,
            seen: _,
            last_beat,
            doubted: _,
        } = process;
        election.hash_state(*clock, self);
        (due, watch, paused, linked, stopping, last_beat).hash(self);
        (lost_at, grace_over).hash(self);
        if let Some(request) = request {
            // Its number only tells its answer from others, and there is never a second one.
            (1u8, &request.asks, &request.progress).hash(self);
            (request.age, request.excused, request.spared).hash(self);
        }
        if let Some(reply_to) = reply_to {
            (3u8, reply_to).hash(self);
        }
        if let Some(term) = term {
            (2u8, term.id, term.lease, term.acting, term.over).hash(self);
            (term.running, term.cancelled, term.aborted, term.overrun).hash(self);
            (term.deaf, term.blocked).hash(self);
            (term.cancelled_for, term.revoked_for).hash(self);
        }
    }

    /// Of the sequences that it has in mind, those that it was shown.
    fn take_down_what_was_seen(&mut self, seen: &[u64]) {
        let mut in_mind = sorted(self.words.iter().filter_map(|word| match word {
            Word::Sequence(number) => Some(*number),
            _ => None,
        }));
        in_mind.retain(|number| seen.contains(number));
        // Not hashed as a slice: that would show its bytes, not its numbers.
        self.words.push(Word::Plain(in_mind.len() as u64));
        self.words.extend(in_mind.into_iter().map(Word::Sequence));
    }
}

/// A number for the situation. Two situations get the same by accident alone.
pub fn of(state: &State) -> u64 {
    let counts_from_one = !state.bucket.made.unique_sequences;
    let mut common = Scribe::default();
    let bucket = &state.bucket;
    (bucket.role(), bucket.fence(), &state.faults).hash(&mut common);
    (state.last_token, state.leaderless, state.time, state.broken).hash(&mut common);
    if state.faults.may(crate::fault::Fault::Stale) {
        bucket.stale_snapshot(1).hash(&mut common);
    }
    let page = |words| Page::new(words, counts_from_one);
    let common = page(common.words);
    let ghosts = state.ghosts.iter().map(|ghost| {
        let mut scribe = Scribe::default();
        (ghost.nonce, &ghost.kind).hash(&mut scribe);
        page(scribe.words)
    });
    let wills = state.wills.iter().map(|will| {
        let mut scribe = Scribe::default();
        will.hash(&mut scribe);
        page(scribe.words)
    });
    let ghosts: Vec<_> = ghosts.chain(wills).collect();
    let pages: Vec<_> = state
        .instances
        .iter()
        .enumerate()
        .map(|(index, instance)| {
            let mut words = Scribe::of(instance, state.look_back).words;
            // Instances of different priorities are not alike.
            words.push(Word::Plain(if state.ranked { index as u64 } else { 0 }));
            page(words)
        })
        .collect();
    let lives: Vec<_> = state.instances.iter().map(|it| it.life).collect();
    let ranks = Ranks::of(std::iter::once(&common).chain(&ghosts).chain(&pages));
    orders(pages.len())
        .iter()
        .map(|order| {
            let mut places = [0; 3];
            for (place, index) in order.iter().enumerate() {
                places[*index] = place;
            }
            let name = |rest: u64| {
                let index = usize::try_from(rest >> 8).expect("a few");
                (places[index] as u64) << 8 | (u64::from(lives[index]) - (rest & 0xff))
            };
            let mut fold = Fold(0);
            common.fold(&mut fold, &ranks, &name);
            // They have no order among themselves.
            fold.mix(10, Page::sum(ghosts.iter(), &ranks, &name));
            for index in *order {
                pages[*index].fold(&mut fold, &ranks, &name);
            }
            fold.0
        })
        .min()
        .expect("at least one order")
}

const fn orders(instances: usize) -> &'static [&'static [usize]] {
    match instances {
        1 => &[&[0]],
        2 => &[&[0, 1], &[1, 0]],
        _ => &[
            &[0, 1, 2],
            &[0, 2, 1],
            &[1, 0, 2],
            &[1, 2, 0],
            &[2, 0, 1],
            &[2, 1, 0],
        ],
    }
}
