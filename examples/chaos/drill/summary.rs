//! What people read at the end.

use std::fmt::Write as _;
use std::time::Duration;

use super::checker::{Evidence, Verdict};
use super::fault::Kind;
use super::gaps::Gap;
use super::plan::Role;
use super::seconds;

/// More violations of a kind than that tell nothing new.
const SHOWN: usize = 10;

/// The whole text. Its last line is the verdict.
pub fn summary(evidence: &Evidence, verdict: &Verdict) -> String {
    let mut text = String::new();
    faults(&mut text, evidence, verdict);
    roles(&mut text, evidence, verdict);
    let Verdict {
        terms,
        work,
        refused,
        ..
    } = verdict;
    let _ = writeln!(
        text,
        "\n{terms} terms did {work} pieces of work; fencing tokens kept {refused} out that came too late."
    );
    for (what, found) in verdict.findings() {
        for violation in found.iter().take(SHOWN) {
            let _ = writeln!(text, "  {what}: {violation}");
        }
        if found.len() > SHOWN {
            let _ = writeln!(text, "  {what}: … and {} more", found.len() - SHOWN);
        }
    }
    let _ = write!(text, "{verdict}");
    text
}

/// How often each kind happened, and how long a role was without a leader then.
fn faults(text: &mut String, evidence: &Evidence, verdict: &Verdict) {
    let faults = &evidence.notes.faults;
    let mut kinds: Vec<_> = faults.iter().map(|fault| fault.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let _ = writeln!(
        text,
        "\n{:<20} {:>8} {:>7}   longest time without a leader: {:>10} {:>14}",
        "fault", "injected", "missed", "alone", "with others"
    );
    let longest = |gaps: &mut dyn Iterator<Item = &Gap>| {
        gaps.max_by_key(|gap| gap.length()).map_or_else(
            || "–".to_owned(),
            |gap| format!("{} ({})", seconds(gap.length()), gap.role),
        )
    };
    let mut row = |name: &str, counts: (usize, usize), alone: String, others: String| {
        let (done, missed) = counts;
        let _ = writeln!(
            text,
            "{name:<20} {done:>8} {missed:>7}   {alone:>40} {others:>24}"
        );
    };
    for kind in &kinds {
        let of_kind = || faults.iter().filter(|fault| fault.kind == *kind);
        let done = of_kind().filter(|fault| fault.is_done()).count();
        let only: &[Kind] = &[*kind];
        let mut alone = verdict.gaps.iter().filter(|gap| gap.causes == only);
        let mut others = verdict
            .gaps
            .iter()
            .filter(|gap| gap.causes.len() > 1 && gap.causes.contains(kind));
        row(
            &kind.name(),
            (done, of_kind().count() - done),
            longest(&mut alone),
            longest(&mut others),
        );
    }
    let done = faults.iter().filter(|fault| fault.is_done()).count();
    let mut unexplained = verdict.gaps.iter().filter(|gap| gap.causes.is_empty());
    row("none", (0, 0), longest(&mut unexplained), "–".to_owned());
    row(
        "all",
        (done, faults.len() - done),
        longest(&mut verdict.gaps.iter()),
        String::new(),
    );
}

/// What became of each role.
fn roles(text: &mut String, evidence: &Evidence, verdict: &Verdict) {
    let notes = &evidence.notes;
    let all = notes.ended.since(notes.begun);
    let _ = writeln!(
        text,
        "\n{:<20} {:>8} {:>7} {:>10} {:>12} {:>14}",
        "role", "ttl", "terms", "led", "longest gap", "median gap"
    );
    for role in &notes.roles {
        let mut gaps: Vec<_> = gaps_of(verdict, role).map(Gap::length).collect();
        gaps.sort_unstable();
        let without: Duration = gaps.iter().sum();
        let led = 100.0 * (1.0 - without.as_secs_f64() / all.as_secs_f64());
        let _ = writeln!(
            text,
            "{:<20} {:>8} {:>7} {:>9.1}% {:>12} {:>14}",
            role.name,
            seconds(role.ttl),
            evidence.terms_of(role).len(),
            led,
            seconds(gaps.last().copied().unwrap_or_default()),
            seconds(gaps.get(gaps.len() / 2).copied().unwrap_or_default()),
        );
    }
}

fn gaps_of<'a>(verdict: &'a Verdict, role: &Role) -> impl Iterator<Item = &'a Gap> {
    let name = role.name.clone();
    verdict.gaps.iter().filter(move |gap| gap.role == name)
}
