//! What is promised.

use std::collections::{BTreeMap, BTreeSet};

use nats_elect_core::Moment;
use nats_elect_core::assignment::{Epoch, LONGEST_LEASE};
use nats_elect_core::member::UnitId;
use nats_elect_core::token::FencingToken;

use crate::node::Node;

/// What happened so far, as far as promises are about it.
#[derive(Debug, Default)]
pub struct Checks {
    tokens: BTreeMap<UnitId, FencingToken>,
    /// The highest token of each generation.
    generations: BTreeMap<u32, FencingToken>,
    over: BTreeSet<Epoch>,
    pub starts: usize,
    /// Until when two may act, as confirmed writes were lost.
    pub lost_until: Moment,
    /// How often two acted then.
    pub overlaps: usize,
}

impl Checks {
    /// Confirmed writes after a sequence are lost.
    pub fn lose(&mut self, now: Moment, last: u64) {
        self.lost_until = now + LONGEST_LEASE;
        let tokens = self
            .tokens
            .values_mut()
            .chain(self.generations.values_mut());
        tokens.for_each(|it| it.sequence = it.sequence.min(last));
    }

    /// Whether confirmed writes ever were lost.
    pub fn has_lost(&self) -> bool {
        self.lost_until > Moment::default()
    }

    /// A member believes that confirmed writes are lost.
    pub fn forgets(&self, number: usize) -> Result<(), String> {
        self.has_lost()
            .then_some(())
            .ok_or_else(|| format!("n{number} forgets what is not lost"))
    }

    /// Takes what must not be, unless confirmed writes were lost shortly before.
    pub fn excuse(&mut self, now: Moment, result: Result<(), String>) -> Result<(), String> {
        if now >= self.lost_until {
            return result;
        }
        self.overlaps += usize::from(result.is_err());
        Ok(())
    }

    /// A handler begins.
    pub fn start(
        &mut self,
        unit: &UnitId,
        token: FencingToken,
        epoch: Epoch,
    ) -> Result<(), String> {
        self.starts += 1;
        if self.over.contains(&epoch) {
            return Err(format!("{unit:?} begins by {epoch}, which is over"));
        }
        // Who has not noticed yet that the bucket was made anew goes on in the former one.
        if self.generations.values().any(|it| it.epoch > token.epoch) {
            return Ok(());
        }
        let mut others = self
            .generations
            .iter()
            .filter(|it| *it.0 != unit.generation);
        let newer = others.find(|it| *it.1 >= token);
        if let Some((generation, highest)) = newer {
            return Err(format!(
                "{unit:?} begins by {token}, generation {generation} had {highest}"
            ));
        }
        let highest = self.generations.entry(unit.generation).or_insert(token);
        *highest = token.max(*highest);
        match self.tokens.insert(unit.clone(), token) {
            Some(before) if before >= token => Err(format!("{unit:?} had {before}, now {token}")),
            _ => Ok(()),
        }
    }

    /// A heartbeat is stored. It may go over the end of its epoch if that stood where one was lost, or
    /// was lost itself.
    pub fn goes_on(&mut self, epoch: Epoch, over_lost: bool) -> Result<(), String> {
        let is_fine = !self.over.remove(&epoch) || over_lost;
        is_fine
            .then_some(())
            .ok_or_else(|| format!("{epoch} goes on after its end"))
    }

    /// A member has written that an epoch is over.
    pub fn over(&mut self, now: Moment, epoch: Epoch, nodes: &[Node]) -> Result<(), String> {
        self.over.insert(epoch);
        let handlers = nodes.iter().flat_map(|node| node.acting(now));
        let mut of_it = handlers.filter(|(_, handler)| handler.epoch == epoch);
        of_it.next().map_or(Ok(()), |(unit, _)| {
            Err(format!("{epoch} is over while it acts on {unit:?}"))
        })
    }
}

/// No two handlers of a unit, or of two generations, act at once in a bucket.
pub fn alone(now: Moment, nodes: &[Node]) -> Result<(), String> {
    let all: Vec<_> = nodes
        .iter()
        .flat_map(|node| {
            node.acting(now)
                .map(move |(unit, it)| (node.number, unit, it))
        })
        .collect();
    for (at, (one, unit, handler)) in all.iter().enumerate() {
        for (two, other, second) in &all[at + 1..] {
            // Who starts in a bucket that was made anew knows nothing of the former one.
            let is_same_bucket = handler.token.epoch == second.token.epoch;
            if is_same_bucket && (unit == other || unit.generation != other.generation) {
                return Err(format!(
                    "n{one} acts on {unit:?} by {} while n{two} acts on {other:?} by {}",
                    handler.token, second.token
                ));
            }
        }
    }
    Ok(())
}
