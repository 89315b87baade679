//! A drill from its begin to its verdict.

use std::fs;
use std::thread;
use std::time::Duration;

use nats_elect_testing::NatsCluster;
use rustix::process::Signal;

use super::admin::ACCOUNT_BYTES;
use super::board::Board;
use super::checker::{Evidence, Notes, Verdict};
use super::fleet::Fleet;
use super::nemesis::Nemesis;
use super::onlooker::Onlooker;
use super::plan::{BUCKET, NODES, Plan, Role, Sabotage};
use super::probe::Probe;
use super::schedule::schedule;
use super::shards::GROUP;
use super::{Problem, runtime, say, seconds};
use super::{summary, timeline};
use ::drill::Moment;
use ::drill::ownership::{finals, stores};

/// The first election, of a cluster that was just started on a busy machine.
const FIRST_ELECTION: Duration = Duration::from_secs(60);
/// How long everything goes on undisturbed at the end.
const CALM: Duration = Duration::from_secs(2);

/// Runs a drill until its end, or until `enough` says so, and judges it. `Err` means that there was
/// no drill.
pub fn run(plan: &Plan, enough: impl Fn() -> bool) -> Result<(Evidence, Verdict), Problem> {
    let folders = plan.folders();
    if plan.out.exists() {
        let is_empty = fs::read_dir(&plan.out)?.next().is_none();
        if !is_empty && !folders.roles.exists() {
            let out = plan.out.display();
            return Err(
                format!("{out} holds something else than a drill: give another folder").into(),
            );
        }
        fs::remove_dir_all(&plan.out)?;
    }
    fs::create_dir_all(&folders.roles)?;
    fs::create_dir_all(&folders.shards)?;
    let mut cluster = NatsCluster::builder(NODES).config(&accounts()).start()?;
    let (major, minor, patch) = cluster.node(0).version();
    say(&format!(
        "{NODES} × nats-server {major}.{minor}.{patch}, {} instances; histories in {}",
        plan.instances,
        plan.out.display()
    ));
    let notes = rehearse(plan, &mut cluster, &enough)?;
    notes.write(&plan.out)?;
    judge(&plan.out)
}

/// One account for all, which has an end.
fn accounts() -> String {
    format!(
        "accounts {{ DRILL {{ jetstream {{ max_file: {ACCOUNT_BYTES} }}, users: [{{ user: drill, password: drill }}] }} }}\nno_auth_user: drill"
    )
}

/// Judges what a drill has left in that folder, prints a summary and draws a timeline.
pub fn judge(out: &std::path::Path) -> Result<(Evidence, Verdict), Problem> {
    let evidence = Evidence::read(out)?;
    let verdict = Verdict::on(&evidence);
    let picture = out.join("timeline.svg");
    fs::write(&picture, timeline::draw(&evidence, &verdict))?;
    let text = summary::summary(&evidence, &verdict);
    fs::write(out.join("summary.txt"), &text)?;
    say(&text);
    Ok((evidence, verdict))
}

fn rehearse(
    plan: &Plan,
    cluster: &mut NatsCluster,
    enough: &impl Fn() -> bool,
) -> Result<Notes, Problem> {
    let started = Moment::now();
    let mut fleet = Fleet::prepare(plan, cluster)?;
    for index in 0..plan.instances {
        fleet.start(index)?;
    }
    let limit = started + FIRST_ELECTION;
    if !until(&mut fleet, limit, |board| board.all_led_after(started))? {
        return Err("the roles found no leaders: see the instances' logs".into());
    }
    let are_spread = |board: &Board| {
        let shards = plan.shards.as_ref();
        shards.is_none_or(|shards| shards.are_spread(&board.shards.owned()))
    };
    if !until(&mut fleet, limit, are_spread)? {
        return Err("the shards found no owners: see the instances' logs".into());
    }
    let begun = Moment::now();
    say(&format!(
        "every role has a leader after {}; faults for {} from now on",
        seconds(begun.since(started)),
        seconds(plan.length)
    ));
    let probe = Probe::start(cluster)?;
    let onlooker = match &plan.serve {
        Some(program) => Some(Onlooker::start(program, plan, cluster)?),
        None => None,
    };
    let nemesis = Nemesis::new(plan, cluster, &mut fleet, begun)?;
    let faults = nemesis.run(schedule(plan), enough)?;
    if plan.sabotage == Some(Sabotage::Stuck) {
        for index in 0..plan.instances {
            fleet.node(index).pause()?;
        }
    }
    let healed = Moment::now();
    let after = seconds(healed.since(begun));
    say(&format!("{after:>8}  all faults are over and undone"));
    let patience = plan.roles.iter().map(Role::patience).max();
    let limit = healed + patience.unwrap_or_default();
    let led = until(&mut fleet, limit, |board| board.all_led_after(healed))?;
    let leaders = fleet.board.describe(&fleet.names);
    let after = seconds(Moment::now().since(healed));
    say(&if led {
        format!("every role is led {after} later: {leaders}")
    } else {
        format!("some role has no leader {after} later: {leaders}")
    });
    if let Some(shards) = &plan.shards {
        let patience = shards.patience(&faults) + shards.patience_for_balance();
        let spread = until(&mut fleet, healed + patience, are_spread)?;
        let owned = fleet.board.shards.owned();
        let after = seconds(Moment::now().since(healed));
        say(&if spread {
            format!("all shards are spread over the instances {after} later: {owned:?}")
        } else {
            format!("the shards are not spread over the instances {after} later: {owned:?}")
        });
    }
    let calm = Moment::now();
    while Moment::now().since(calm) < CALM {
        fleet.look()?;
        thread::sleep(Duration::from_millis(20));
    }
    let ended = Moment::now();
    let outages = probe.outages();
    let bad_end = onlooker.and_then(Onlooker::stop);
    fleet.bad_ends.extend(bad_end);
    for index in 0..plan.instances {
        if fleet.runs(index) {
            fleet.terminate(index)?;
            fleet.node(index).signal(Signal::CONT)?;
        }
    }
    fleet.wait_for_ends(ended)?;
    let runtime = runtime()?;
    let url = cluster.node(0).url();
    let of_roles = plan.roles.iter().map(|role| format!("_data.{}", role.name));
    let of_shards = stores(GROUP, plan.shards.as_ref().map_or(0, |shards| shards.count));
    Ok(Notes {
        seed: plan.seed,
        instances: fleet.names.clone(),
        roles: plan.roles.clone(),
        shards: plan.shards.clone(),
        last_wills: plan.last_wills,
        role_finals: runtime.block_on(finals(&url, BUCKET, of_roles))?,
        shard_finals: runtime.block_on(finals(&url, BUCKET, of_shards))?,
        begun,
        healed,
        ended,
        faults,
        outages,
        bad_ends: std::mem::take(&mut fleet.bad_ends),
    })
}

/// Looks on until that holds. Returns whether it came to that in time.
fn until(
    fleet: &mut Fleet,
    limit: Moment,
    holds: impl Fn(&Board) -> bool,
) -> Result<bool, Problem> {
    loop {
        fleet.look()?;
        if holds(&fleet.board) {
            return Ok(true);
        }
        if Moment::now() > limit {
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(20));
    }
}
