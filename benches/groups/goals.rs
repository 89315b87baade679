//! What was to be reached, and whether it was: the worst over all numbers of shards.

use std::time::Duration;

use crate::Args;
use crate::readings::float;
use crate::report::table::Table;
use crate::scenes::{Figures, Moves};

type Seen<'a> = Box<dyn Fn(&Figures) -> Option<f64> + 'a>;

/// A goal: its words, the most that it allows, and what was seen.
struct Goal<'a> {
    words: String,
    most: f64,
    seen: Seen<'a>,
}

pub fn table(measured: &[Figures], args: &Args) -> Table {
    let mut table = Table::new(["goal", "replicas", "seen", "reached"]);
    let mut replicas: Vec<usize> = measured.iter().map(|it| it.replicas).collect();
    replicas.dedup();
    for goal in goals(args) {
        for &count in &replicas {
            let of = measured.iter().filter(|it| it.replicas == count);
            let worst = of.filter_map(|it| (goal.seen)(it)).reduce(f64::max);
            let (seen, reached) = worst.map_or(("not measured".into(), "–"), |worst| {
                let reached = if worst <= goal.most { "yes" } else { "**no**" };
                (format!("{worst:.2}"), reached)
            });
            table.row([
                goal.words.clone(),
                count.to_string(),
                seen,
                reached.to_owned(),
            ]);
        }
    }
    table
}

fn goals<'a>(args: &'a Args) -> Vec<Goal<'a>> {
    let goal = |words: &str, most: f64, seen: Seen<'a>| Goal {
        words: words.to_owned(),
        most,
        seen,
    };
    let (members, ttl) = (float(args.members), args.ttl);
    let longest = Duration::from_secs(ttl).as_secs_f64();
    vec![
        goal(
            "idle: messages a second for each instance, at most 1.1",
            1.1,
            Box::new(move |it| Some(it.idle.messages / members)),
        ),
        goal(
            "idle: CPU of an instance, at most 1 % of a core",
            1.0,
            Box::new(|it| Some(it.idle.mean_cpu * 100.0)),
        ),
        goal(
            "heap for each unit that an instance owns, with its handler's task, at most 2 KiB",
            2.0,
            Box::new(move |it| price_of_own(it, args)),
        ),
        goal(
            "start of a fleet: settled (2 s) and all handlers run within 1 s more, s",
            3.0,
            Box::new(|it| Some(it.start.whole.as_secs_f64())),
        ),
        goal(
            "start of a fleet: from the first handler's start to the last one's, at most 0.5 s",
            0.5,
            Box::new(|it| Some(it.start.spread.as_secs_f64())),
        ),
        goal(
            &format!(
                "a member is killed: all owned again within its lease and 1 s ({} s)",
                ttl + 1
            ),
            longest + 1.0,
            Box::new(|it| again(&it.kill)),
        ),
        goal(
            &format!("the planner is killed: a heartbeat more ({} s)", ttl + 2),
            longest + 2.0,
            Box::new(|it| again(&it.kill_planner)),
        ),
        goal(
            "a member with a last will is killed: all owned again within 0.1 s",
            0.1,
            Box::new(|it| again(&it.kill_with_will)),
        ),
        goal(
            "a planned move, sixteen at a time: without a handler for at most 20 ms, p99",
            20.0,
            Box::new(|it| p99([Some(&it.join.moves), it.drain.as_ref()])),
        ),
        goal(
            "an instance stops, and gives all its units away: without a handler for at most 20 ms, p99",
            20.0,
            Box::new(|it| p99([Some(&it.leave)])),
        ),
        goal(
            "balance after each join and leave: the most beyond the least, at most 1",
            1.0,
            Box::new(apart),
        ),
        goal(
            "moves at a join and a leave, of the least possible, at most 1.05",
            1.05,
            Box::new(|it| {
                let both = [&it.join.moves, &it.leave].into_iter();
                let both = both.filter(|moves| moves.least >= 20);
                let ratios = both.map(|moves| float(moves.count) / float(moves.least));
                ratios.reduce(f64::max)
            }),
        ),
        goal(
            "a drain: how often one unit moves, at most once",
            1.0,
            Box::new(|it| it.drain.as_ref().map(|moves| float(moves.of_one))),
        ),
        goal(
            "delivered for each move, at most 4 KiB",
            4.0,
            Box::new(|it| {
                let both = [&it.join.moves, &it.leave].into_iter();
                let many = both.filter(|moves| moves.count >= 10);
                many.map(|moves| moves.delivered).reduce(f64::max)
            }),
        ),
        goal(
            "sent to one that joins, at most 4 MB",
            4.0,
            Box::new(|it| Some(it.join.snapshot * 1024.0 / 1e6)),
        ),
    ]
}

/// The KiB of a member's heap for each shard that it owns: beyond that of one that owns none.
pub fn price_of_own(it: &Figures, args: &Args) -> Option<f64> {
    let owned = f64::from(it.shards) / float(args.members);
    (it.shards >= 1000).then(|| (it.idle.heap - it.join.heap) / owned)
}

/// The KiB of a member's heap for each shard that it knows and does not own: beyond that of one in the
/// smallest group.
pub fn price_of_known(it: &Figures, measured: &[Figures]) -> Option<f64> {
    let alike = measured
        .iter()
        .filter(|other| other.replicas == it.replicas);
    let least = alike.min_by_key(|other| other.shards)?;
    let more = f64::from(it.shards - least.shards);
    (it.shards >= 1000 && more > 0.0).then(|| (it.join.heap - least.join.heap) / more)
}

/// For how many milliseconds a unit that moved had no handler.
fn p99<const N: usize>(moves: [Option<&Moves>; N]) -> Option<f64> {
    let gaps = moves.into_iter().flatten().map(|moves| moves.gaps.p99());
    gaps.max().map(|gap| gap.as_secs_f64() * 1e3)
}

/// By how many shards members differed after a join and a leave, at most.
fn apart(it: &Figures) -> Option<f64> {
    let after = [&it.join.moves.shares, &it.leave.shares];
    let apart = after.map(|shares| {
        let least = shares.iter().min().copied().unwrap_or(0);
        let most = shares.iter().max().copied().unwrap_or(0);
        float(most - least)
    });
    apart.into_iter().reduce(f64::max)
}

/// After how many seconds all shards of the dead had a handler.
fn again(moves: &Moves) -> Option<f64> {
    (moves.least > 0).then(|| moves.gaps.most().as_secs_f64())
}
