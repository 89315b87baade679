//! What people read at the end.

use std::fmt::Write as _;
use std::time::Duration;

use super::checker::{Evidence, Verdict};
use super::fault::{Fault, Kind};
use super::gaps::Gap;
use super::seconds;
use super::shards::verdict::ShardsVerdict;
use ::drill::Sample;
use ::drill::ownership::Counts;

/// More violations of a kind than that tell nothing new.
const SHOWN: usize = 10;

/// The whole text. Its last line is the verdict.
pub fn summary(evidence: &Evidence, verdict: &Verdict) -> String {
    let mut text = String::new();
    faults(&mut text, evidence);
    roles(&mut text, evidence, verdict);
    let (terms, counts) = (verdict.terms, counts(&verdict.counts));
    let _ = writeln!(text, "\n{terms} terms: {counts}");
    if let Some(shards) = &verdict.shards {
        group(&mut text, evidence, shards);
    }
    if let Some(view) = &verdict.view {
        let _ = writeln!(text, "\n{view}");
    }
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

/// How often each kind happened.
fn faults(text: &mut String, evidence: &Evidence) {
    let faults = &evidence.notes.faults;
    let count = |name: &str, is_meant: &dyn Fn(&Fault) -> bool| {
        let all = faults.iter().filter(|fault| is_meant(fault));
        let (done, missed): (Vec<_>, Vec<_>) = all.partition(|fault| fault.is_done());
        format!("{name:<20} {:>8} {:>7}\n", done.len(), missed.len())
    };
    let _ = writeln!(text, "\n{:<20} {:>8} {:>7}", "fault", "injected", "missed");
    for kind in Kind::all() {
        if faults.iter().any(|fault| fault.kind == *kind) {
            text.push_str(&count(&kind.name(), &|fault| fault.kind == *kind));
        }
    }
    text.push_str(&count("all", &|_| true));
}

/// What became of each role.
fn roles(text: &mut String, evidence: &Evidence, verdict: &Verdict) {
    let notes = &evidence.notes;
    let all = notes.ended.since(notes.begun).as_secs_f64();
    let outages = || {
        let spans = notes.outages.iter();
        spans.map(|(from, until)| until.since(*from))
    };
    let away: Duration = outages().sum();
    let _ = writeln!(
        text,
        "\nNATS took no writes for {} of {all:.1} s, {} at the longest.",
        seconds(away),
        seconds(outages().max().unwrap_or_default())
    );
    let _ = writeln!(
        text,
        "The last columns: the longest time without a leader, and the longest allowed, counted from the last fault of NATS or of the key, and from when NATS took writes again.\n\
         {:<20} {:>8} {:>7} {:>7} {:>12} {:>12} {:>14} {:>9}",
        "role", "ttl", "terms", "led", "median gap", "longest gap", "undisturbed", "allowed"
    );
    for role in &notes.roles {
        let of_role = || {
            let gaps = verdict.gaps.iter();
            gaps.filter(|gap| gap.role == role.name)
        };
        let lengths: Sample = of_role().map(Gap::length).collect();
        let without: Duration = of_role().map(Gap::length).sum();
        let quiet = of_role().map(|gap| gap.quiet).max();
        let _ = writeln!(
            text,
            "{:<20} {:>8} {:>7} {:>6.1}% {:>12} {:>12} {:>14} {:>9}",
            role.name,
            seconds(role.ttl),
            evidence.terms_of(role).len(),
            100.0 * (1.0 - without.as_secs_f64() / all),
            seconds(lengths.median()),
            seconds(lengths.most()),
            seconds(quiet.unwrap_or_default()),
            seconds(role.patience()),
        );
    }
}

/// What owners counted.
fn counts(counts: &Counts) -> String {
    format!(
        "{} counts confirmed; {} more had no answer, of which {} were stored.",
        counts.confirmed, counts.open, counts.landed
    )
}

/// What became of the group.
fn group(text: &mut String, evidence: &Evidence, verdict: &ShardsVerdict) {
    let gaps: Sample = verdict.gaps.iter().copied().collect();
    let owned: Vec<_> = verdict.owned.iter().map(ToString::to_string).collect();
    let _ = writeln!(
        text,
        "\n{} shards had owners {:.1}% of the time, in {} terms. Without an owner for {} (median), {} (p99), {} (most).\n\
         {}\n\
         After the last fault, each had an owner again within {}, allowed {}. At the end: {}.",
        verdict.shards,
        100.0 * verdict.owned_part(&evidence.notes),
        verdict.terms,
        seconds(gaps.median()),
        seconds(gaps.p99()),
        seconds(gaps.most()),
        counts(&verdict.counts),
        seconds(verdict.recovery),
        seconds(verdict.allowed),
        owned.join(" ")
    );
}
