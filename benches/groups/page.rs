//! docs/benchmarks-groups.md.

use std::time::Duration;

use crate::Args;
use crate::fleet::Problem;
use crate::machine;
use crate::readings::float;
use crate::report::sample::ms;
use crate::report::table::Table;
use crate::report::template::fill;
use crate::scenes::{Figures, Moves};

const TEMPLATE: &str = include_str!("page.txt");

pub fn text(measured: &[Figures], load: String, args: &Args) -> Result<String, Problem> {
    let version = measured.first().map_or("", |it| it.version.as_str());
    let values = [
        ("command", machine::command("groups")),
        ("date", machine::today()?),
        ("machine", machine::kind()?),
        ("load", load),
        ("version", version.to_owned()),
        ("members", args.members.to_string()),
        ("ttl", args.ttl.to_string()),
        ("start", start(measured).markdown()),
        ("idle", idle(measured, args).markdown()),
        ("join", join(measured).markdown()),
        ("planned", planned(measured).markdown()),
        ("crash", crash(measured).markdown()),
        ("shares", shares(measured).markdown()),
    ];
    Ok(fill(TEMPLATE, &values))
}

fn start(measured: &[Figures]) -> Table {
    let mut table = Table::new([
        "shards, replicas",
        "from the last process's start to the last handler's, s",
        "from the first handler's start to the last one's, s",
    ]);
    for it in measured {
        table.row([of(it), seconds(it.start.whole), seconds(it.start.spread)]);
    }
    table
}

fn idle(measured: &[Figures], args: &Args) -> Table {
    let mut table = Table::new([
        "shards, replicas",
        "messages of all instances, a second",
        "CPU of a member, % of a core",
        "most, %",
        "CPU of the servers, %",
        "memory of a member, MiB",
        "of its heap in use, MiB",
        "heap for each unit of its own, KiB",
        "heap for each unit of others, KiB",
    ]);
    let price = |kib: Option<f64>| kib.map_or("–".into(), |kib| format!("{kib:.2}"));
    for it in measured {
        table.row([
            of(it),
            format!("{:.1}", it.idle.messages),
            percent(it.idle.mean_cpu),
            percent(it.idle.most_cpu),
            percent(it.idle.server_cpu),
            format!("{:.1}", it.idle.memory / 1024.0),
            format!("{:.1}", it.idle.heap / 1024.0),
            price(price_of_own(it, args)),
            price(price_of_known(it, measured)),
        ]);
    }
    table
}

fn join(measured: &[Figures]) -> Table {
    let heads = ["shards, replicas", "sent to the one that joins, KiB"];
    let mut table = Table::new(heads.into_iter().chain(CHANGES));
    for it in measured {
        let cells = [of(it), format!("{:.0}", it.join.snapshot)];
        table.row(cells.into_iter().chain(changes(&it.join.moves)));
    }
    table
}

fn planned(measured: &[Figures]) -> Table {
    let heads = [
        "shards, replicas, and what happens",
        "all elsewhere after, s",
    ];
    let mut table = Table::new(heads.into_iter().chain(CHANGES));
    for it in measured {
        for (what, moves) in [("stops", &it.leave), ("is drained", &it.drain)] {
            let cells = [format!("{}, {what}", of(it)), seconds(moves.whole)];
            table.row(cells.into_iter().chain(changes(moves)));
        }
    }
    table
}

fn crash(measured: &[Figures]) -> Table {
    let mut table = Table::new([
        "shards, replicas, and who is killed",
        "its shards",
        "owned again after: median, s",
        "p99",
        "all",
    ]);
    for it in measured {
        for (who, moves) in [
            ("a member", &it.kill),
            ("the coordinator", &it.kill_coordinator),
            ("a member with a last will", &it.kill_with_will),
        ] {
            if moves.least == 0 {
                continue;
            }
            table.row([
                format!("{}, {who}", of(it)),
                moves.least.to_string(),
                precise(moves.gaps.median()),
                precise(moves.gaps.p99()),
                precise(moves.gaps.most()),
            ]);
        }
    }
    table
}

fn shares(measured: &[Figures]) -> Table {
    let mut table = Table::new([
        "shards, replicas",
        "after the start",
        "after one joined",
        "after one stopped",
        "after one was killed",
        "after the coordinator was killed",
    ]);
    for it in measured {
        let after = [
            &it.start.shares,
            &it.join.moves.shares,
            &it.leave.shares,
            &it.kill.shares,
            &it.kill_coordinator.shares,
        ];
        let shares = after.map(|it| range(it));
        table.row([of(it)].into_iter().chain(shares));
    }
    table
}

/// The KiB of a member's heap for each shard that it owns: beyond that of one that owns none.
fn price_of_own(it: &Figures, args: &Args) -> Option<f64> {
    let owned = f64::from(it.shards) / float(args.members);
    (it.shards >= 1000).then(|| (it.idle.heap - it.join.heap) / owned)
}

/// The KiB of a member's heap for each shard that it knows and does not own: beyond that of one in the
/// smallest group.
fn price_of_known(it: &Figures, measured: &[Figures]) -> Option<f64> {
    let alike = measured.iter().filter(|its| its.replicas == it.replicas);
    let least = alike.min_by_key(|its| its.shards)?;
    let more = f64::from(it.shards - least.shards);
    (it.shards >= 1000 && more > 0.0).then(|| (it.join.heap - least.join.heap) / more)
}

const CHANGES: [&str; 7] = [
    "moves",
    "least possible",
    "most of one shard",
    "without a handler: median, ms",
    "p99",
    "most",
    "delivered for each move, KiB",
];

fn changes(moves: &Moves) -> [String; 7] {
    [
        moves.count.to_string(),
        moves.least.to_string(),
        moves.of_one.to_string(),
        ms(moves.gaps.median()),
        ms(moves.gaps.p99()),
        ms(moves.gaps.most()),
        format!("{:.1}", moves.delivered),
    ]
}

fn of(it: &Figures) -> String {
    format!("{}, {}", it.shards, it.replicas)
}

fn range(shares: &[usize]) -> String {
    let least = shares.iter().min().copied().unwrap_or(0);
    let most = shares.iter().max().copied().unwrap_or(0);
    format!("{least} to {most}")
}

fn seconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64())
}

fn precise(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

fn percent(share: f64) -> String {
    format!("{:.2}", share * 100.0)
}
