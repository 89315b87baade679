//! What happened, line by line.

use std::time::Duration;

use super::{Evidence, Gap, seconds};
use crate::{Moment, Sample};

/// A line for each fault, and one for all other moves.
pub fn table(evidence: &Evidence, gaps: &[Gap]) -> Vec<String> {
    let names = &evidence.ownership.names;
    let mut lines = vec![format!(
        "{:>8}  {:<14} {:>6}  {:>14} {:>9} {:>9}",
        "at", "what", "units", "without owner", "p99", "most"
    )];
    let mut row = |at: Option<Moment>, what: &str, fault: Option<usize>| {
        let gaps = gaps.iter().filter(|gap| gap.fault == fault);
        let lengths = Lengths::of(gaps);
        lines.push(format!(
            "{:>8}  {what:<14} {:>6}  {:>14} {:>9} {:>9}",
            at.map_or("-".into(), |at| seconds(at.since(evidence.began))),
            lengths.0.rounds(),
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
    lines
}

/// How long some units had no owner.
pub struct Lengths(Sample);

impl Lengths {
    /// Those of these gaps that ended.
    pub fn of<'a>(gaps: impl Iterator<Item = &'a Gap>) -> Self {
        let lengths = gaps.filter_map(|gap| Some(gap.until?.since(gap.from)));
        Self(lengths.collect())
    }

    /// What so many percent of them do not exceed.
    pub fn at(&self, percent: usize) -> String {
        match self.0.share(percent) {
            _ if self.0.rounds() == 0 => "-".into(),
            length if length < Duration::from_secs(1) => {
                format!("{:.1} ms", length.as_secs_f64() * 1000.0)
            }
            length => seconds(length),
        }
    }
}
