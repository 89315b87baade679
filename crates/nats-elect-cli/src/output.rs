//! What is shown: tables and words for people, JSON for programs.

use std::env;
use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use nats_elect::FencingToken;
use nats_elect::whole::Whole;
use serde::Serialize;
use serde_json::Value;

use crate::text::{clean, clean_json, cut, short};

/// Of longer names the beginning is shown, in characters: one of them would widen every row.
pub const SHOWN: usize = 48;

/// The form of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables and sentences for people
    #[default]
    Table,
    /// As table, with whole names and more columns
    Wide,
    /// JSON, one value per line
    Json,
}

/// Where and how things are shown. Everything goes through it, so that nothing panics when nobody
/// reads any more.
#[derive(Clone, Copy, Debug, Default)]
pub struct Output {
    format: Format,
    colours: bool,
}

impl Output {
    pub fn new(format: Format, no_color: bool) -> Self {
        Self {
            format,
            colours: !no_color && wanted(io::stdout().is_terminal()),
        }
    }

    /// Whether a program reads it.
    pub const fn is_data(self) -> bool {
        matches!(self.format, Format::Json)
    }

    /// Whether tables have all columns, and whole names.
    pub const fn is_wide(self) -> bool {
        matches!(self.format, Format::Wide)
    }

    /// A name in a table: of a longer one the beginning, unless the output is wide.
    pub fn name(self, name: &str) -> String {
        if self.is_wide() {
            name.to_owned()
        } else {
            cut(name, SHOWN)
        }
    }

    /// A fencing token in a table: its end, unless the output is wide.
    pub fn token(self, token: FencingToken) -> String {
        if self.is_wide() {
            token.to_string()
        } else {
            short(token)
        }
    }

    /// Whether what is shown may be coloured.
    pub const fn colours(self) -> bool {
        self.colours
    }

    /// One line for people.
    #[expect(
        clippy::unused_self,
        reason = "everything is shown through an `Output`"
    )]
    pub fn line(self, text: impl AsRef<str>) -> io::Result<()> {
        writeln!(io::stdout().lock(), "{}", text.as_ref())
    }

    /// One value for programs, on one line, so that a stream of them can be read line by line.
    pub fn data(self, value: &impl Serialize) -> io::Result<()> {
        self.line(json(value))
    }

    /// A result: a value for programs, lines for people.
    pub fn tell(
        self,
        value: &impl Serialize,
        lines: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> io::Result<()> {
        if self.is_data() {
            return self.data(value);
        }
        lines.into_iter().try_for_each(|line| self.line(line))
    }

    /// A table in the house style, to be filled and [shown](Self::show).
    pub fn table<'a>(self, header: impl IntoIterator<Item = &'a str>) -> Table {
        let mut table = Table::new();
        table
            .load_preset(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_header(header.into_iter().collect::<Vec<_>>());
        if let Some(first) = table.column_mut(0) {
            first.set_padding((0, 1));
        }
        if self.colours {
            table.enforce_styling();
        } else {
            // It has a width all the same, if it is one.
            if let Some(width) = table.width() {
                table.set_width(width);
            }
            table.force_no_tty();
        }
        table
    }

    /// A table, without the blanks at the ends of its lines.
    pub fn show(self, table: &Table) -> io::Result<()> {
        for line in table.lines() {
            self.line(line.trim_end())?;
        }
        Ok(())
    }

    /// A failure, on stderr: in words, or as one line of JSON.
    pub fn failure(self, kind: &impl Serialize, what: &str, advice: Option<&str>) {
        let failure = serde_json::json!({ "error": kind, "message": what, "advice": advice });
        let advice = advice.map_or_else(String::new, |advice| format!("\n       {advice}"));
        let lines: Vec<_> = what.lines().map(clean).collect();
        self.say(&failure, &format!("error: {}{advice}", lines.join("\n")));
    }

    /// Something to know that is no failure, on stderr.
    pub fn warning(self, what: &str) {
        let warning = serde_json::json!({ "warning": what });
        self.say(&warning, &format!("warning: {}", clean(what)));
    }

    /// A value for programs, or words, on stderr. If nobody hears it, the exit code still tells.
    fn say(self, value: &Value, words: &str) {
        let json = self.is_data().then(|| clean_json(&value.to_string()));
        let said = json.as_deref().unwrap_or(words);
        let _ = writeln!(io::stderr().lock(), "{said}");
    }

    /// A word to people, on stderr, on what the result means. Programs see it in the result.
    pub fn note(self, what: &str) {
        if !self.is_data() {
            let _ = writeln!(io::stderr().lock(), "{}", clean(what));
        }
    }
}

/// A value as text, in the one notation: no reader rounds a whole number of it, and no terminal
/// acts on it.
pub fn json(value: &impl Serialize) -> String {
    clean_json(&whole(serde_json::json!(value)).to_string())
}

/// The same JSON, in which no reader rounds a whole number: larger ones are text.
fn whole(value: Value) -> Value {
    match value {
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => serde_json::json!(Whole(number)),
            (_, Some(number)) => serde_json::json!(Whole(number)),
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(whole).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            fields.map(|(name, value)| (name, whole(value))).collect()
        }
        other => other,
    }
}

/// What the environment says of colours: <https://no-color.org>, <https://bixense.com/clicolors>.
fn wanted(terminal: bool) -> bool {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    if set("NO_COLOR").is_some() {
        return false;
    }
    if set("CLICOLOR_FORCE").is_some_and(|value| value != "0") {
        return true;
    }
    let plain = set("TERM").is_some_and(|value| value == "dumb");
    terminal && !plain && set("CLICOLOR").is_none_or(|value| value != "0")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_number_is_shown_that_a_reader_would_round() {
        let record = json!({"beat": u64::MAX, "priority": [i64::MIN, 7], "jitter": 0.1});
        let shown = json!({
            "beat": "18446744073709551615", "priority": ["-9223372036854775808", 7], "jitter": 0.1,
        });
        assert_eq!(whole(record), shown);
    }
}
