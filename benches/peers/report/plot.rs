//! Bars as SVG, for light and dark backgrounds.

use std::fmt::Write as _;

const LEFT: f64 = 190.0;
const WIDTH: f64 = 720.0;
const RIGHT: f64 = 110.0;
const ROW: f64 = 18.0;
const HEAD: f64 = 44.0;
const GROUP: f64 = 24.0;

/// Horizontal bars in groups, on a logarithmic scale of milliseconds.
#[derive(Clone, Debug)]
pub struct Plot {
    title: String,
    groups: Vec<(String, Vec<Bar>)>,
}

/// One bar: its median, and a thin line up to its 99th percentile.
#[derive(Clone, Debug)]
pub struct Bar {
    pub name: String,
    pub median: f64,
    pub p99: f64,
    /// This library, not what it is compared with.
    pub is_ours: bool,
}

impl Plot {
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            groups: Vec::new(),
        }
    }

    /// Bars below a heading.
    pub fn group(&mut self, heading: &str, bars: Vec<Bar>) {
        self.groups.push((heading.to_owned(), bars));
    }

    /// The picture.
    pub fn svg(&self) -> String {
        let rows: usize = self.groups.iter().map(|(_, bars)| bars.len()).sum();
        let height = HEAD + ROW * count(rows) + GROUP * count(self.groups.len()) + 24.0;
        let (least, most) = self.decades();
        let x = |ms: f64| {
            let share = (ms.log10() - f64::from(least)) / f64::from(most - least);
            LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <style>{STYLE}</style>\n\
             <text x=\"8\" y=\"20\" font-size=\"15\">{}</text>\n",
            escape(&self.title)
        );
        for decade in least..=most {
            let (at, bottom) = (x(10_f64.powi(decade)), height - 20.0);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{at:.1} {HEAD}V{bottom:.1}\"/>\
                 <text class=\"axis\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
                height - 6.0,
                label(10_f64.powi(decade))
            );
        }
        let mut y = HEAD;
        for (heading, bars) in &self.groups {
            let _ = writeln!(
                svg,
                "<text x=\"8\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
                y + 16.0,
                escape(heading)
            );
            y += GROUP;
            for bar in bars {
                bar.draw(&mut svg, y, &x);
                y += ROW;
            }
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// The powers of ten around all values.
    #[expect(clippy::cast_possible_truncation, reason = "exponents of durations")]
    fn decades(&self) -> (i32, i32) {
        let bars = || self.groups.iter().flat_map(|(_, bars)| bars);
        let least = bars().map(|bar| bar.median).fold(f64::MAX, f64::min);
        let most = bars().map(|bar| bar.p99).fold(0.01, f64::max);
        let least = least.clamp(0.01, most).log10().floor() as i32;
        (least, (most.log10().ceil() as i32).max(least + 1))
    }
}

impl Bar {
    fn draw(&self, svg: &mut String, y: f64, x: &impl Fn(f64) -> f64) {
        let class = if self.is_ours { "ours" } else { "other" };
        let (begin, end, whisker) = (LEFT, x(self.median), x(self.p99));
        let middle = y + ROW / 2.0;
        let _ = writeln!(
            svg,
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <rect class=\"{class}\" x=\"{begin:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>\
             <path class=\"whisker\" d=\"M{end:.1} {middle:.1}H{whisker:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 6.0,
            y + 13.0,
            escape(&self.name),
            y + 3.0,
            (end - begin).max(1.0),
            ROW - 6.0,
            whisker.max(end) + 6.0,
            y + 13.0,
            label(self.median)
        );
    }
}

const STYLE: &str = "text{fill:#24292f}.name{text-anchor:end}.axis{text-anchor:middle;font-size:10px}\
.grid{stroke:#8c959f55}.whisker{stroke:#57606a;stroke-width:1.5}.ours{fill:#1f7a4d}.other{fill:#8c959f}\
@media(prefers-color-scheme:dark){text{fill:#d0d7de}.whisker{stroke:#d0d7de}.ours{fill:#3fb27f}\
.other{fill:#6e7781}}";

/// Milliseconds as people say them.
pub fn label(ms: f64) -> String {
    match ms {
        ms if ms >= 1000.0 => format!("{} s", digits(ms / 1000.0)),
        ms => format!("{} ms", digits(ms)),
    }
}

/// Three digits at most that say something.
fn digits(value: f64) -> String {
    let places = match value {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.places$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[expect(clippy::cast_precision_loss, reason = "some dozens")]
const fn count(number: usize) -> f64 {
    number as f64
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
