//! The run as a picture: time from left to right, above what was done to the instances, below a row
//! per shard in the colour of its owner.

use crate::clock::Moment;
use crate::svg::{Anchor, Place, Svg};
use crate::verdict::Evidence;

const LEFT: f64 = 60.0;
const WIDTH: f64 = 1240.0;
const RIGHT: f64 = 20.0;
const LANE: f64 = 16.0;
const TOP: f64 = 52.0;
/// The height of all rows of shards together.
const SHARDS: f64 = 768.0;

/// One for each instance. They can be told apart without seeing red and green.
const COLOURS: [&str; 8] = [
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777", "#ee8866",
];

/// Draws it as SVG.
pub fn draw(evidence: &Evidence) -> String {
    let lanes = f64::from(u32::try_from(evidence.names.len()).unwrap_or(u32::MAX)) * LANE;
    let row = (SHARDS / f64::from(evidence.shards)).clamp(2.0, 20.0);
    let shards = TOP + lanes + 24.0;
    let bottom = shards + row * f64::from(evidence.shards);
    let length = evidence.ended.since(evidence.began).as_secs_f64().max(1.0);
    let mut page = Page {
        svg: Svg::new(LEFT + WIDTH + RIGHT, bottom + 30.0),
        began: evidence.began,
        scale: WIDTH / length,
    };
    page.head(evidence);
    page.faults(evidence);
    page.grid(length, bottom);
    for term in evidence.terms.all() {
        let y = shards + row * f64::from(term.shard);
        let place = page.span(term.began, term.last(), y, (row - 0.4).max(1.6));
        let told = format!(
            "shard {}: {}, token {}",
            term.shard, evidence.names[term.instance], term.token
        );
        page.svg.area(place, colour(term.instance), &told);
    }
    for fault in &evidence.faults {
        let x = page.x(fault.from);
        page.svg.line((x, shards - 4.0), (x, bottom), "#00000055");
    }
    page.svg
        .text((LEFT - 6.0, shards + 9.0), 10, Anchor::End, "shard 0");
    let last = (evidence.shards - 1).to_string();
    page.svg.text((LEFT - 6.0, bottom), 10, Anchor::End, &last);
    page.svg.finish()
}

struct Page {
    svg: Svg,
    began: Moment,
    scale: f64,
}

impl Page {
    fn x(&self, moment: Moment) -> f64 {
        LEFT + moment.since(self.began).as_secs_f64() * self.scale
    }

    fn span(&self, from: Moment, until: Moment, y: f64, height: f64) -> Place {
        let x = self.x(from);
        Place {
            x,
            y,
            width: (self.x(until) - x).max(0.5),
            height,
        }
    }

    fn head(&mut self, evidence: &Evidence) {
        let title = format!(
            "{} shards on {} instances, lease {} s: who owned each shard",
            evidence.shards,
            evidence.names.len(),
            evidence.ttl.as_secs_f64()
        );
        self.svg.text((LEFT, 20.0), 15, Anchor::Start, &title);
        let legend =
            "A lane per instance shows what was done to it. White is a shard without owner.";
        self.svg.text((LEFT, 38.0), 11, Anchor::Start, legend);
    }

    /// A lane per instance, with its colour and its faults.
    fn faults(&mut self, evidence: &Evidence) {
        let mut y = TOP;
        for (instance, name) in evidence.names.iter().enumerate() {
            let swatch = Place {
                x: LEFT - 16.0,
                y: y + 2.0,
                width: 12.0,
                height: LANE - 4.0,
            };
            self.svg.area(swatch, colour(instance), "");
            let label = (LEFT - 20.0, y + 12.0);
            self.svg.text(label, 11, Anchor::End, name);
            let lane = Place {
                x: LEFT,
                y: y + 1.0,
                width: self.svg.width() - LEFT - RIGHT,
                height: LANE - 2.0,
            };
            self.svg.area(lane, "#00000009", "");
            for fault in evidence.faults.iter().filter(|it| it.instance == instance) {
                let until = fault.until.unwrap_or(evidence.ended);
                let mut place = self.span(fault.from, until, y + 3.0, LANE - 6.0);
                place.width = place.width.max(2.0);
                self.svg.area(place, "#222222", fault.kind.name());
                if fault.from < evidence.closing {
                    let label = (place.x + place.width + 3.0, y + 12.0);
                    self.svg.text(label, 10, Anchor::Start, fault.kind.name());
                }
            }
            y += LANE;
        }
    }

    /// A line each five seconds, with its time.
    fn grid(&mut self, length: f64, bottom: f64) {
        let mut second = 0.0;
        while second <= length {
            let x = LEFT + second * self.scale;
            self.svg.line((x, TOP), (x, bottom), "#e4e4e4");
            let label = format!("{second:.0} s");
            self.svg
                .text((x, bottom + 14.0), 10, Anchor::Middle, &label);
            second += if length > 120.0 { 20.0 } else { 5.0 };
        }
    }
}

fn colour(instance: usize) -> &'static str {
    COLOURS[instance % COLOURS.len()]
}
