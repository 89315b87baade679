//! What must hold of a group, beside what must hold of every run.

use std::collections::BTreeMap;

use drill::Moment;
use drill::ownership::Ownership;
use drill::verdict::{Evidence, Lengths, Verdict, none_of, seconds};

/// What only the script itself can tell.
#[derive(Debug, Default)]
pub struct Told {
    /// From when to when all instances were restarted in turn.
    pub rolling: Vec<(Moment, Moment)>,
    /// How often the shards were even in time after something had happened.
    pub balanced: usize,
    /// How many shards each instance owned when they were not.
    pub uneven: Vec<String>,
}

/// Judges a run.
pub fn judge(evidence: &Evidence, told: &Told) -> Verdict {
    let mut verdict = Verdict::on(evidence);
    for span in &told.rolling {
        let line = rolling_restart(evidence, &verdict, *span);
        verdict.table.push(line);
    }
    verdict.table.push(balance(evidence));
    verdict.enter("counts", counted(&evidence.ownership));
    verdict.enter("balance", was_even(told));
    verdict
}

fn counted(ownership: &Ownership) -> Result<String, String> {
    let counts = ownership.counts();
    none_of(&counts.doubled)?;
    none_of(&counts.lost)?;
    if counts.confirmed == 0 {
        return Err("nobody counted".into());
    }
    Ok(format!(
        "{} confirmed, and none lost or doubled; {} more had no answer, of which {} were stored",
        counts.confirmed, counts.open, counts.landed
    ))
}

/// Some time after each event no instance owned two shards more than another one.
fn was_even(told: &Told) -> Result<String, String> {
    none_of(&told.uneven)?;
    Ok(format!(
        "kept {} times, to one shard between the most and the least",
        told.balanced
    ))
}

/// How often each shard moved from then until then, and how long it had no owner.
fn rolling_restart(
    evidence: &Evidence,
    verdict: &Verdict,
    (from, until): (Moment, Moment),
) -> String {
    let within = |moment| from <= moment && moment < until;
    let mut shards: BTreeMap<usize, usize> = BTreeMap::new();
    let mut moves = 0;
    for (_, _, terms) in evidence.ownership.by_unit() {
        let begun = terms.iter().filter(|term| within(term.began)).count();
        *shards.entry(begun).or_default() += 1;
        moves += begun;
    }
    let shards = shards.iter().rev();
    let shards = shards.map(|(moves, shards)| format!("{shards} shards {moves} times"));
    let shards: Vec<_> = shards.collect();
    let lengths = Lengths::of(verdict.gaps.iter().filter(|gap| within(gap.from)));
    format!(
        "rolling restart in {}: {moves} moves ({}); without owner {} (median), {} (p99), {} (most)",
        seconds(until.since(from)),
        shards.join(", "),
        lengths.at(50),
        lengths.at(99),
        lengths.at(100)
    )
}

/// How many shards each instance owned before the final stop.
fn balance(evidence: &Evidence) -> String {
    let Ownership { names, terms, .. } = &evidence.ownership;
    let owned = terms.owned_at(evidence.closing, names.len());
    let (least, most) = (owned.iter().min(), owned.iter().max());
    let spread = most.unwrap_or(&0) - least.unwrap_or(&0);
    let all = names.iter().zip(&owned);
    let all: Vec<_> = all.map(|(name, owned)| format!("{name} {owned}")).collect();
    format!("at the end: {}; max − min {spread}", all.join(", "))
}
