//! What must be true of the group.

use std::time::Duration;

use super::Shards;
use crate::drill::checker::Notes;
use crate::drill::gaps::outside;
use ::drill::Moment;
use ::drill::ownership::{Counts, Ownership};

/// A shard that is given away in good order is without an owner for no longer.
const HANDOVER: Duration = Duration::from_secs(1);

/// What was found of the group: a text for each violation.
#[derive(Clone, Debug)]
pub struct ShardsVerdict {
    pub counts: Counts,
    pub stuck: Vec<String>,
    /// Shards that are spread unevenly at the end.
    pub uneven: Vec<String>,
    pub shards: u32,
    pub terms: usize,
    /// Times without an owner, each of a shard.
    pub gaps: Vec<Duration>,
    /// From the last fault until each shard had an owner that stayed, and how long that may take.
    pub recovery: Duration,
    pub allowed: Duration,
    /// How many shards each instance owned at the end.
    pub owned: Vec<usize>,
}

impl ShardsVerdict {
    pub fn on(notes: &Notes, shards: &Shards, ownership: &Ownership, counts: Counts) -> Self {
        let mut verdict = Self {
            counts,
            stuck: Vec::new(),
            uneven: Vec::new(),
            shards: shards.count,
            terms: ownership.terms.all().count(),
            gaps: Vec::new(),
            recovery: Duration::ZERO,
            allowed: shards.patience(&notes.faults),
            owned: ownership.terms.owned_at(notes.ended, notes.instances.len()),
        };
        for shard in 0..shards.count {
            let terms = ownership.terms.of(shard).into_iter();
            let terms = terms.map(|term| (term.began, ownership.end_of(term)));
            for gap in outside(notes, terms) {
                verdict.judge_gap(notes, shard, gap);
            }
        }
        if !shards.is_balanced(&verdict.owned) {
            let owned = &verdict.owned;
            verdict.uneven.push(format!("at the end {owned:?}"));
        }
        verdict
    }

    fn judge_gap(&mut self, notes: &Notes, shard: u32, (from, to): (Moment, Option<Moment>)) {
        let length = to.unwrap_or(notes.ended).since(from);
        if to.is_some() {
            self.gaps.push(length);
        }
        let after = to.unwrap_or(notes.ended).since(notes.healed);
        if length <= HANDOVER || after.is_zero() {
            return;
        }
        self.recovery = self.recovery.max(after);
        if to.is_none() || after > self.allowed {
            self.stuck.push(format!(
                "shard {shard}: no owner from {:.1} s on for {:.1} s, the last {:.1} s of it after all faults; allowed {:.1} s",
                from.since(notes.begun).as_secs_f64(),
                length.as_secs_f64(),
                after.as_secs_f64(),
                self.allowed.as_secs_f64()
            ));
        }
    }

    /// Which part of the time shards had owners.
    pub fn owned_part(&self, notes: &Notes) -> f64 {
        let all = notes.ended.since(notes.begun).as_secs_f64() * f64::from(self.shards);
        let without: Duration = self.gaps.iter().sum();
        1.0 - without.as_secs_f64() / all
    }
}
