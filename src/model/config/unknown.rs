//! Variables of the environment that begin as this crate's do, and have no effect.

use std::collections::BTreeSet;
use std::fmt;

use super::ManagerConfig;
use super::overrides::{Environment, OURS, ROLES, settings};

/// What follows [`OURS`] in the variables of the command: those that it reads, and those that `exec`
/// sets for its child.
const OF_THE_COMMAND: [&str; 10] = [
    "AGENT_HEALTH",
    "AGENT_LISTEN",
    "AGENT_TOKEN_FILE",
    "COMPLETE",
    "EXEC_LISTEN",
    "FENCING_TOKEN",
    "INSTANCE",
    "LOG",
    "ROLE",
    "SLOT",
];

/// Names that are too different from those that they had once.
const RENAMED: [(&str, &str); 1] = [("ADMIN_PREFIX", "ADMIN__SUBJECT_PREFIX")];

/// More changed letters make another name.
const MOST_CHANGES: usize = 2;

/// A variable of the environment that begins with `NATS_ELECT_` and has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownVariable {
    /// Its name.
    pub name: String,
    /// The name that may be meant.
    pub nearest: Option<String>,
}

impl fmt::Display for UnknownVariable {
    /// Writes a warning.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in the environment has no effect", self.name)?;
        match &self.nearest {
            Some(nearest) => write!(f, ": did you mean {nearest}?"),
            None => f.write_str(": docs/configuration.md has the names of all settings"),
        }
    }
}

impl ManagerConfig {
    /// Returns the variables in the environment that begin with `NATS_ELECT_` and have no effect, each
    /// with the name that may be meant. Those of the command are known, and those that Kubernetes
    /// sets for a Service that is called `nats-elect…`.
    ///
    /// [`RoleManagerBuilder::with_env`](crate::RoleManagerBuilder::with_env) logs them as warnings when
    /// the manager starts.
    pub fn unknown_in_env() -> Vec<UnknownVariable> {
        Environment::read().unknown()
    }
}

impl Environment {
    pub(crate) fn unknown(&self) -> Vec<UnknownVariable> {
        let ours = self.names().filter_map(|name| name.strip_prefix(OURS));
        let ours: Vec<_> = ours
            .filter(|it| !it.starts_with(&ROLES[OURS.len()..]) && !is_of_kubernetes(it))
            .collect();
        if ours.is_empty() {
            return Vec::new();
        }
        let settings = settings::<ManagerConfig>().into_iter();
        let known: BTreeSet<_> = settings
            .map(|path| path.replace('.', "__").to_uppercase())
            .chain(OF_THE_COMMAND.map(ToOwned::to_owned))
            .collect();
        let tables: BTreeSet<_> = known.iter().map(|it| table(it)).collect();
        let unknown = ours
            .into_iter()
            // A wrong name in a table is an error.
            .filter(|it| !known.contains(*it) && !tables.contains(table(it)));
        let told = unknown.map(|it| UnknownVariable {
            name: format!("{OURS}{it}"),
            nearest: nearest(it, &known).map(|it| format!("{OURS}{it}")),
        });
        told.collect()
    }
}

fn table(name: &str) -> &str {
    name.split("__").next().unwrap_or(name)
}

/// Whether Kubernetes sets a variable for a Service.
fn is_of_kubernetes(name: &str) -> bool {
    let name = format!("_{name}");
    name.contains("_SERVICE_") || name.contains("_PORT")
}

/// Returns the known name that is most like this one.
fn nearest(name: &str, known: &BTreeSet<String>) -> Option<String> {
    // The notation of settings was another one once.
    let name = name.strip_prefix("MANAGER").unwrap_or(name);
    let name = name.trim_start_matches('_').replace("__", "_");
    if name.starts_with("ROLES_") {
        return Some("ROLES__<ROLE>__<SETTING>".into());
    }
    if let Some((_, renamed)) = RENAMED.iter().find(|(before, _)| *before == name) {
        return Some((*renamed).to_owned());
    }
    let distances = known
        .iter()
        .map(|it| (distance(&name, &it.replace("__", "_")), it));
    let (changes, nearest) = distances.min()?;
    (changes <= MOST_CHANGES).then(|| nearest.clone())
}

/// The number of letters to add, leave out or change.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<_> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.bytes().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(name: &str) -> Option<String> {
        let environment = Environment::from_iter([(name, "x")]);
        let found = environment.unknown().pop()?;
        assert_eq!(found.name, name);
        Some(found.nearest.unwrap_or_default())
    }

    #[test]
    fn a_wrong_name_is_told_with_the_right_one() {
        for (wrong, right) in [
            ("NATS_ELECT_MANAGER__BUCKET", "NATS_ELECT_BUCKET"),
            ("NATS_ELECT_MANAGER_BUCKET", "NATS_ELECT_BUCKET"),
            ("NATS_ELECT_BUKET", "NATS_ELECT_BUCKET"),
            ("NATS_ELECT_EVENTS_KEEP", "NATS_ELECT_EVENTS__KEEP"),
            (
                "NATS_ELECT_MANAGER__TLS__CA_FILE",
                "NATS_ELECT_TLS__CA_FILE",
            ),
            (
                "NATS_ELECT_ADMIN_PREFIX",
                "NATS_ELECT_ADMIN__SUBJECT_PREFIX",
            ),
            (
                "NATS_ELECT_ROLES_SCHEDULER_TTL",
                "NATS_ELECT_ROLES__<ROLE>__<SETTING>",
            ),
            ("NATS_ELECT_SOMETHING_ELSE", ""),
        ] {
            assert_eq!(unknown(wrong).as_deref(), Some(right), "{wrong}");
        }
    }

    #[test]
    fn variables_of_others_with_our_prefix_are_no_mistake() {
        for known in [
            "NATS_ELECT_BUCKET",
            "NATS_ELECT_META__ZONE",
            "NATS_ELECT_ROLES__SCHEDULER__TTL",
            "NATS_ELECT_FENCING_TOKEN",
            "NATS_ELECT_SLOT",
            "NATS_ELECT_SERVICE_HOST",
            "NATS_ELECT_SERVICE_PORT_HTTP",
            "NATS_ELECT_PORT",
            "NATS_ELECT_PORT_8080_TCP_ADDR",
            "NATS_ELECT_AGENT_SERVICE_HOST",
            "NATS_ELECT_AGENT_PORT",
        ] {
            assert_eq!(unknown(known), None, "{known}");
        }
    }
}
