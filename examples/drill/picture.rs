//! A run as a picture: time from left to right, in lanes one below the other, and a row for each unit
//! in the colour of its owner.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Moment;
use crate::ownership::Ownership;
use crate::svg::{Anchor, Place, Svg};

const LEFT: f64 = 110.0;
const RIGHT: f64 = 80.0;
const LANE: f64 = 18.0;
const HEADING: f64 = 26.0;
/// The least width, without the margins, and that of a second.
const LEAST: (f64, f64) = (880.0, 7.0);
/// The height of all rows together, as far as each is neither too high nor too low.
const ROWS: f64 = 512.0;

/// Grows from its top to its bottom.
pub struct Picture {
    svg: Svg,
    from: Moment,
    length: f64,
    /// The width of a second.
    scale: f64,
    /// Where the first lane begins, and where the next one does.
    top: f64,
    y: f64,
}

/// Which part of a lane.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// All of it.
    Whole,
    /// Its upper half.
    Upper,
    /// Its lower half.
    Lower,
}

impl Picture {
    /// A picture of that time. The legend has colours, and what they mean.
    pub fn new(
        title: &str,
        legend: &[(Vec<&str>, String)],
        (from, until): (Moment, Moment),
    ) -> Self {
        let length = until.since(from).as_secs_f64().max(1.0);
        let mut picture = Self {
            svg: Svg::default(),
            from,
            length,
            scale: (LEAST.0 / length).max(LEAST.1),
            top: 0.0,
            y: 0.0,
        };
        picture.svg.text((LEFT, 22.0), 15, Anchor::Start, title);
        let (mut x, mut y) = (LEFT, 34.0);
        for (colours, what) in legend {
            let swatches = 11.0 * number(colours.len());
            // About the width of its letters.
            let width = swatches + 16.0 + 6.0 * number(what.len());
            if x + width > picture.right() + RIGHT && x > LEFT {
                (x, y) = (LEFT, y + 16.0);
            }
            for (nth, colour) in colours.iter().enumerate() {
                let place = Place {
                    x: x + 11.0 * number(nth),
                    y,
                    width: 10.0,
                    height: 10.0,
                };
                picture.svg.area(place, colour, "");
            }
            let text = (x + swatches + 4.0, y + 9.0);
            picture.svg.text(text, 11, Anchor::Start, what);
            x += width;
        }
        (picture.top, picture.y) = (y + 32.0, y + 32.0);
        picture
    }

    /// Where the time ends.
    fn right(&self) -> f64 {
        LEFT + self.length * self.scale
    }

    /// Where a moment is. What is outside is at the edge.
    fn x(&self, moment: Moment) -> f64 {
        let seconds = moment.since(self.from).as_secs_f64();
        LEFT + seconds.min(self.length) * self.scale
    }

    /// Words over the next lanes.
    pub fn heading(&mut self, text: &str) {
        self.y += HEADING;
        self.svg.text((8.0, self.y - 7.0), 12, Anchor::Start, text);
    }

    /// Draws a lane of that name.
    pub fn lane(&mut self, name: &str, draw: impl FnOnce(&mut Self)) {
        let place = Place {
            x: LEFT,
            y: self.y + 1.0,
            width: self.right() - LEFT,
            height: LANE - 2.0,
        };
        self.svg.area(place, "#00000009", "");
        let y = self.y + 12.0;
        self.svg.text((LEFT - 6.0, y), 11, Anchor::End, name);
        self.svg
            .text((self.right() + 6.0, y), 11, Anchor::Start, name);
        draw(self);
        self.y += LANE;
    }

    /// Marks a time in the lane, wide enough to be seen, with a label behind it. `told` is shown to a
    /// pointer that rests on it.
    pub fn mark(
        &mut self,
        (from, until): (Moment, Moment),
        part: Part,
        colour: &str,
        (label, told): (&str, &str),
    ) {
        let (above, height) = match part {
            Part::Whole => (2.0, LANE - 4.0),
            Part::Upper => (1.5, LANE / 2.0 - 1.5),
            Part::Lower => (LANE / 2.0, LANE / 2.0 - 1.5),
        };
        let x = self.x(from);
        let place = Place {
            x,
            y: self.y + above,
            width: (self.x(until) - x).max(1.5),
            height,
        };
        self.svg.area(place, colour, told);
        let behind = (x + place.width + 1.5, place.y + height / 2.0 + 3.0);
        if !label.is_empty() {
            self.svg.text(behind, 8, Anchor::Start, label);
        }
    }

