//! docs/benchmarks.md, and its plots.

use std::time::Duration;

use super::{Measured, Servers, crash, graceful, herd, machine, roles};
use crate::debian::Problem;
use crate::report::plot::{Bar, Plot};
use crate::report::table::Table;
use crate::report::template::{fill, write};
use crate::system::System;
use drill::Sample;

const TEMPLATE: &str = include_str!("../page.txt");
const NOT_MEASURED: &str = "Not measured in this run.\n";

/// The page and its plots, as text.
pub struct Page {
    text: String,
    plots: Vec<(&'static str, String)>,
}

impl Page {
    pub fn new(measured: &Measured, servers: &Servers, load: String) -> Result<Self, Problem> {
        // A part that was not measured has no rows.
        let table = |table: Table| {
            if table.is_empty() {
                NOT_MEASURED.to_owned()
            } else {
                table.markdown()
            }
        };
        let values = [
            ("date", machine::today()?),
            ("machine", machine::kind()?),
            ("load", load),
            ("versions", versions(servers)),
            ("missing", missing(servers)),
            ("command", machine::command("peers")),
            ("rounds", rounds(measured)),
            (
                "graceful",
                table(graceful::table(
                    &measured.graceful,
                    measured.by_name.as_ref(),
                )),
            ),
            ("quiet", table(graceful::table(&measured.quiet, None))),
            (
                "crash",
                table(crash::table(&measured.crashes, measured.will.as_ref())),
            ),
            ("herd", table(herd::table(&measured.herds))),
            ("idle", table(herd::idle_table(&measured.herds))),
            ("roles", table(roles::table(&measured.prices))),
        ];
        Ok(Self {
            text: fill(TEMPLATE, &values),
            plots: vec![
                ("graceful", graceful_plot(measured)),
                ("crash", crash_plot(measured)),
                ("herd", herd_plot(measured)),
            ],
        })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Writes them into the docs of this repository.
    pub fn write(&self) -> Result<(), Problem> {
        write("benchmarks.md", &self.text)?;
        for (name, svg) in &self.plots {
            write(&format!("benchmarks-{name}.svg"), svg)?;
        }
        Ok(())
    }
}

fn versions(servers: &Servers) -> String {
    let mut versions: Vec<_> = servers
        .running
        .iter()
        .map(|(_, server)| server.version())
        .collect();
    versions.dedup();
    format!(
        "nats-elect {}, {}",
        env!("CARGO_PKG_VERSION"),
        versions.join(", ")
    )
}

fn missing(servers: &Servers) -> String {
    let first = |text: &String| text.lines().next().unwrap_or_default().to_owned();
    let missing: Vec<_> = servers.missing.iter().map(first).collect();
    if missing.is_empty() {
        "nothing".to_owned()
    } else {
        missing.join("; ")
    }
}

fn rounds(measured: &Measured) -> String {
    let graceful = measured
        .graceful
        .first()
        .map_or(0, |line| line.gap.rounds());
    let herd = measured
        .herds
        .first()
        .map_or(0, |herd| herd.release.took.rounds());
    format!("{graceful} rounds of each graceful handoff, {herd} of each kind among many")
}

fn bar(name: &str, system: System, took: &Sample) -> Bar {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Bar {
        name: name.to_owned(),
        median: ms(took.median()),
        p99: ms(took.p99()),
        is_ours: system.is_ours(),
    }
}

fn graceful_plot(measured: &Measured) -> String {
    let mut plot = Plot::new("From the old handler's end to the new one's start");
    let mut bars: Vec<_> = measured
        .graceful
        .iter()
        .map(|line| bar(line.name, line.system, &line.gap))
        .collect();
    if let Some(line) = &measured.by_name {
        bars.push(bar("nats-elect, by name", line.system, &line.gap));
    }
    plot.group("The leader leaves, three candidates", bars);
    plot.svg()
}

fn crash_plot(measured: &Measured) -> String {
    let mut plot = Plot::new("From SIGKILL to the new handler's start");
    let mut asked: Vec<_> = measured.crashes.iter().map(|crash| crash.asked).collect();
    asked.dedup();
    for ttl in asked {
        let mut bars = Vec::new();
        if let Some(will) = measured.will.as_ref().filter(|_| ttl == super::TTL) {
            let system = System::OursWithWill;
            bars.push(bar(system.name(), system, will));
        }
        let crashes = measured.crashes.iter().filter(|crash| crash.asked == ttl);
        bars.extend(crashes.map(|crash| bar(crash.system.name(), crash.system, &crash.took)));
        plot.group(&format!("ttl {ttl:?}"), bars);
    }
    plot.svg()
}

fn herd_plot(measured: &Measured) -> String {
    let mut plot = Plot::new("The leader leaves, and many candidates follow");
    let mut counts: Vec<_> = measured.herds.iter().map(|herd| herd.candidates).collect();
    counts.dedup();
    for count in counts {
        let herds = measured
            .herds
            .iter()
            .filter(|herd| herd.candidates == count);
        let bars = herds.map(|herd| bar(herd.system.name(), herd.system, &herd.release.took));
        plot.group(&format!("{count} candidates"), bars.collect());
    }
    plot.svg()
}
