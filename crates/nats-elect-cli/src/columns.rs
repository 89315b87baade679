//! Tables of which some columns are for a wide output alone.

use comfy_table::Cell;

use crate::output::Output;

/// The columns of a table.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// All of them, in their order.
    pub all: &'static [&'static str],
    /// Those that only a wide table has.
    pub wide: &'static [&'static str],
    /// The one that gives way on a narrow terminal.
    pub flexible: &'static str,
}

impl Layout {
    /// Shows rows that have a cell for each column.
    pub fn show(
        self,
        rows: impl IntoIterator<Item = Vec<Cell>>,
        output: Output,
    ) -> std::io::Result<()> {
        let is_shown = |at: &usize| output.is_wide() || !self.wide.contains(&self.all[*at]);
        let shown: Vec<_> = (0..self.all.len()).filter(is_shown).collect();
        let head = shown.iter().map(|&at| self.all[at]);
        let flexible = head.clone().position(|column| column == self.flexible);
        let mut table = output.table(head);
        for row in rows {
            table.add_row(shown.iter().filter_map(|&at| row.get(at).cloned()));
        }
        output.show_fitting(table, flexible)
    }
}
