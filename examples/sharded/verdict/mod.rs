//! What must hold, judged from what the processes wrote down and from the counters in the bucket.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::clock::Moment;
use crate::fault::Fault;
use crate::terms::{Term, Terms};

/// The counter of each shard, as it stands in the bucket at the end.
pub type Finals = BTreeMap<u32, u64>;

/// All that is known of a run.
#[derive(Clone, Debug)]
pub struct Evidence {
    pub shards: u32,
    pub ttl: Duration,
    /// The names of the instances.
    pub names: Vec<String>,
    pub terms: Terms,
    pub faults: Vec<Fault>,
    pub rolling: Vec<(Moment, Moment)>,
    pub bad_ends: Vec<String>,
    pub finals: Finals,
    pub began: Moment,
    /// When all instances were asked to end. From then on nothing needs an owner.
    pub closing: Moment,
    pub ended: Moment,
}

/// A time in which a shard had no owner.
#[derive(Clone, Copy, Debug)]
struct Gap {
    shard: u32,
    from: Moment,
    /// When the next owner's handler began. `None` if there was none.
    until: Option<Moment>,
    /// When it was allowed to begin at the latest.
    allowed: Moment,
    /// What ended the term before, by its number.
    fault: Option<usize>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Verdict {
    findings: Vec<(bool, String)>,
    /// Text for people.
    table: Vec<String>,
}

impl Verdict {
    /// Whether all holds.
    pub fn holds(&self) -> bool {
        self.findings.iter().all(|(holds, _)| *holds)
    }

