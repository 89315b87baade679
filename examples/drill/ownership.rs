//! What must hold of terms and counters, whatever was done to the instances.

use std::collections::{BTreeMap, BTreeSet};

use async_nats::jetstream;
use async_nats::jetstream::stream::LastRawMessageErrorKind;

use crate::{Moment, Problem, Term, Terms};

/// The counter of each unit, as it stands in the bucket at the end.
pub type Finals = BTreeMap<u32, u64>;

/// Who owned what, and what came of it.
#[derive(Clone, Debug)]
pub struct Ownership {
    /// The names of what is owned, by its number.
    pub units: Vec<String>,
    /// The names of the instances.
    pub names: Vec<String>,
    /// All terms.
    pub terms: Terms,
    /// The counters.
    pub finals: Finals,
    /// The instances that were killed, and when.
    pub kills: Vec<(usize, Moment)>,
    /// Whether an instance that is killed frees what it owns at once: no lease is waited for.
    pub last_wills: bool,
}

/// What the owners counted.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Those that were confirmed.
    pub confirmed: usize,
    /// Those that had no answer.
    pub open: usize,
    /// Those of them that were stored.
    pub landed: usize,
    /// Counts that are in the bucket or in a journal, and not in both: a text for each.
    pub lost: Vec<String>,
    /// Counts that were confirmed twice.
    pub doubled: Vec<String>,
}

/// The names of so many shards.
pub fn shards(count: u32) -> Vec<String> {
    (0..count).map(|shard| format!("shard {shard}")).collect()
}

impl Ownership {
    /// Each unit, with its name and its terms.
    pub fn by_unit(&self) -> impl Iterator<Item = (u32, &str, Vec<&Term>)> {
        let units = (0..).zip(&self.units);
        units.map(|(number, name)| (number, name.as_str(), self.terms.of(number)))
    }

    /// When the handler of a term ran at the latest: a kill ends it before its lease.
    pub fn end_of(&self, term: &Term) -> Moment {
        let kills = self.kills.iter().filter(|(instance, at)| {
            *instance == term.instance && term.ended.is_none() && *at >= term.began
        });
        let first = kills.map(|(_, at)| *at).min();
        first.map_or(term.last(), |at| at.min(term.last()))
    }

    /// Until when nobody else may own a unit because of that term.
    fn holds_until(&self, term: &Term) -> Moment {
        if self.last_wills {
            self.end_of(term)
        } else {
            term.last()
        }
    }

    /// Two terms of a unit at one time.
    pub fn overlaps(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (_, unit, terms) in self.by_unit() {
            let mut longest: Option<&Term> = None;
            for term in terms {
                if let Some(before) = longest
                    && term.began < self.holds_until(before)
                {
                    found.push(format!(
                        "{unit}: {} began while {} could act for another {:.3} s (processes {} and {})",
                        self.names[term.instance],
                        self.names[before.instance],
                        self.holds_until(before).since(term.began).as_secs_f64(),
                        term.process,
                        before.process
                    ));
                }
                if longest.is_none_or(|it| self.holds_until(it) < self.holds_until(term)) {
                    longest = Some(term);
                }
            }
        }
        found
    }

    /// Tokens that do not grow from term to term.
    pub fn disorders(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (unit, token) in &self.terms.twice {
            let unit = &self.units[*unit as usize];
            found.push(format!("{unit}: two terms with token {token}"));
        }
        for (_, unit, terms) in self.by_unit() {
            for pair in terms.windows(2) {
                let (before, after) = (pair[0].token, pair[1].token);
                if after <= before {
                    found.push(format!("{unit}: {after} after {before}"));
                }
            }
        }
        found
    }

    /// Each number from 1 to the counter in the bucket was confirmed once, or was sent and had no
    /// answer. Nothing else was confirmed. Of a bucket that was deleted no counter is left: there,
    /// only that no number was confirmed twice is judged.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        let bucket = self.terms.all().map(|term| term.token.epoch).max();
        for (unit, name, mut terms) in self.by_unit() {
            let mut confirmed = BTreeSet::new();
            for term in &terms {
                for count in &term.confirmed {
                    if !confirmed.insert((Some(term.token.epoch), *count)) {
                        let text = format!("{name}: {count} was confirmed twice");
                        counts.doubled.push(text);
                    }
                }
            }
            counts.confirmed += confirmed.len();
            // What stood in a bucket that was deleted is gone.
            terms.retain(|term| Some(term.token.epoch) == bucket);
            let confirmed = confirmed.into_iter().filter(|(of, _)| *of == bucket);
            let confirmed: BTreeSet<u64> = confirmed.map(|(_, count)| count).collect();
            let unanswered: Vec<u64> = terms.iter().flat_map(|term| term.open()).collect();
            counts.open += unanswered.len();
            // The next owner may have written the same number. Then this one was not stored.
            let open = unanswered.into_iter().filter(|it| !confirmed.contains(it));
            let unanswered: BTreeSet<u64> = open.collect();
            let last = self.finals.get(&unit).copied().unwrap_or(0);
            for count in 1..=last {
                if !confirmed.contains(&count) && !unanswered.contains(&count) {
                    counts.lost.push(format!(
                        "{name}: the counter is {last}, but nobody wrote {count}"
                    ));
                }
            }
            if let Some(most) = confirmed.last().filter(|most| **most > last) {
                counts.lost.push(format!(
                    "{name}: {most} was confirmed, and the counter is {last}"
                ));
            }
            counts.landed += unanswered.iter().filter(|count| **count <= last).count();
        }
        counts
    }
}

/// Where `Term::store` keeps the data of each shard of the first generation.
pub fn stores(group: &str, shards: u32) -> impl Iterator<Item = String> {
    (0..shards).map(move |shard| format!("_gdata.{group}.1.{shard}"))
}

/// Reads the counters in these stores, one of each unit, from the leader of the bucket's stream.
pub async fn finals(
    url: &str,
    bucket: &str,
    stores: impl Iterator<Item = String>,
) -> Result<Finals, Problem> {
    let client = async_nats::connect(url).await?;
    let bucket = jetstream::new(client).get_key_value(bucket).await?;
    let mut finals = Finals::new();
    for (unit, store) in (0..).zip(stores) {
        let key = format!("$KV.{}.{store}.count", bucket.name);
        match bucket.stream.get_last_raw_message_by_subject(&key).await {
            Ok(message) => {
                finals.insert(unit, std::str::from_utf8(&message.payload)?.parse()?);
            }
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(finals)
}
