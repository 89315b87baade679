//! Colours and signs.

use ratatui::style::{Color, Modifier, Style};

use super::facts::Cell;

/// What the terminal can show.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub colours: bool,
    pub ascii: bool,
}

impl Look {
    /// A sign for terminals that have it, or the plain one.
    pub const fn sign(self, sign: &'static str, plain: &'static str) -> &'static str {
        if self.ascii { plain } else { sign }
    }

    pub fn coloured(self, colour: Color) -> Style {
        if self.colours {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    pub fn good(self) -> Style {
        self.coloured(Color::Green)
    }

    pub fn doubtful(self) -> Style {
        self.coloured(Color::Yellow)
    }

    /// To be seen without colours, too.
    pub fn bad(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub fn title(self) -> Style {
        self.coloured(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    pub fn faint(self) -> Style {
        self.coloured(Color::DarkGray)
    }

    /// Text for a cell of the matrix.
    pub fn cell(self, cell: Cell) -> (String, Style) {
        let (sign, plain, word, style) = match cell {
            Cell::Leader => ("●", "*", "leader", self.good().add_modifier(Modifier::BOLD)),
            Cell::LeaderPaused => ("●", "*", "leader, paused", self.doubtful()),
            Cell::LeaderUnhealthy => ("●", "*", "leader, unwell", self.bad()),
            Cell::Follower => ("○", "o", "follower", Style::new()),
            Cell::Candidate => ("◌", "c", "candidate", self.coloured(Color::Cyan)),
            Cell::Draining => ("◐", "d", "draining", self.doubtful()),
            Cell::Demoted => ("◐", "d", "cooling down", self.doubtful()),
            Cell::Paused => ("=", "=", "paused", self.doubtful()),
            Cell::Unhealthy => ("✗", "x", "unhealthy", self.bad()),
            Cell::Failing => ("✗", "x", "failing", self.bad()),
            Cell::Starting => ("…", ".", "starting", self.faint()),
            Cell::Stopped => ("-", "-", "stopped", self.faint()),
            Cell::Unknown => ("?", "?", "not known", self.doubtful()),
            Cell::NoAnswer => ("?", "?", "no answer", self.faint()),
            Cell::Absent => ("·", ".", "", self.faint()),
        };
        let sign = self.sign(sign, plain);
        (format!("{sign} {word}").trim_end().to_owned(), style)
    }

    /// A text of this program, with plain signs where there are no others.
    pub fn plain(self, text: &str) -> String {
        if self.ascii {
            text.replace("≤ ", "<=").replace('…', "~")
        } else {
            text.to_owned()
        }
    }

    /// A bar of so many cells, this part of it full.
    pub fn bar(self, width: usize, part: f64) -> String {
        const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "at most eight times the width of a terminal"
        )]
        let eighths = (part.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
        let (full, rest) = (eighths / 8, eighths % 8);
        let bar = if self.ascii {
            "#".repeat(full + usize::from(rest >= 4))
        } else {
            "█".repeat(full) + EIGHTHS[rest]
        };
        let cells = bar.chars().count();
        let empty = self.sign("░", ".").repeat(width.saturating_sub(cells));
        bar + &empty
    }
}