    /// Draws into the lane how many units an instance owned. It has room for twice a fair share.
    pub fn owned(&mut self, ownership: &Ownership, instance: usize) {
        let mut changes = BTreeMap::<Moment, i32>::new();
        let terms = ownership.terms.all();
        for term in terms.filter(|term| term.instance == instance) {
            *changes.entry(term.began).or_default() += 1;
            *changes.entry(ownership.end_of(term)).or_default() -= 1;
        }
        let (floor, height) = (self.y + LANE - 2.0, LANE - 4.0);
        let share = number(ownership.units.len()) / number(ownership.names.len());
        let (mut owned, mut y) = (0, floor);
        let mut outline = vec![(LEFT, floor)];
        for (moment, change) in changes {
            let x = self.x(moment);
            owned += change;
            outline.push((x, y));
            y = floor - (height / share / 2.0 * f64::from(owned)).min(height);
            outline.push((x, y));
        }
        outline.extend([(self.right(), y), (self.right(), floor)]);
        self.svg.shape(&outline, colour(instance));
    }

    /// A row per unit in the colour of its owner, ordered by the first owners.
    pub fn rows(&mut self, ownership: &Ownership, what: &str) {
        let (from, until) = (self.from, self.from + Duration::from_secs_f64(self.length));
        let is_here = |term: &&crate::Term| ownership.end_of(term) > from && term.began < until;
        let mut rows: Vec<Vec<_>> = ownership
            .by_unit()
            .map(|(_, _, terms)| terms.into_iter().filter(is_here).collect())
            .collect();
        rows.sort_by_key(|terms: &Vec<&crate::Term>| terms.first().map(|term| term.instance));
        let row = (ROWS / number(rows.len())).clamp(1.5, 4.0);
        let mut strokes = vec![Vec::new(); ownership.names.len()];
        self.y += 4.0;
        let label = (LEFT - 6.0, self.y + 12.0);
        self.svg.text(label, 11, Anchor::End, what);
        for terms in rows {
            let y = self.y + row / 2.0;
            for term in terms {
                let stroke = (self.x(term.began), self.x(ownership.end_of(term)), y);
                strokes[term.instance].push(stroke);
            }
            self.y += row;
        }
        for (instance, strokes) in strokes.iter().enumerate() {
            self.svg.strokes(strokes, row - 0.3, colour(instance));
        }
    }

    /// The picture as SVG, with a line at each of some round times.
    pub fn finish(self) -> String {
        let mut grid = Svg::default();
        let steps = [1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 600.0];
        let step = steps.into_iter().find(|step| step * self.scale >= 50.0);
        let step = step.unwrap_or(self.length);
        let mut second = 0.0;
        while second <= self.length {
            let x = LEFT + second * self.scale;
            grid.line((x, self.top), (x, self.y), "#e4e4e4");
            let label = format!("{second:.0} s");
            for y in [self.top - 4.0, self.y + 13.0] {
                grid.text((x, y), 10, Anchor::Middle, &label);
            }
            second += step;
        }
        grid.finish(&self.svg, (self.right() + RIGHT, self.y + 24.0))
    }
}

/// One for each instance. They can be told apart without seeing red and green.
pub fn colour(instance: usize) -> &'static str {
    const COLOURS: [&str; 12] = [
        "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#999999", "#ee8866",
        "#332288", "#44aa99", "#ffaabb", "#999933",
    ];
    COLOURS[instance % COLOURS.len()]
}

#[expect(clippy::cast_precision_loss, reason = "some thousands at most")]
const fn number(count: usize) -> f64 {
    count as f64
}
