//! What happened, line by line.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Evidence, Gap, seconds};
use crate::clock::Moment;
use crate::ownership::Ownership;

/// A line for each fault, for all other moves, for each rolling restart, and for the balance.
pub fn table(evidence: &Evidence, gaps: &[Gap]) -> Vec<String> {
    let names = &evidence.ownership.names;
    let mut lines = vec![format!(
        "{:>8}  {:<14} {:>6}  {:>14} {:>9} {:>9}",
        "at", "what", "shards", "without owner", "p99", "most"
    )];
    let mut row = |at: Option<Moment>, what: &str, fault: Option<usize>| {
        let gaps = gaps.iter().filter(|gap| gap.fault == fault);
        let lengths = Lengths::of(gaps);
        lines.push(format!(
            "{:>8}  {what:<14} {:>6}  {:>14} {:>9} {:>9}",
            at.map_or("-".into(), |at| seconds(at.since(evidence.began))),
            lengths.0.len(),
            lengths.at(50),
            lengths.at(99),
            lengths.at(100),
        ));
    };
    for (index, fault) in evidence.faults.iter().enumerate() {
        if fault.from < evidence.closing {
            let what = format!("{} {}", names[fault.instance], fault.kind.name());
            row(Some(fault.from), &what, Some(index));
        }
    }
    row(None, "other moves", None);
    for (from, until) in &evidence.rolling {
        lines.push(rolling_restart(evidence, gaps, *from, *until));
    }
    lines.push(balance(evidence));
    lines
}

/// How often each shard moved from then until then, and how long it had no owner.
fn rolling_restart(evidence: &Evidence, gaps: &[Gap], from: Moment, until: Moment) -> String {
    let within = |moment| from <= moment && moment < until;
    let mut shards: BTreeMap<usize, usize> = BTreeMap::new();
    let mut moves = 0;
    for shard in 0..evidence.ownership.shards {
        let terms = evidence.ownership.terms.of(shard);
        let begun = terms.iter().filter(|term| within(term.began)).count();
        *shards.entry(begun).or_default() += 1;
        moves += begun;
    }
    let shards = shards.iter().rev();
    let shards: Vec<_> = shards
        .map(|(moves, shards)| format!("{shards} shards {moves} times"))
        .collect();
    let lengths = Lengths::of(gaps.iter().filter(|gap| within(gap.from)));
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

/// How long some shards had no owner, in order.
struct Lengths(Vec<Duration>);

impl Lengths {
    fn of<'a>(gaps: impl Iterator<Item = &'a Gap>) -> Self {
        let mut lengths: Vec<_> = gaps
            .filter_map(|gap| Some(gap.until?.since(gap.from)))
            .collect();
        lengths.sort();
        Self(lengths)
    }

    /// What so many percent of them do not exceed.
    fn at(&self, percent: usize) -> String {
        let place = (self.0.len() * percent).div_ceil(100);
        let length = self.0.get(place.saturating_sub(1));
        match length {
            None => "-".into(),
            Some(length) if *length < Duration::from_secs(1) => {
                format!("{:.1} ms", length.as_secs_f64() * 1000.0)
            }
            Some(length) => seconds(*length),
        }
    }
}
