//! The run as a picture: who owned what, and what was done to whom.

use drill::picture::{Part, Picture, colour};
use drill::verdict::Evidence;

const FAULT: &str = "#222222";

/// Draws it as SVG.
pub fn draw(evidence: &Evidence) -> String {
    let ownership = &evidence.ownership;
    let (shards, names) = (ownership.units.len(), &ownership.names);
    let ttl = evidence.ttl.as_secs_f64();
    let title = format!(
        "{shards} shards on {} instances, lease {ttl} s: who owned each shard",
        names.len()
    );
    let mut legend = vec![(vec![FAULT], "what was done to an instance".to_owned())];
    for (instance, name) in names.iter().enumerate() {
        legend.push((vec![colour(instance)], name.clone()));
    }
    let orders = "above: how many shards it owned; below: a row per shard, white: no owner";
    legend.push((Vec::new(), orders.to_owned()));
    let mut picture = Picture::new(&title, &legend, (evidence.opening, evidence.closing));
    for (instance, name) in names.iter().enumerate() {
        picture.lane(name, |picture| {
            picture.owned(ownership, instance);
            for fault in &evidence.faults {
                if fault.instance == instance && fault.from < evidence.closing {
                    let span = (fault.from, fault.until.unwrap_or(evidence.closing));
                    let name = fault.kind.name();
                    picture.mark(span, Part::Lower, FAULT, (name, name));
                }
            }
        });
    }
    picture.rows(ownership, "shards");
    picture.finish()
}
