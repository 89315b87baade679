//! Tables in Markdown.

use std::fmt::Write as _;

/// A table: its first column are words, the others figures.
#[derive(Clone, Debug)]
pub struct Table(Vec<Vec<String>>);

impl Table {
    pub fn new<'a>(heads: impl IntoIterator<Item = &'a str>) -> Self {
        Self(vec![heads.into_iter().map(str::to_owned).collect()])
    }

    /// One more row, as wide as the heads.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<_> = cells.into_iter().collect();
        assert_eq!(self.0[0].len(), cells.len(), "a row as wide as the heads");
        self.0.push(cells);
    }

    /// Whether it has no row but its heads.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 1
    }

    /// The lines of the table, aligned for readers of the text too.
    pub fn markdown(&self) -> String {
        let widths: Vec<usize> = (0..self.0[0].len())
            .map(|column| self.0.iter().map(|row| width(&row[column])).max())
            .map(|widest| widest.unwrap_or(0).max(4))
            .collect();
        let mut text = String::new();
        for (number, row) in self.0.iter().enumerate() {
            line(&mut text, row, &widths);
            if number == 0 {
                text.push_str("| ---");
                for _ in &widths[1..] {
                    text.push_str(" | ---:");
                }
                text.push_str(" |\n");
            }
        }
        text
    }
}

fn line(text: &mut String, row: &[String], widths: &[usize]) {
    for (column, (cell, widest)) in row.iter().zip(widths).enumerate() {
        let space = " ".repeat(widest - width(cell));
        let cell = cell.replace('|', "\\|");
        let _ = match column {
            0 => write!(text, "| {cell}{space} "),
            _ => write!(text, "| {space}{cell} "),
        };
    }
    text.push_str("|\n");
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}
