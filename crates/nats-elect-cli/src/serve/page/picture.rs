//! The picture of who led a role, in parts of its width: it is drawn at any width.

use std::collections::{BTreeMap, BTreeSet};

use crate::serve::timeline::{Mark, Span};
use crate::text::{clean, clock, stamp_of};

/// So many colours tell leaders apart. In the style sheet they have numbers.
const COLOURS: usize = 6;
/// Milliseconds between two marks of the axis.
const TICK_MS: u64 = 60 * 60 * 1000;
/// Labels this near to an end would be cut off, in per cent.
const MARGIN: f64 = 3.0;
/// A bar is no narrower, in per cent.
const NARROWEST: f64 = 0.1;
/// The width of a letter, and of the picture where it is narrow and where it is not. Labels that
/// do not fit are left out.
const LETTER: f64 = 7.5;
const NARROW: f64 = 340.0;
const USUAL: f64 = 760.0;

pub struct Picture {
    pub bars: Vec<Bar>,
    pub gaps: Vec<Gap>,
    /// Times of which nothing is known: where they begin, and where they end.
    pub unknown: Vec<(f64, f64)>,
}

/// A time in which one instance led. Positions and widths are in per cent.
pub struct Bar {
    pub x: f64,
    pub width: f64,
    pub colour: usize,
    pub title: String,
    pub label: Option<String>,
    /// Whether there is room for the label in a wide picture only.
    pub is_tight: bool,
}

/// A time without a sign of a leader.
pub struct Gap {
    pub x: f64,
    pub width: f64,
    pub title: String,
}

/// A full hour.
pub struct Tick {
    pub at: f64,
    pub text: String,
}

/// Each leader has one colour in all pictures of a bucket.
pub type Colours = BTreeMap<String, usize>;

pub fn colours<'a>(spans: impl Iterator<Item = &'a Span>) -> Colours {
    let leaders: BTreeSet<_> = spans.map(|it| it.leader.clone()).collect();
    let numbers = (0..COLOURS).cycle();
    leaders.into_iter().zip(numbers).collect()
}

impl Picture {
    pub fn new(
        spans: &[Span],
        marks: &[Mark],
        (from_ms, now_ms): (u64, u64),
        colours: &Colours,
        is_known: bool,
    ) -> Self {
        let first = marks.first().map_or(now_ms, |mark| mark.at_ms);
        // Nobody led between two leaders, before the first one if that was told, and after the last.
        let ends = spans.iter().map(|span| span.to_ms);
        let begins = spans.iter().map(|span| span.from_ms);
        let free = [first.clamp(from_ms, now_ms)].into_iter().chain(ends);
        let gaps = free.zip(begins.chain([now_ms]));
        let gaps = gaps.filter(|(from, to)| from < to);
        // There may be a leader now that is not seen.
        let (gaps, tail): (Vec<_>, Vec<_>) = gaps.partition(|(_, to)| is_known || *to < now_ms);
        let place = |at_ms| place(at_ms, from_ms, now_ms);
        let bars = spans.iter().map(|span| {
            let x = place(span.from_ms);
            bar(span, x, (place(span.to_ms) - x).max(NARROWEST), colours)
        });
        let gap = |(from, to): (u64, u64)| Gap {
            x: place(from),
            width: place(to) - place(from),
            title: format!(
                "no sign of a leader from {} to {}",
                stamp_of(from),
                stamp_of(to)
            ),
        };
        let head = (first > from_ms).then_some((from_ms, first));
        let unknown = head.into_iter().chain(tail);
        Self {
            bars: bars.collect(),
            gaps: gaps.into_iter().map(gap).collect(),
            unknown: unknown.map(|(from, to)| (place(from), place(to))).collect(),
        }
    }
}

fn bar(span: &Span, x: f64, width: f64, colours: &Colours) -> Bar {
    let leader = clean(&span.leader);
    let letters = f64::from(u32::try_from(leader.chars().count()).unwrap_or(u32::MAX));
    let needed = (letters * LETTER + 12.0) * 100.0;
    let from = stamp_of(span.from_ms);
    let to = stamp_of(span.to_ms);
    Bar {
        x,
        width,
        colour: colours.get(&span.leader).copied().unwrap_or(0),
        title: format!("{leader} led from {from} to {to}"),
        is_tight: needed > width * NARROW,
        label: (needed <= width * USUAL).then_some(leader),
    }
}

