//! Variables of the environment that begin as this crate's do, and have no effect.

use std::collections::BTreeSet;

use super::overrides::{Environment, OURS, beginning_of, settings};
use super::{GroupConfig, ManagerConfig, RoleConfig};

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

impl ManagerConfig {
    /// Returns a warning for each variable in the environment that begins with `NATS_ELECT_` and has
    /// no effect. Those of the command are known, and those that Kubernetes sets for a Service that
    /// is called `nats-elect…`. For this project's command; a builder logs them.
    #[doc(hidden)]
    pub fn unknown_in_env() -> Vec<String> {
        Environment::read().unknown()
    }
}

impl Environment {
    pub(crate) fn unknown(&self) -> Vec<String> {
        let named = [beginning_of::<RoleConfig>(), beginning_of::<GroupConfig>()];
        let ours = self.names().filter(|name| {
            let is_named = named.iter().any(|it| name.starts_with(it));
            !is_named && !is_of_kubernetes(name)
        });
        let ours: Vec<_> = ours.filter_map(|name| name.strip_prefix(OURS)).collect();
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
        let told = unknown.map(|it| {
            format!(
                "{OURS}{it} in the environment has no effect: docs/configuration.md has the names of all settings"
            )
        });
        told.collect()
    }
}

fn table(name: &str) -> &str {
    name.split("__").next().unwrap_or(name)
}

/// Whether Kubernetes sets a variable for a Service.
fn is_of_kubernetes(name: &str) -> bool {
    name.contains("_SERVICE_") || name.contains("_PORT")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_unknown(name: &str) -> bool {
        let environment = Environment::from_iter([(name, "x")]);
        let found = environment.unknown();
        let warning = format!("{name} in the environment has no effect: ");
        assert!(found.iter().all(|it| it.starts_with(&warning)), "{found:?}");
        !found.is_empty()
    }

    #[test]
    fn a_wrong_name_is_told() {
        for wrong in [
            "NATS_ELECT_MANAGER__BUCKET",
            "NATS_ELECT_MANAGER_BUCKET",
            "NATS_ELECT_BUKET",
            "NATS_ELECT_EVENTS_KEEP",
            "NATS_ELECT_ADMIN_PREFIX",
            "NATS_ELECT_ROLES_SCHEDULER_TTL",
            "NATS_ELECT_GROUPS_CACHE_SHARDS",
            "NATS_ELECT_SOMETHING_ELSE",
        ] {
            assert!(is_unknown(wrong), "{wrong}");
        }
    }

    #[test]
    fn variables_of_others_with_our_prefix_are_no_mistake() {
        for known in [
            "NATS_ELECT_BUCKET",
            "NATS_ELECT_META__ZONE",
            "NATS_ELECT_ROLES__SCHEDULER__TTL",
            "NATS_ELECT_GROUPS__CACHE__SHARDS",
            "NATS_ELECT_FENCING_TOKEN",
            "NATS_ELECT_SLOT",
            "NATS_ELECT_SERVICE_HOST",
            "NATS_ELECT_SERVICE_PORT_HTTP",
            "NATS_ELECT_PORT",
            "NATS_ELECT_PORT_8080_TCP_ADDR",
            "NATS_ELECT_AGENT_SERVICE_HOST",
            "NATS_ELECT_AGENT_PORT",
        ] {
            assert!(!is_unknown(known), "{known}");
        }
    }
}