    fn enter(&mut self, what: &str, found: Result<String, String>) {
        let (holds, text) = match found {
            Ok(text) => (true, text),
            Err(text) => (false, text),
        };
        self.findings.push((holds, format!("{what}: {text}")));
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.table {
            writeln!(f, "{line}")?;
        }
        for (holds, text) in &self.findings {
            writeln!(f, "{}  {text}", if *holds { "ok  " } else { "FAIL" })?;
        }
        f.write_str(if self.holds() { "PASS" } else { "FAIL" })
    }
}

/// Judges a run.
pub fn judge(evidence: &Evidence) -> Verdict {
    let mut verdict = Verdict::default();
    let gaps = gaps(evidence);
    verdict.table = table(evidence, &gaps);
    verdict.enter("one owner at a time", never_overlapped(evidence));
    verdict.enter("tokens grew", tokens_grew(evidence));
    verdict.enter("counts", counted(evidence));
    verdict.enter("owned again in time", in_time(evidence, &gaps));
    let ends = match &evidence.bad_ends[..] {
        [] => Ok("all processes that were asked to end did so".to_owned()),
        bad => Err(bad.join(", ")),
    };
    verdict.enter("graceful ends", ends);
    verdict
}

/// No two terms of a shard at one time: see [`Term::last`] for the time that counts.
fn never_overlapped(evidence: &Evidence) -> Result<String, String> {
    for shard in 0..evidence.shards {
        let mut longest: Option<&Term> = None;
        for term in evidence.terms.of(shard) {
            if let Some(before) = longest
                && term.began < before.last()
            {
                return Err(format!(
                    "shard {shard}: {} began while {} could act for another {}",
                    evidence.names[term.instance],
                    evidence.names[before.instance],
                    seconds(before.last().since(term.began))
                ));
            }
            if longest.is_none_or(|before| before.last() < term.last()) {
                longest = Some(term);
            }
        }
    }
    let terms = evidence.terms.all().count();
    Ok(format!(
        "{terms} terms, each from its handler's begin to its end, or to the end of its lease"
    ))
}

fn tokens_grew(evidence: &Evidence) -> Result<String, String> {
    if let Some((shard, token)) = evidence.terms.twice.first() {
        return Err(format!("shard {shard}: two terms with token {token}"));
    }
    let mut compared = 0;
    for shard in 0..evidence.shards {
        for pair in evidence.terms.of(shard).windows(2) {
            if pair[1].token <= pair[0].token {
                let (before, after) = (pair[0].token, pair[1].token);
                return Err(format!("shard {shard}: {after} after {before}"));
            }
            compared += 1;
        }
    }
    if compared == 0 {
        return Err("no shard had a second term".into());
    }
    Ok(format!("{compared} times from term to term"))
}

/// Each number from 1 to the counter in the bucket was confirmed once, or was sent and had no
/// answer. Nothing else was confirmed.
fn counted(evidence: &Evidence) -> Result<String, String> {
    let (mut all, mut open, mut landed) = (0, 0, 0);
    for shard in 0..evidence.shards {
        let terms = evidence.terms.of(shard);
        let mut confirmed = BTreeSet::new();
        for count in terms.iter().flat_map(|term| &term.confirmed) {
            if !confirmed.insert(*count) {
                return Err(format!("shard {shard}: {count} was confirmed twice"));
            }
        }
        let unanswered: Vec<u64> = terms.iter().flat_map(|term| term.open()).collect();
        open += unanswered.len();
        // The next owner may have written the same number. Then this one was not stored.
        let unanswered: BTreeSet<u64> = unanswered
            .into_iter()
            .filter(|count| !confirmed.contains(count))
            .collect();
        let last = evidence.finals.get(&shard).copied().unwrap_or(0);
        for count in 1..=last {
            if !confirmed.contains(&count) && !unanswered.contains(&count) {
                return Err(format!(
                    "shard {shard}: the counter is {last}, but nobody wrote {count}"
                ));
            }
        }
        if let Some(most) = confirmed.last().filter(|most| **most > last) {
            return Err(format!(
                "shard {shard}: {most} was confirmed, and the counter is {last}"
            ));
        }
        all += confirmed.len();
        landed += unanswered.iter().filter(|count| **count <= last).count();
    }
    if all == 0 {
        return Err("nobody counted".into());
    }
    Ok(format!(
        "{all} confirmed, and none lost or doubled; {open} more had no answer, of which {landed} were stored"
    ))
}

/// The time between the end of a lease and the next term's begin. One heartbeat is for a member
/// whose turn it is and that died as well. The rest is for a busy machine.
fn slack(ttl: Duration) -> Duration {
    heartbeat(ttl) + Duration::from_secs(1)
}

/// The same for a shard that is given away in good order.
const HANDOVER: Duration = Duration::from_secs(1);

fn heartbeat(ttl: Duration) -> Duration {
    (ttl / 5).min(Duration::from_secs(1))
}

/// The gaps of all shards until the final stop.
fn gaps(evidence: &Evidence) -> Vec<Gap> {
    let shards = 0..evidence.shards;
    shards
        .flat_map(|shard| gaps_of(evidence, shard))
        .filter(|gap| gap.from < evidence.closing)
        .collect()
}

fn gaps_of(evidence: &Evidence, shard: u32) -> Vec<Gap> {
    let terms = evidence.terms.of(shard);
    let next = terms.iter().skip(1).map(Some).chain([None]);
    let pairs = terms.iter().zip(next);
    let gaps = pairs.map(|(term, next)| {
        let hit = evidence.faults.iter().position(|fault| {
            let is_its = (fault.instance, fault.process) == (term.instance, term.process);
            let lasts =
                |end| fault.from <= end && fault.until.is_none_or(|until| term.began < until);
            is_its && term.ended.is_none_or(lasts)
        });
        let is_hard = hit.is_some_and(|hit| evidence.faults[hit].kind.is_hard());
        let from = match hit {
            Some(hit) if is_hard => evidence.faults[hit].from.max(term.began),
            _ => term.ended.unwrap_or(evidence.ended),
        };
        let until = next.map(|next| next.began);
        // It may be given to an instance that was hit just before, or is hit now.
        let hard = evidence.faults.iter().filter(|fault| {
            let ended = fault.until.unwrap_or(evidence.ended);
            fault.kind.is_hard()
                && until.is_none_or(|until| fault.from < until)
                && from < ended + evidence.ttl
        });
        let latest = hard.map(|fault| fault.from).max();
        let by_lease = |since: Moment| since + evidence.ttl + slack(evidence.ttl);
        let allowed = match latest {
            Some(latest) => by_lease(latest.max(from)),
            None if term.ended_in_time => from + HANDOVER,
            None => by_lease(from),
        };
        Gap {
            shard,
            from,
            until,
            allowed,
            fault: hit,
        }
    });
    gaps.collect()
}

/// Each shard had a next owner in time.
fn in_time(evidence: &Evidence, gaps: &[Gap]) -> Result<String, String> {
    for shard in 0..evidence.shards {
        if evidence.terms.of(shard).is_empty() {
            return Err(format!("shard {shard} never had an owner"));
        }
    }
    let time = |moment: Moment| seconds(moment.since(evidence.began));
    for gap in gaps {
        let Some(until) = gap.until else {
            if gap.allowed > evidence.closing {
                continue;
            }
            return Err(format!(
                "shard {} had no owner from {} on",
                gap.shard,
                time(gap.from)
            ));
        };
        if until > gap.allowed {
            return Err(format!(
                "shard {} had no owner from {} to {}, and should have had one at {}",
                gap.shard,
                time(gap.from),
                time(until),
                time(gap.allowed)
            ));
        }
    }
    Ok(format!(
        "{} times, after a fault within {} + {}, otherwise within {}",
        gaps.len(),
        seconds(evidence.ttl),
        seconds(slack(evidence.ttl)),
        seconds(HANDOVER)
    ))
}

/// What happened, line by line.
fn table(evidence: &Evidence, gaps: &[Gap]) -> Vec<String> {
    let mut lines = vec![format!(
        "{:>8}  {:<14} {:>6}  {:>13}  {:>8}",
        "at", "what", "shards", "without owner", "median"
    )];
    let mut row = |at: Option<Moment>, what: &str, gaps: Vec<&Gap>| {
        let lengths = gaps
            .iter()
            .filter_map(|gap| Some(gap.until?.since(gap.from)));
        let mut lengths: Vec<_> = lengths.collect();
        lengths.sort();
        let shown = |time: Option<&Duration>| time.map_or("-".into(), |time| seconds(*time));
        lines.push(format!(
            "{:>8}  {what:<14} {:>6}  {:>13}  {:>8}",
            at.map_or("-".into(), |at| seconds(at.since(evidence.began))),
            gaps.len(),
            shown(lengths.last()),
            shown(lengths.get(lengths.len() / 2)),
        ));
    };
    for (index, fault) in evidence.faults.iter().enumerate() {
        if fault.from >= evidence.closing {
            continue;
        }
        let what = format!("{} {}", evidence.names[fault.instance], fault.kind.name());
        let of_it = gaps.iter().filter(|gap| gap.fault == Some(index));
        row(Some(fault.from), &what, of_it.collect());
    }
    let others: Vec<_> = gaps.iter().filter(|gap| gap.fault.is_none()).collect();
    row(None, "other moves", others);
    for (from, until) in &evidence.rolling {
        let moves = (0..evidence.shards).map(|shard| {
            let terms = evidence.terms.of(shard);
            let within = terms
                .iter()
                .filter(|it| *from <= it.began && it.began < *until);
            within.count()
        });
        let moves: Vec<_> = moves.collect();
        lines.push(format!(
            "rolling restart in {}: {} moves, at most {} of one shard",
            seconds(until.since(*from)),
            moves.iter().sum::<usize>(),
            moves.iter().max().unwrap_or(&0)
        ));
    }
    lines.push(balance(evidence));
    lines
}

/// How many shards each instance owned before the final stop.
fn balance(evidence: &Evidence) -> String {
    let mut owned = vec![0_usize; evidence.names.len()];
    for shard in 0..evidence.shards {
        let terms = evidence.terms.of(shard);
        let owns = |term: &&&Term| {
            term.began < evidence.closing && term.ended.is_none_or(|end| end >= evidence.closing)
        };
        if let Some(term) = terms.iter().rfind(owns) {
            owned[term.instance] += 1;
        }
    }
    let (least, most) = (owned.iter().min(), owned.iter().max());
    let spread = most.unwrap_or(&0) - least.unwrap_or(&0);
    let all = evidence.names.iter().zip(&owned);
    let all: Vec<_> = all.map(|(name, owned)| format!("{name} {owned}")).collect();
    format!("at the end: {}; max − min {spread}", all.join(", "))
}

fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests;
