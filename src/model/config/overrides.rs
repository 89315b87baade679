//! Settings from the environment, by one rule for all of them: the path of a setting in a
//! configuration file is the name of its variable.

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::access::HIDDEN;
use super::environment::listed;
use super::manager::{names_a_user, without_credentials};
use super::{ConfigError, GroupConfig, ManagerConfig, RoleConfig};
use nats_elect_core::text::beginning;

/// The beginning of all variables of this crate. The path of a setting of `ManagerConfig` follows.
pub(super) const OURS: &str = "NATS_ELECT_";

/// The variables of NATS tools, and the settings that they are.
const OF_NATS_TOOLS: [(&str, &str); 10] = [
    ("NATS_URL", "servers"),
    ("NATS_USER", "auth.user"),
    ("NATS_PASSWORD", "auth.password"),
    ("NATS_TOKEN", "auth.token"),
    ("NATS_NKEY", "auth.nkey_file"),
    ("NATS_CREDS", "auth.creds_file"),
    ("NATS_CA", "tls.ca_file"),
    ("NATS_CERT", "tls.cert_file"),
    ("NATS_KEY", "tls.key_file"),
    ("NATS_TLS_FIRST", "tls.first"),
];

/// The variable of each setting that comes from the environment, by the path of the setting in a
/// configuration file: `roles.scheduler.ttl`.
pub(crate) type Origins = BTreeMap<String, String>;

/// Settings of which each role, or each group, has a table.
pub(crate) trait TableOfName: Serialize + DeserializeOwned {
    /// What has such a table: a `role`. The table of all of them is `roles`.
    const OF: &'static str;

    /// Checks every rule.
    fn check(&self) -> Result<(), ConfigError>;
}

impl TableOfName for RoleConfig {
    const OF: &'static str = "role";

    fn check(&self) -> Result<(), ConfigError> {
        self.settings().map(drop)
    }
}

impl TableOfName for GroupConfig {
    const OF: &'static str = "group";

    fn check(&self) -> Result<(), ConfigError> {
        self.validate()
    }
}

/// The beginning of the variables of all roles, or of all groups. The name follows.
pub(super) fn beginning_of<T: TableOfName>() -> String {
    format!("{OURS}{}S__", upper(T::OF))
}

/// The variables of a process that may be settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment(BTreeMap<String, OsString>);

/// One setting of the environment.
struct Override<'a> {
    variable: &'a str,
    value: &'a OsString,
    /// The setting's path in the configuration that it changes: `events.keep`.
    path: String,
}

impl Environment {
    /// Reads the variables of this process.
    pub fn read() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .collect()
    }

    /// The names of all variables.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the variables of `ManagerConfig`. Later ones override earlier ones.
    fn of_manager<T: DeserializeOwned>(&self) -> Vec<Override<'_>> {
        let of_tools = OF_NATS_TOOLS.iter().filter_map(|(variable, path)| {
            Some(Override {
                variable,
                value: self.0.get(*variable)?,
                path: (*path).to_owned(),
            })
        });
        let settings = fields::<T>("").unwrap_or_default();
        let mut ours = self.after(OURS);
        // The others are for roles and groups, or for the command.
        ours.retain(|it| settings.iter().any(|name| it.table() == name));
        of_tools.chain(ours).collect()
    }

    /// Whether a variable says how to authenticate.
    pub fn sets_auth(&self) -> bool {
        let has_login = |it: &Override<'_>| {
            let servers = it.value.to_str().filter(|_| it.path == "servers");
            servers.is_some_and(|it| listed(it).iter().any(|server| names_a_user(server)))
        };
        let variables = self.of_manager::<ManagerConfig>();
        variables
            .iter()
            .any(|it| it.table() == "auth" || has_login(it))
    }

    fn after(&self, beginning: &str) -> Vec<Override<'_>> {
        let found = self.0.iter().filter_map(|(variable, value)| {
            let rest = variable.strip_prefix(beginning)?;
            let path = rest.to_ascii_lowercase().replace("__", ".");
            Some(Override {
                variable,
                value,
                path,
            })
        });
        found.collect()
    }

    /// Applies the variables of `ManagerConfig`.
    pub fn over_manager<T>(&self, config: T) -> Result<(T, Origins), ConfigError>
    where
        T: Serialize + DeserializeOwned,
    {
        apply(config, &self.of_manager::<T>(), "manager")
    }

    /// Applies the variables of a role or a group.
    pub fn over_table<T: TableOfName>(
        &self,
        name: &str,
        config: T,
    ) -> Result<(T, Origins), ConfigError> {
        let variables = self.after(&format!("{}{}__", beginning_of::<T>(), upper(name)));
        apply(config, &variables, &format!("{}s.{name}", T::OF))
    }

    /// Returns the variables of roles or groups other than these, and refuses those that name two of
    /// these.
    pub fn of_others<T: TableOfName>(&self, names: &[&str]) -> Result<Vec<String>, ConfigError> {
        let beginning = beginning_of::<T>();
        let variables = self.0.keys().filter_map(|variable| {
            let rest = variable.strip_prefix(&beginning)?;
            Some((variable, rest))
        });
        let mut others = Vec::new();
        for (variable, rest) in variables {
            let mut these = names.iter().filter(|name| {
                let rest = rest.strip_prefix(&upper(name));
                rest.is_some_and(|rest| rest.starts_with("__"))
            });
            match (these.next(), these.next()) {
                (None, _) => others.push(variable.clone()),
                (Some(_), None) => {}
                (Some(one), Some(other)) => {
                    let rule = format!(
                        "the name is that of the {}s `{one}` and `{other}`: rename one of them",
                        T::OF
                    );
                    return Err(ConfigError::new(variable, HIDDEN, rule));
                }
            }
        }
        Ok(others)
    }
}