/// The full hours between two moments.
pub fn ticks(from_ms: u64, now_ms: u64) -> Vec<Tick> {
    let first = from_ms.div_ceil(TICK_MS);
    let hours = first..=now_ms / TICK_MS;
    let ticks = hours.map(|hour| Tick {
        at: place(hour * TICK_MS, from_ms, now_ms),
        text: clock(&stamp_of(hour * TICK_MS))[11..16].to_owned(),
    });
    let fits = |tick: &Tick| (MARGIN..=100.0 - MARGIN).contains(&tick.at);
    ticks.filter(fits).collect()
}

/// In per cent, to two places.
fn place(at_ms: u64, from_ms: u64, now_ms: u64) -> f64 {
    let length = now_ms.saturating_sub(from_ms).max(1);
    let parts = (at_ms.clamp(from_ms, now_ms.max(from_ms)) - from_ms) * 10_000 / length;
    f64::from(u32::try_from(parts).unwrap_or(0)) / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::timeline::spans;

    const HOUR: u64 = 60 * 60 * 1000;

    fn mark(at_ms: u64, leader: &str) -> Mark {
        let leader = (!leader.is_empty()).then(|| leader.to_owned());
        Mark { at_ms, leader }
    }

    fn picture(marks: &[Mark]) -> Picture {
        picture_if(marks, true)
    }

    fn picture_if(marks: &[Mark], is_known: bool) -> Picture {
        let time = (6 * HOUR, 12 * HOUR);
        let spans = spans(marks, time.0, time.1);
        Picture::new(&spans, marks, time, &colours(spans.iter()), is_known)
    }

    fn gaps(picture: &Picture) -> Vec<(f64, f64)> {
        picture.gaps.iter().map(|it| (it.x, it.width)).collect()
    }

    #[test]
    fn bars_gaps_and_what_is_not_known_fill_the_picture() {
        let marks = [
            mark(9 * HOUR, "a"),
            mark(10 * HOUR + HOUR / 2, ""),
            mark(11 * HOUR + HOUR / 4, "b"),
        ];
        let picture = picture(&marks);
        assert_eq!(picture.unknown, [(0.0, 50.0)]);
        assert_eq!(gaps(&picture), [(75.0, 12.5)]);
        let bars: Vec<_> = picture.bars.iter().map(|it| (it.x, it.colour)).collect();
        assert_eq!(bars, [(50.0, 0), (87.5, 1)]);
    }

    #[test]
    fn a_role_without_leader_has_a_gap_up_to_now_and_one_that_is_led_has_none() {
        let freed = [mark(3 * HOUR, "a"), mark(9 * HOUR, "")];
        assert_eq!(gaps(&picture(&freed)), [(50.0, 50.0)]);
        let led = picture(&[mark(3 * HOUR, "a")]);
        assert_eq!((gaps(&led), led.bars[0].width), (vec![], 100.0));
        let perhaps = picture_if(&freed, false);
        assert_eq!(gaps(&perhaps), []);
        assert_eq!(perhaps.unknown, [(50.0, 100.0)]);
        let never = picture(&[]);
        assert_eq!((gaps(&never), never.unknown), (vec![], vec![(0.0, 100.0)]));
        let not_seen = picture(&[mark(6 * HOUR, "")]);
        assert_eq!(gaps(&not_seen), [(0.0, 100.0)]);
    }

    #[test]
    fn the_axis_has_the_full_hours_that_are_not_at_its_ends() {
        let ticks = ticks(6 * HOUR + HOUR / 2, 12 * HOUR + HOUR / 2);
        let texts: Vec<_> = ticks.iter().map(|it| &*it.text).collect();
        assert_eq!(
            texts,
            ["07:00", "08:00", "09:00", "10:00", "11:00", "12:00"]
        );
        assert!((ticks[0].at - 8.33).abs() < 0.01, "{}", ticks[0].at);
    }
}
