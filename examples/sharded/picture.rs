//! The run as a picture: time from left to right. Above a lane per instance, below a row per shard
//! in the colour of its owner.

use std::time::Duration;

use crate::chart::{Chart, colour};
use crate::fault::Fault;
use crate::svg::{Anchor, Place, Svg};
use crate::verdict::Evidence;

const LEFT: f64 = 60.0;
const WIDTH: f64 = 880.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 60.0;
const LANE: f64 = 22.0;
/// Between the lanes and the rows.
const GAP: f64 = 20.0;
/// The height of all rows of shards together.
const SHARDS: f64 = 512.0;

/// Draws it as SVG.
pub fn draw(evidence: &Evidence) -> String {
    let names = &evidence.ownership.names;
    let lanes = TOP + LANE * f64::from(u32::try_from(names.len()).unwrap_or(u32::MAX));
    let shards = f64::from(evidence.ownership.shards);
    let row = (SHARDS / shards).clamp(1.5, 20.0);
    let bottom = lanes + GAP + row * shards;
    let left = (evidence.opening, LEFT);
    let right = (evidence.closing, LEFT + WIDTH);
    let mut page = Page {
        svg: Svg::new(LEFT + WIDTH + RIGHT, bottom + 40.0),
        chart: Chart::new(&evidence.ownership, left, right),
    };
    page.head(evidence);
    page.lanes(evidence);
    page.grid(evidence, bottom);
    page.chart.rows(&mut page.svg, lanes + GAP, row);
    let label = (LEFT - 6.0, lanes + GAP + 10.0);
    page.svg.text(label, 10, Anchor::End, "shards");
    for fault in faults_of(evidence) {
        let x = page.chart.x(fault.from);
        page.svg.line((x, lanes), (x, bottom), "#00000055");
    }
    page.svg.finish()
}

/// What was done to the instances before the final stop.
fn faults_of(evidence: &Evidence) -> impl Iterator<Item = &Fault> {
    let faults = evidence.faults.iter();
    faults.filter(|fault| fault.from < evidence.closing)
}

struct Page<'a> {
    svg: Svg,
    chart: Chart<'a>,
}

impl Page<'_> {
    fn head(&mut self, evidence: &Evidence) {
        let title = format!(
            "{} shards on {} instances, lease {} s: who owned each shard",
            evidence.ownership.shards,
            evidence.ownership.names.len(),
            evidence.ttl.as_secs_f64()
        );
        self.svg.text((LEFT, 20.0), 15, Anchor::Start, &title);
        let legend = [
            "Above: how many shards each instance owned, in its colour; black: what was done to it.",
            "Below: a row per shard in the colour of its owner, in the order of the first owners; \
             white: no owner.",
        ];
        for (y, text) in [36.0, 51.0].into_iter().zip(legend) {
            self.svg.text((LEFT, y), 11, Anchor::Start, text);
        }
    }

    /// A lane per instance, with its colour, the number of its shards, and its faults.
    fn lanes(&mut self, evidence: &Evidence) {
        let mut y = TOP;
        // A lane has room for twice the fair share.
        let shares = evidence.ownership.names.len();
        let shares = f64::from(u32::try_from(shares).unwrap_or(u32::MAX)) / 2.0;
        for (instance, name) in evidence.ownership.names.iter().enumerate() {
            let swatch = Place {
                x: LEFT - 18.0,
                y: y + 5.0,
                width: 12.0,
                height: 12.0,
            };
            self.svg.area(swatch, colour(instance), "");
            let label = (LEFT - 22.0, y + 15.0);
            self.svg.text(label, 11, Anchor::End, name);
            let room = (y + LANE - 1.0, LANE - 3.0);
            self.chart.lane(&mut self.svg, instance, room, shares);
            let right = self.svg.width() - RIGHT;
            self.svg.line((LEFT, room.0), (right, room.0), "#cccccc");
            for fault in faults_of(evidence) {
                if fault.instance == instance {
                    self.fault(fault, evidence, y);
                }
            }
            y += LANE;
        }
    }

    fn fault(&mut self, fault: &Fault, evidence: &Evidence, y: f64) {
        let x = self.chart.x(fault.from);
        let until = fault.until.unwrap_or(evidence.closing);
        let place = Place {
            x,
            y: y + 13.0,
            width: (self.chart.x(until) - x).max(2.0),
            height: 5.0,
        };
        self.svg.area(place, "#222222", fault.kind.name());
        let label = (x + place.width + 3.0, y + 19.0);
        self.svg.text(label, 10, Anchor::Start, fault.kind.name());
    }

    /// A line at each of some round times.
    fn grid(&mut self, evidence: &Evidence, bottom: f64) {
        let length = evidence.closing.since(evidence.opening);
        let steps = [1, 2, 5, 10, 20, 60, 120, 600].map(Duration::from_secs);
        let step = steps.into_iter().find(|step| length <= *step * 16);
        let step = step.unwrap_or(length);
        let mut time = Duration::ZERO;
        while time <= length {
            let x = self.chart.x(evidence.opening + time);
            self.svg.line((x, TOP), (x, bottom), "#e4e4e4");
            let label = format!("{} s", time.as_secs());
            self.svg
                .text((x, bottom + 14.0), 10, Anchor::Middle, &label);
            time += step;
        }
        let middle = (LEFT + WIDTH / 2.0, bottom + 30.0);
        let what = "time since the first scene began";
        self.svg.text(middle, 11, Anchor::Middle, what);
    }
}
