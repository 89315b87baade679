//! A picture, piece by piece.

use std::fmt::{self, Write as _};

/// An SVG document that grows.
#[derive(Debug, Default)]
pub struct Svg(String);

/// Where something is.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// How a text stands at its point.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// A filled area. `told` is shown to a pointer that rests on it.
    pub fn area(&mut self, place: Place, fill: &str, told: &str) {
        let Place {
            x,
            y,
            width,
            height,
        } = place;
        self.add(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{fill}">"#
        ));
        if !told.is_empty() {
            self.add(format_args!("<title>{}</title>", escape(told)));
        }
        self.add(format_args!("</rect>\n"));
    }

    /// A line from point to point.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str) {
        self.add(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>\n",
            from.0, from.1, to.0, to.1
        ));
    }

    /// A filled area within straight lines from corner to corner.
    pub fn shape(&mut self, corners: &[(f64, f64)], fill: &str) {
        self.add(format_args!("<path fill=\"{fill}\" d=\"M"));
        for (x, y) in corners {
            self.add(format_args!("{x:.1} {y:.1} "));
        }
        self.add(format_args!("z\"/>\n"));
    }

    /// Level strokes of one width, each from one x to another at its y.
    pub fn strokes(&mut self, strokes: &[(f64, f64, f64)], width: f64, colour: &str) {
        self.add(format_args!(
            "<path stroke=\"{colour}\" stroke-width=\"{width:.1}\" d=\""
        ));
        for (from, to, y) in strokes {
            self.add(format_args!("M{from:.1} {y:.2}H{to:.1}"));
        }
        self.add(format_args!("\"/>\n"));
    }

    /// A text of that size on its base line.
    pub fn text(&mut self, at: (f64, f64), size: u32, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.add(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\">{}</text>\n",
            at.0,
            at.1,
            escape(text)
        ));
    }

    /// The whole document, with this one on top of it.
    pub fn finish(self, above: &Self, (width, height): (f64, f64)) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" fill=\"#222\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{}{}</svg>\n",
            self.0, above.0
        )
    }

    fn add(&mut self, piece: fmt::Arguments<'_>) {
        let _ = self.0.write_fmt(piece);
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