impl<N: Into<String>, V: Into<OsString>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let variables = variables
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .filter(|(name, value): &(String, OsString)| {
                name.starts_with("NATS_") && !value.is_empty()
            });
        Self(variables.collect())
    }
}

/// Returns the error with the name of the variable, if it is about a setting that comes from one.
pub(crate) fn blamed(mut error: ConfigError, origins: &Origins, of: &str) -> Option<ConfigError> {
    let field = error.field.split('[').next().unwrap_or(&error.field);
    let mut path = format!("{of}.{field}");
    // A variable may hold a whole table.
    let variable = loop {
        match origins.get(&path) {
            Some(variable) => break variable,
            None => path.truncate(path.rfind('.')?),
        }
    };
    error.field.clone_from(variable);
    Some(error)
}

/// The name of a role or a group as it stands in a variable's name.
fn upper(name: &str) -> String {
    let letter = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    name.chars().map(letter).collect()
}

fn apply<T>(config: T, overrides: &[Override<'_>], of: &str) -> Result<(T, Origins), ConfigError>
where
    T: Serialize + DeserializeOwned,
{
    let Some(first) = overrides.first() else {
        return Ok((config, Origins::new()));
    };
    let unwritable = |error: serde_json::Error| {
        let rule = format!("the settings below it can't be overridden: {error}");
        ConfigError::new(first.variable, HIDDEN, rule)
    };
    let mut json = serde_json::to_value(&config).map_err(unwritable)?;
    // The replaced settings may be broken; these are not.
    T::deserialize(&json).map_err(unwritable)?;
    let mut changed = config;
    for one in overrides {
        (json, changed) = one.set(&json, of)?;
    }
    let origin = |one: &Override<'_>| (format!("{of}.{}", one.path), one.variable.to_owned());
    Ok((changed, overrides.iter().map(origin).collect()))
}

impl Override<'_> {
    /// The first part of the path.
    fn table(&self) -> &str {
        self.path.split('.').next().unwrap_or(&self.path)
    }

    /// Returns the configuration with this setting, as JSON and as itself.
    fn set<T: DeserializeOwned>(&self, json: &Value, of: &str) -> Result<(Value, T), ConfigError> {
        let Some(text) = self.value.to_str() else {
            let rule = "must be text in UTF-8";
            return Err(ConfigError::new(self.variable, "not UTF-8", rule));
        };
        let mut problem = String::new();
        for value in self.readings(text) {
            let mut json = json.clone();
            put(&mut json, &self.path, value);
            match T::deserialize(&json) {
                Ok(config) => return Ok((json, config)),
                Err(error) => problem = error.to_string(),
            }
        }
        Err(self.refused(text, &problem, of))
    }

    /// What the text may stand for: itself, or a number, a truth value, a list or a table as JSON
    /// has them.
    fn readings(&self, text: &str) -> impl Iterator<Item = Value> {
        let as_json = serde_json::from_str(text).ok();
        let as_text = match (&*self.path, &as_json) {
            ("servers", Some(Value::Array(_))) => None,
            ("servers", _) => Some(listed(text).into()),
            _ => Some(text.into()),
        };
        [as_text, as_json].into_iter().flatten()
    }

    fn refused(&self, text: &str, problem: &str, of: &str) -> ConfigError {
        if problem.starts_with("unknown field") {
            let rule = format!("there is no setting `{of}.{}`", self.path);
            return ConfigError::new(self.variable, HIDDEN, rule);
        }
        let value = match self.table() {
            "auth" => HIDDEN.to_owned(),
            "servers" => format!("{:?}", beginning(&without_credentials(text))),
            _ => format!("{:?}", beginning(text)),
        };
        // Problems quote values.
        let expected = problem
            .rsplit_once("expected ")
            .map(|(_, expected)| expected);
        let expected = match expected.unwrap_or("a value as in a configuration file") {
            "u32" | "u64" | "usize" => "a whole number, 0 or more",
            "i64" => "a whole number",
            "f64" => "a number",
            "a boolean" => "true or false",
            "a duration" => "a duration with a unit, like 500ms or 15s",
            "a map" => "a table, as JSON",
            "a sequence" => "a list, as JSON",
            expected if expected.starts_with("struct ") => "a table, as JSON",
            expected => expected,
        };
        ConfigError::new(self.variable, value, format!("must be {expected}"))
    }
}

/// The paths of all settings of a configuration, as its parser tells them.
pub(super) fn settings<T: DeserializeOwned>() -> Vec<String> {
    let mut found = Vec::new();
    let mut tables = vec![String::new()];
    while let Some(table) = tables.pop() {
        for name in fields::<T>(&table).unwrap_or_default() {
            let path = format!("{table}{name}");
            let inner = format!("{path}.");
            if fields::<T>(&inner).is_some() {
                tables.push(inner);
            } else {
                found.push(path);
            }
        }
    }
    found
}

/// The names in a table. `None` if the setting is no table of settings.
fn fields<T: DeserializeOwned>(table: &str) -> Option<Vec<String>> {
    let mut json = Value::Object(serde_json::Map::new());
    put(&mut json, &format!("{table}?"), 1.into());
    let error = T::deserialize(&json).err()?.to_string();
    let names = error.strip_prefix("unknown field `?`, expected ")?;
    let names = names.split('`').skip(1).step_by(2);
    Some(names.map(ToOwned::to_owned).collect())
}

/// Puts a value at a path. A value that is no table gives way to one.
fn put(json: &mut Value, path: &str, value: Value) {
    let mut place = json;
    for name in path.split('.') {
        if !place.is_object() {
            *place = Value::Object(serde_json::Map::new());
        }
        place = &mut place[name];
    }
    *place = value;
}

#[cfg(test)]
mod tests;
