//! Who owned which shard over time, as part of a picture.

use std::collections::BTreeMap;

use super::clock::Moment;
use super::ownership::Ownership;
use super::svg::Svg;

/// Draws into a picture in which time goes from left to right.
pub struct Chart<'a> {
    ownership: &'a Ownership,
    /// The first and the last moment, and where each is.
    from: (Moment, f64),
    until: (Moment, f64),
}

impl<'a> Chart<'a> {
    /// From a moment, which is at that x, to a later one.
    pub fn new(ownership: &'a Ownership, from: (Moment, f64), until: (Moment, f64)) -> Self {
        Self {
            ownership,
            from,
            until,
        }
    }

    /// Where a moment is. What is outside is at the edge.
    pub fn x(&self, moment: Moment) -> f64 {
        let (from, left) = self.from;
        let (until, right) = self.until;
        let all = until.since(from).as_secs_f64().max(0.001);
        let part = moment.since(from).as_secs_f64() / all;
        left + (right - left) * part.min(1.0)
    }

    /// How many shards an instance owned, as an area over `floor`. All of them would fill `height`
    /// as many times as `shares` says.
    pub fn lane(&self, svg: &mut Svg, instance: usize, (floor, height): (f64, f64), shares: f64) {
        let mut changes = BTreeMap::<Moment, i32>::new();
        let terms = self.ownership.terms.all();
        for term in terms.filter(|term| term.instance == instance) {
            *changes.entry(term.began).or_default() += 1;
            *changes.entry(self.ownership.end_of(term)).or_default() -= 1;
        }
        let unit = height * shares / f64::from(self.ownership.shards);
        let (mut owned, mut y) = (0, floor);
        let mut outline = vec![(self.from.1, floor)];
        for (moment, change) in changes {
            let x = self.x(moment);
            owned += change;
            outline.push((x, y));
            y = floor - (unit * f64::from(owned)).min(height);
            outline.push((x, y));
        }
        outline.extend([(self.until.1, y), (self.until.1, floor)]);
        svg.shape(&outline, colour(instance));
    }

    /// A row per shard in the colour of its owner, ordered by the first owners.
    pub fn rows(&self, svg: &mut Svg, top: f64, row: f64) {
        let (from, until) = (self.from.0, self.until.0);
        let terms = |shard| {
            let terms = self.ownership.terms.of(shard).into_iter();
            terms.filter(move |term| self.ownership.end_of(term) > from && term.began < until)
        };
        let mut order: Vec<u32> = (0..self.ownership.shards).collect();
        order.sort_by_key(|shard| (terms(*shard).next().map(|term| term.instance), *shard));
        let mut strokes = vec![Vec::new(); self.ownership.names.len()];
        let mut y = top + row / 2.0;
        for shard in order {
            for term in terms(shard) {
                let stroke = (self.x(term.began), self.x(self.ownership.end_of(term)), y);
                strokes[term.instance].push(stroke);
            }
            y += row;
        }
        for (instance, strokes) in strokes.iter().enumerate() {
            svg.strokes(strokes, row - 0.3, colour(instance));
        }
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
