//! The drill as a picture: above what went wrong, below who led.

use std::collections::BTreeMap;

use ::drill::picture::{Part, Picture};

use super::checker::{Evidence, Verdict};
use super::fault::{Fault, Kind, Subject};
use super::plan::{NODES, Role};

const TERMS: [&str; 2] = ["#2e7d4f", "#5fae7f"];
const NO_LEADER: &str = "#d93025";
const SUFFERS: &str = "#f4b40055";

/// Draws it as SVG.
pub fn draw(evidence: &Evidence, verdict: &Verdict) -> String {
    let notes = &evidence.notes;
    let title = format!(
        "Seed {}: {} instances, {} faults, {} terms — {verdict}",
        notes.seed,
        notes.instances.len(),
        notes.faults.len(),
        verdict.terms
    );
    let mut picture = Picture::new(&title, &legend(), (notes.begun, notes.ended));
    faults(&mut picture, evidence);
    for role in &notes.roles {
        of_role(&mut picture, evidence, verdict, role);
    }
    if let Some(shards) = &evidence.shards {
        picture.heading(&format!("Group of {} shards", shards.units.len()));
        marks(&mut picture, evidence, "keys", &|fault| {
            fault.kind.subject() == Subject::Group
        });
        for (index, instance) in notes.instances.iter().enumerate() {
            picture.lane(instance, |picture| {
                shade(picture, evidence, instance);
                picture.owned(shards, index);
            });
        }
        picture.rows(shards, "shards");
    }
    picture.finish()
}

fn faults(picture: &mut Picture, evidence: &Evidence) {
    let notes = &evidence.notes;
    picture.heading("Faults of NATS");
    for node in 1..=NODES {
        let name = format!("nats-{node}");
        marks(picture, evidence, &name, &|fault| {
            let hit = fault.target == name || fault.target == "all";
            fault.kind.subject() == Subject::Server && hit
        });
    }
    marks(picture, evidence, "stream", &|fault| {
        fault.target == "stream"
    });
    picture.lane("no writes", |picture| {
        for (from, until) in &notes.outages {
            let told = format!("NATS confirmed no write until {}", evidence.time(*until));
            picture.mark((*from, *until), Part::Whole, NO_LEADER, ("", &told));
        }
    });
    picture.heading("Faults of roles");
    for role in &notes.roles {
        marks(picture, evidence, &role.name, &|fault| {
            fault.kind.subject() == Subject::Role && fault.target == role.name
        });
    }
    picture.heading("Faults of instances");
    for name in &notes.instances {
        marks(picture, evidence, name, &|fault| {
            fault.is_of_instance() && fault.target == *name
        });
    }
}

/// A lane with some faults.
fn marks(picture: &mut Picture, evidence: &Evidence, name: &str, is_here: &dyn Fn(&Fault) -> bool) {
    let faults = evidence.notes.faults.iter();
    let faults = faults.filter(|fault| fault.is_done() && is_here(fault));
    picture.lane(name, |picture| {
        for fault in faults {
            // A process and its network may suffer at one time: one above the other.
            let part = match fault.kind.subject() {
                Subject::Process => Part::Upper,
                Subject::Network => Part::Lower,
                _ => Part::Whole,
            };
            let told = format!(
                "{} {} at {} for {:.1} s",
                fault.kind,
                fault.target,
                evidence.time(fault.from),
                fault.until.since(fault.from).as_secs_f64()
            );
            let span = (fault.from, fault.until);
            let (colour, code) = (colour_of(fault.kind), fault.kind.code());
            picture.mark(span, part, colour, (&code, &told));
        }
    });
}

fn of_role(picture: &mut Picture, evidence: &Evidence, verdict: &Verdict, role: &Role) {
    let (notes, name) = (&evidence.notes, &role.name);
    picture.heading(&format!("Role {name}, ttl {} s", role.ttl.as_secs_f64()));
    let terms = evidence.terms_of(role);
    for (number, instance) in notes.instances.iter().enumerate() {
        picture.lane(instance, |picture| {
            shade(picture, evidence, instance);
            for (index, term) in terms.iter().enumerate() {
                if term.instance != number || term.began > notes.ended {
                    continue;
                }
                let told = format!(
                    "{name}: {instance}, process {}, token {}, from {} to {}",
                    term.process,
                    term.token,
                    evidence.time(term.began),
                    evidence.time(term.seen)
                );
                let span = (term.began, term.seen);
                picture.mark(span, Part::Whole, TERMS[index % 2], ("", &told));
            }
        });
    }
    picture.lane("no leader", |picture| {
        for gap in verdict.gaps.iter().filter(|gap| gap.role == *name) {
            let length = gap.length().as_secs_f64();
            let told = format!("{name}: no leader for {length:.2} s");
            let label = if length >= 1.0 {
                format!("{length:.1}")
            } else {
                String::new()
            };
            picture.mark((gap.from, gap.to), Part::Whole, NO_LEADER, (&label, &told));
        }
    });
}

/// Where an instance suffers, so that one sees why its bars end.
fn shade(picture: &mut Picture, evidence: &Evidence, instance: &str) {
    for fault in &evidence.notes.faults {
        if fault.is_of_instance() && fault.is_done() && fault.target == instance {
            picture.mark((fault.from, fault.until), Part::Whole, SUFFERS, ("", ""));
        }
    }
}

/// What the colours mean, and the letters of the faults.
fn legend() -> Vec<(Vec<&'static str>, String)> {
    let mut legend = vec![
        (TERMS.to_vec(), "a term each".to_owned()),
        (
            vec![NO_LEADER],
            "no leader, in seconds; NATS takes no writes".to_owned(),
        ),
        (vec![SUFFERS], "the instance suffers".to_owned()),
    ];
    let mut kinds = BTreeMap::<_, Vec<String>>::new();
    for kind in Kind::all() {
        let told = format!("{} {kind}", kind.code());
        kinds.entry(colour_of(*kind)).or_default().push(told);
    }
    let kinds = kinds.into_iter();
    legend.extend(kinds.map(|(colour, kinds)| (vec![colour], kinds.join(", "))));
    legend
}

const fn colour_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Kill | Kind::KillServer | Kind::KillStreamLeader => "#b3261e",
        Kind::PauseShort | Kind::PauseLong | Kind::PauseServer => "#7b4bb7",
        Kind::Restart | Kind::RestartServer | Kind::LameDuck | Kind::RestartAll => "#1f6fb5",
        Kind::BlackHole | Kind::Deaf | Kind::Mute | Kind::Reset => "#3c4043",
        Kind::Slow | Kind::AcksLost | Kind::FullAccount | Kind::FullDisk => "#c98a00",
        _ => "#c2185b",
    }
}
