//! Configuration files: `[manager]`, `[roles.<name>]` and `[groups.<name>]`, in TOML or JSON, or the
//! same in a table of an application's own file.

use std::fmt;
use std::fs;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;

use nats_elect::{ConfigError, ElectionsConfig};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use toml::de::{DeTable, DeValue};

use crate::exit::Failure;

/// The text of a file, or of stdin under the name `-`.
pub fn text_of(path: &Path) -> Result<String, Failure> {
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        fs::read_to_string(path)
    };
    text.map_err(|error| Failure::usage(format!("{} can't be read: {error}", path.display())))
}

/// What a file says.
#[derive(Debug)]
pub struct ConfigFile {
    pub config: ElectionsConfig,
    /// Whether it has a table `manager`. If not, the connection is as the options, the environment
    /// and the context say.
    pub has_manager: bool,
}

impl ConfigFile {
    /// Reads a file, if one is named.
    pub fn read(path: Option<&Path>, table: Option<&str>) -> Result<Option<Self>, Failure> {
        path.map(|path| Source::open(path, table)?.parse())
            .transpose()
    }
}

/// A file and its text, for telling where in it something is.
pub struct Source {
    name: String,
    text: String,
    json: bool,
    /// The names of the tables around the settings, from the outside in.
    table: Vec<String>,
}

impl Source {
    /// Reads a file. Its settings are in this table, such as `app.elect`, or at its top.
    pub fn open(path: &Path, table: Option<&str>) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let text = text_of(path)?;
        let json = path
            .extension()
            .is_some_and(|extension| extension == "json")
            || text.trim_start().starts_with('{');
        let names = table.into_iter().flat_map(|table| table.split('.'));
        let table = names.map(ToOwned::to_owned).collect();
        Ok(Self {
            name,
            text,
            json,
            table,
        })
    }

    /// Its content. Rules that concern values are not checked yet.
    pub fn parse(&self) -> Result<ConfigFile, Failure> {
        #[derive(Deserialize)]
        struct Told {
            manager: Option<IgnoredAny>,
        }
        let missing = || {
            let table = self.table.join(".");
            Failure::usage(format!("{} has no table `{table}`", self.name))
        };
        let config = self.read()?.ok_or_else(missing)?;
        let told: Told = self.read()?.ok_or_else(missing)?;
        Ok(ConfigFile {
            config,
            has_manager: told.manager.is_some(),
        })
    }

    /// Reads what is in the table. `None` if the file has no such table.
    fn read<'de, T: Deserialize<'de>>(&'de self) -> Result<Option<T>, Failure> {
        let within = Within {
            path: &self.table,
            of: PhantomData,
        };
        if self.json {
            let mut reader = serde_json::Deserializer::from_str(&self.text);
            let read = within.deserialize(&mut reader);
            let read = read.and_then(|it| reader.end().map(|()| it));
            return read.map_err(|error| {
                let (line, column) = (error.line(), error.column());
                let message = error.to_string();
                let message = message
                    .rsplit_once(" at line ")
                    .map_or(message.as_str(), |(message, _)| message);
                self.unreadable(line, column, message)
            });
        }
        let reader = toml::Deserializer::parse(&self.text);
        reader
            .and_then(|reader| within.deserialize(reader))
            .map_err(|error| {
                let (line, column) = self.position(error.span().map_or(0, |span| span.start));
                self.unreadable(line, column, error.message())
            })
    }

    /// A value that breaks a rule, with its place if the file is TOML.
    pub fn broken(&self, path: &[&str], error: &ConfigError) -> String {
        let place = self.find(path, &error.field).map_or_else(
            || self.name.clone(),
            |span| {
                let (line, column) = self.position(span.start);
                format!("{}:{line}:{column}", self.name)
            },
        );
        let outer = self.table.iter().map(String::as_str);
        let path: Vec<_> = outer.chain(path.iter().copied()).collect();
        format!("{place}: {}: {error}", path.join("."))
    }

    fn unreadable(&self, line: usize, column: usize, message: &str) -> Failure {
        let written = self.text.lines().nth(line.saturating_sub(1)).unwrap_or("");
        let secret = ["password", "token", "nkey", "creds", "servers"]
            .iter()
            .any(|word| written.contains(word));
        // Messages quote values of a wrong type.
        let message = if secret && message.contains("invalid") {
            "the value has the wrong type"
        } else {
            message.lines().next().unwrap_or("it can't be read")
        };
        Failure::usage(format!("{}:{line}:{column}: {message}", self.name))
    }

    /// Line and column of a byte, counted from 1.
    fn position(&self, byte: usize) -> (usize, usize) {
        let before = &self.text[..byte.min(self.text.len())];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.matches('\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    }

    /// Where the file says a field such as `events.keep` or `servers[1]` of a table.
    fn find(&self, path: &[&str], field: &str) -> Option<Range<usize>> {
        if self.json {
            return None;
        }
        let parsed = DeTable::parse(&self.text).ok()?;
        let mut table = parsed.get_ref();
        let mut found = None;
        let outer = self.table.iter().map(String::as_str);
        let names = outer.chain(path.iter().copied());
        for name in names.chain(field.split('.')) {
            let name = name.split('[').next().unwrap_or(name);
            let Some((key, value)) = table.get_key_value(name) else {
                break;
            };
            found = Some(key.span());
            match value.get_ref() {
                DeValue::Table(inner) => table = inner,
                _ => break,
            }
        }
        found
    }
}

/// Reads what is in a table of a table, and skips everything around it.
struct Within<'a, T> {
    path: &'a [String],
    of: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Within<'_, T> {
    type Value = Option<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        if self.path.is_empty() {
            T::deserialize(deserializer).map(Some)
        } else {
            deserializer.deserialize_map(self)
        }
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Within<'_, T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<T>, A::Error> {
        let Some((name, path)) = self.path.split_first() else {
            return Err(A::Error::custom("no table is named"));
        };
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == *name {
                let of = PhantomData;
                found = map.next_value_seed(Within { path, of })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}
