//! Configuration files: `[manager]` and `[roles.<name>]`, in TOML or JSON.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use nats_elect::{ConfigError, ManagerConfig, RoleConfig};
use serde::Deserialize;
use toml::de::{DeTable, DeValue};

use crate::exit::Failure;

/// What a file says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigFile {
    /// Not said: the connection is as the options, the environment and the context say.
    pub manager: Option<ManagerConfig>,
    #[serde(default)]
    pub roles: BTreeMap<String, RoleConfig>,
}

/// A file and its text, for telling where in it something is.
pub struct Source {
    name: String,
    text: String,
    json: bool,
}

impl Source {
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let text = if name == "-" {
            std::io::read_to_string(std::io::stdin())
        } else {
            fs::read_to_string(path)
        };
        let text =
            text.map_err(|error| Failure::usage(format!("{name} can't be read: {error}")))?;
        let json = path
            .extension()
            .is_some_and(|extension| extension == "json")
            || text.trim_start().starts_with('{');
        Ok(Self { name, text, json })
    }

    /// Its content. Rules that concern values are not checked yet.
    pub fn parse(&self) -> Result<ConfigFile, Failure> {
        if self.json {
            return serde_json::from_str(&self.text).map_err(|error| {
                let (line, column) = (error.line(), error.column());
                let message = error.to_string();
                let message = message
                    .rsplit_once(" at line ")
                    .map_or(message.as_str(), |(message, _)| message);
                self.unreadable(line, column, message)
            });
        }
        toml::from_str(&self.text).map_err(|error| {
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

    /// Where the file says a field such as `retry.jitter` or `servers[1]` of a table.
    fn find(&self, path: &[&str], field: &str) -> Option<Range<usize>> {
        if self.json {
            return None;
        }
        let parsed = DeTable::parse(&self.text).ok()?;
        let mut table = parsed.get_ref();
        let mut found = None;
        let names = path.iter().copied();
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
