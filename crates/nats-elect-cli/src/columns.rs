//! Tables of which the columns can be chosen.

use clap::Args;
use comfy_table::Cell;

use crate::exit::Failure;
use crate::output::Output;

/// The columns to show, as they are named on the command line.
#[derive(Debug, Default, Args)]
pub struct Columns {
    /// Show these columns of the table in this order, by their names in its head, like role,leader.
    /// The columns of --output wide can be chosen, too
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        help_heading = "Output"
    )]
    columns: Vec<String>,
}

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

/// A table to be filled with rows of all columns.
pub struct Chosen {
    layout: Layout,
    /// The positions of the columns to show.
    shown: Vec<usize>,
}

impl Columns {
    /// Chooses from these columns.
    ///
    /// # Errors
    /// Returns a failure if there is no column of a name, or no table is shown.
    pub fn of(&self, layout: Layout, output: Output) -> Result<Chosen, Failure> {
        if self.columns.is_empty() {
            return Ok(Chosen::usual(layout, output));
        }
        if output.is_data() {
            let what = "--columns chooses columns of the table: json and yaml have all fields";
            return Err(Failure::usage(what).advice("choose fields with a program like jq"));
        }
        let position = |name: &String| {
            let mut all = layout.all.iter();
            let found = all.position(|column| column.eq_ignore_ascii_case(name.trim()));
            found.ok_or_else(|| {
                let names = layout.all.join(",").to_ascii_lowercase();
                Failure::usage(format!("there is no column {name:?}"))
                    .advice(format!("the columns are {names}"))
            })
        };
        let shown = self
            .columns
            .iter()
            .map(position)
            .collect::<Result<_, _>>()?;
        Ok(Chosen { layout, shown })
    }
}

impl Chosen {
    /// The columns that are shown unless others are chosen.
    pub fn usual(layout: Layout, output: Output) -> Self {
        let is_shown = |column: &str| output.is_wide() || !layout.wide.contains(&column);
        let all = layout.all.iter().enumerate();
        let shown = all.filter(|(_, column)| is_shown(column));
        Self {
            layout,
            shown: shown.map(|(at, _)| at).collect(),
        }
    }

    /// Shows rows that have a cell for each column of the layout.
    pub fn show(
        &self,
        rows: impl IntoIterator<Item = Vec<Cell>>,
        output: Output,
    ) -> std::io::Result<()> {
        let head = self.shown.iter().map(|&at| self.layout.all[at]);
        let flexible = head
            .clone()
            .position(|column| column == self.layout.flexible);
        let mut table = output.table(head);
        for row in rows {
            let cell = |&at: &usize| row.get(at).cloned().unwrap_or_else(|| Cell::new(""));
            table.add_row(self.shown.iter().map(cell));
        }
        output.show_fitting(table, flexible)
    }
}
