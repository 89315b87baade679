//! Tables of which some columns are for a wide output alone.

use comfy_table::{Cell, ColumnConstraint};

use crate::output::Output;

/// The columns of a table.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The names of all, in their order.
    pub all: &'static str,
    /// Those that only a wide table has.
    pub wide: &'static str,
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
        let is_wide = |name: &str| self.wide.split(' ').any(|it| it == name);
        let all = self.all.split(' ').enumerate();
        let shown: Vec<_> = all
            .filter(|(_, name)| output.is_wide() || !is_wide(name))
            .collect();
        let head = shown.iter().map(|(_, name)| *name);
        let flexible = head.clone().position(|column| column == self.flexible);
        let mut table = output.table(head);
        for row in rows {
            table.add_row(shown.iter().filter_map(|(at, _)| row.get(*at).cloned()));
        }
        for column in table.column_iter_mut() {
            if Some(column.index) != flexible {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        output.show(&table)
    }
}
