//! What must hold, judged from what the processes wrote down and from the counters in the bucket.

mod table;

use std::fmt;
use std::time::Duration;

use crate::clock::Moment;
use crate::fault::Fault;
use crate::ownership::Ownership;
use table::table;

/// All that is known of a run.
#[derive(Clone, Debug)]
pub struct Evidence {
    pub ownership: Ownership,
    pub ttl: Duration,
    pub faults: Vec<Fault>,
    pub rolling: Vec<(Moment, Moment)>,
    pub bad_ends: Vec<String>,
    /// How often the shards were even in time after something had happened.
    pub balanced: usize,
    /// How many shards each instance owned when they were not.
    pub uneven: Vec<String>,
    pub began: Moment,
    /// When the first scene began.
    pub opening: Moment,
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
    verdict.enter("one owner at a time", never_overlapped(&evidence.ownership));
    verdict.enter("tokens grew", tokens_grew(&evidence.ownership));
    verdict.enter("counts", counted(&evidence.ownership));
    verdict.enter("owned again in time", in_time(evidence, &gaps));
    let ends = match &evidence.bad_ends[..] {
        [] => Ok("all processes that were asked to end did so".to_owned()),
        bad => Err(bad.join(", ")),
    };
    verdict.enter("graceful ends", ends);
    verdict.enter("balance", was_even(evidence));
    verdict
}

/// No two terms of a shard at one time.
fn never_overlapped(ownership: &Ownership) -> Result<String, String> {
    none_of(&ownership.overlaps())?;
    let terms = ownership.terms.all().count();
    Ok(format!(
        "{terms} terms, each from its handler's begin to its end, or to the end of its lease"
    ))
}

/// Some time after each event no instance owned two shards more than another one.
fn was_even(evidence: &Evidence) -> Result<String, String> {
    none_of(&evidence.uneven)?;
    let Evidence { balanced, .. } = evidence;
    Ok(format!(
        "kept {balanced} times, to one shard between the most and the least"
    ))
}

fn tokens_grew(ownership: &Ownership) -> Result<String, String> {
    none_of(&ownership.disorders())?;
    let shards = 0..ownership.shards;
    let later = shards.map(|shard| ownership.terms.of(shard).len().saturating_sub(1));
    match later.sum::<usize>() {
        0 => Err("no shard had a second term".into()),
        compared => Ok(format!("{compared} times from term to term")),
    }
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

/// Fails with the first violation, and says how many more there are.
fn none_of(found: &[String]) -> Result<(), String> {
    match found {
        [] => Ok(()),
        [only] => Err(only.clone()),
        [first, more @ ..] => Err(format!("{first}, and {} more", more.len())),
    }
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
    let shards = 0..evidence.ownership.shards;
    shards
        .flat_map(|shard| gaps_of(evidence, shard))
        .filter(|gap| gap.from < evidence.closing)
        .collect()
}

fn gaps_of(evidence: &Evidence, shard: u32) -> Vec<Gap> {
    let terms = evidence.ownership.terms.of(shard);
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
    for shard in 0..evidence.ownership.shards {
        if evidence.ownership.terms.of(shard).is_empty() {
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

fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests;
