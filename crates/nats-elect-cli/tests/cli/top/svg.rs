//! A terminal's screen as a picture.

use std::fmt::Write;

use vt100::{Cell, Color, Screen};

/// The size of a cell, and the frame around all of them.
const WIDTH: f64 = 8.4;
const HEIGHT: f64 = 18.0;
const FRAME: f64 = 14.0;
const TITLE: f64 = 30.0;

const BACKGROUND: &str = "#16181d";
const TEXT: &str = "#d7dae0";
/// The first eight colours of terminals, and their bright ones.
const PALETTE: [&str; 16] = [
    "#16181d", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d7dae0",
    "#8b93a1", "#f0868f", "#b1d796", "#f0d399", "#7fc1f5", "#d894ea", "#73cdd8", "#ffffff",
];

/// What stands on one line in one style.
struct Run {
    row: u16,
    col: u16,
    text: String,
    colour: &'static str,
    bold: bool,
    inverse: bool,
}

/// The screen, in a plain frame with this title.
pub fn picture(screen: &Screen, title: &str) -> String {
    let (rows, cols) = screen.size();
    let (rows, cols) = (rows.get(), cols.get());
    let width = f64::from(cols) * WIDTH + 2.0 * FRAME;
    let height = f64::from(rows) * HEIGHT + TITLE + FRAME;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\">\n\
         <title>{}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n\
         <text x=\"{:.1}\" y=\"20\" text-anchor=\"middle\" fill=\"{}\" font-size=\"13\">{}</text>\n",
        escaped(title),
        width / 2.0,
        PALETTE[8],
        escaped(title),
    );
    for row in 0..rows {
        for run in runs(screen, row, cols) {
            draw(&mut svg, &run);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn runs(screen: &Screen, row: u16, cols: u16) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for col in 0..cols {
        let Some(cell) = screen.cell(row, col) else {
            continue;
        };
        let text = if cell.has_contents() {
            cell.contents()
        } else {
            " "
        };
        let (colour, bold, inverse) = (colour(cell), cell.bold(), cell.inverse());
        match runs.last_mut() {
            Some(run) if (run.colour, run.bold, run.inverse) == (colour, bold, inverse) => {
                run.text.push_str(text);
            }
            _ => runs.push(Run {
                row,
                col,
                text: text.to_owned(),
                colour,
                bold,
                inverse,
            }),
        }
    }
    runs
}

fn colour(cell: &Cell) -> &'static str {
    match cell.fgcolor() {
        Color::Idx(index) => PALETTE.get(usize::from(index)).copied().unwrap_or(TEXT),
        _ => TEXT,
    }
}

fn draw(svg: &mut String, run: &Run) {
    let top = f64::from(run.row) * HEIGHT + TITLE;
    let mut col = f64::from(run.col);
    let (mut ink, colour) = (run.colour, run.colour);
    if run.inverse {
        let wide = count(&run.text);
        area(svg, (col, top), (wide, HEIGHT), (colour, 1.0));
        ink = BACKGROUND;
    }
    // Bars and lines are drawn: fonts leave gaps between such signs, or don't have them.
    let drawn = |sign: char| part(sign).is_some() || rise(sign).is_some() || sign == '─';
    let mut rest = run.text.as_str();
    while let Some(first) = rest.chars().next() {
        let kind = |sign: char| (drawn(sign), sign == ' ');
        let end = rest.find(|sign| kind(sign) != kind(first) || (drawn(first) && sign != first));
        let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
        let wide = count(piece);
        if let Some((full, strength)) = part(first) {
            area(
                svg,
                (col, top + 3.0),
                (wide * full, HEIGHT - 5.0),
                (ink, strength),
            );
        } else if let Some(high) = rise(first) {
            let (room, gap) = (HEIGHT - 5.0, 1.0);
            for at in 0..piece.chars().count() {
                let at = f64::from(u16::try_from(at).unwrap_or(0)) + col;
                let top = top + 3.0 + room * (1.0 - high);
                let wide = 1.0 - gap / WIDTH;
                area(svg, (at, top), (wide, room * high), (ink, 1.0));
            }
        } else if first == '─' {
            area(svg, (col, top + HEIGHT / 2.0), (wide, 1.0), (ink, 1.0));
        } else if first != ' ' {
            let weight = if run.bold {
                " font-weight=\"bold\""
            } else {
                ""
            };
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{ink}\"{weight} textLength=\"{:.1}\">{}</text>",
                col * WIDTH + FRAME,
                top + HEIGHT - 5.0,
                wide * WIDTH,
                escaped(piece),
            );
        }
        col += wide;
        rest = after;
    }
}

/// How much of its cell the piece of a bar fills, and how strongly.
fn part(sign: char) -> Option<(f64, f64)> {
    Some(match sign {
        '█' => (1.0, 1.0),
        '░' => (1.0, 0.22),
        '▉' => (0.875, 1.0),
        '▊' => (0.75, 1.0),
        '▋' => (0.625, 1.0),
        '▌' => (0.5, 1.0),
        '▍' => (0.375, 1.0),
        '▎' => (0.25, 1.0),
        '▏' => (0.125, 1.0),
        _ => return None,
    })
}

/// How high a bar that stands fills its cell.
fn rise(sign: char) -> Option<f64> {
    let eighths = "▁▂▃▄▅▆▇".chars().position(|it| it == sign)?;
    Some((f64::from(u8::try_from(eighths).ok()?) + 1.0) / 8.0)
}

/// A filled area: the column and the top, columns and height, colour and strength.
fn area(svg: &mut String, at: (f64, f64), size: (f64, f64), fill: (&str, f64)) {
    let _ = writeln!(
        svg,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\" fill-opacity=\"{}\"/>",
        at.0 * WIDTH + FRAME,
        at.1,
        size.0 * WIDTH,
        size.1,
        fill.0,
        fill.1,
    );
}

fn count(text: &str) -> f64 {
    text.chars().map(|_| 1.0).sum()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
