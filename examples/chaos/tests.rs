//! A short drill of `examples/chaos`, and whether its checker sees what must not be.
//!
//! `cargo run --release --example chaos -- --help` tells of longer ones.
#![cfg(unix)]

#[path = "drill/mod.rs"]
mod drill;

use std::time::Duration;

use crate::drill::fault::Kind;
use crate::drill::plan::{Launch, Plan, Role};
use crate::drill::shards::Shards;
use crate::drill::{instance, run};

const SEED: u64 = 5;
const LENGTH: Duration = Duration::from_secs(20);
/// What there is time for, some of it of each sort: a cluster needs long to recover from the loss
/// of a node.
const FAULTS: [Kind; 15] = [
    Kind::Kill,
    Kind::PauseShort,
    Kind::PauseLong,
    Kind::Restart,
    Kind::StepDown,
    Kind::BlackHole,
    Kind::Deaf,
    Kind::Reset,
    Kind::Slow,
    Kind::AcksLost,
    Kind::DeleteKey,
    Kind::PurgeKey,
    Kind::ForeignRecord,
    Kind::MoveStream,
    Kind::KillStreamLeader,
];

#[test]
fn nothing_that_goes_wrong_makes_two_leaders_or_none() {
    let mut out = tempfile::tempdir().expect("a folder");
    out.disable_cleanup(true);
    let role = |name: &str, seconds| Role {
        name: name.to_owned(),
        ttl: Duration::from_secs(seconds),
    };
    let arguments = ["--exact", "instance_process", "--ignored", "--nocapture"];
    let plan = Plan {
        seed: SEED,
        length: LENGTH,
        instances: 3,
        roles: vec![role("scheduler", 1), role("network", 3)],
        shards: Some(Shards::several(8, 3, Duration::ZERO)),
        faults: FAULTS.to_vec(),
        out: out.path().join("drill"),
        sabotage: None,
        // Processes of the test harness can't be companions.
        last_wills: false,
        serve: None,
        launch: Launch {
            program: std::env::current_exe().expect("this program"),
            arguments: arguments.map(ToOwned::to_owned).to_vec(),
        },
    };
    let (evidence, verdict) = run::run(&plan, || false).expect("a drill");
    assert!(verdict.is_clean(), "{verdict:#?}, see {:?}", plan.out);
    for kind in FAULTS {
        let mut faults = evidence.notes.faults.iter();
        let done = faults.any(|fault| fault.kind == kind && fault.is_done());
        assert!(done, "{kind} never happened, see {:?}", plan.out);
    }
    for role in &plan.roles {
        let terms = evidence.terms_of(role).len();
        assert!(terms > 1, "{}: nobody else ever led", role.name);
    }
    assert!(verdict.counts.confirmed > 0);
    out.disable_cleanup(false);
}

/// Not a test: an instance.
#[test]
#[ignore = "run by the drill in a process of its own"]
fn instance_process() {
    if let Ok(orders) = std::env::var(instance::ORDERS) {
        instance::main(&orders).expect("an instance");
    }
}
