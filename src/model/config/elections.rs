//! The settings of a process with all its roles and groups: what a configuration file holds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::overrides::{Environment, Origins, TableOfName, blamed};
use super::{ConfigError, GroupConfig, ManagerConfig, RoleConfig};

/// The settings of a process, of its roles and of its groups. This is what a configuration file
/// holds: a table `manager`, a table `roles.<name>` for each role, and a table `groups.<name>` for
/// each group.
///
/// An application can make it a table of its own configuration. `nats-elect check` and
/// `nats-elect doctor` read that file too, with `--table elect`.
///
/// ```
/// use nats_elect::ElectionsConfig;
///
/// #[derive(serde::Deserialize)]
/// struct AppConfig {
///     listen: String,
///     elect: ElectionsConfig,
/// }
///
/// let file = r#"
///     listen = "0.0.0.0:8080"
///
///     [elect.manager]
///     servers = ["nats://n1:4222", "nats://n2:4222"]
///
///     [elect.roles.scheduler]
///     ttl = "5s"
/// "#;
/// let app: AppConfig = toml::from_str(file)?;
/// assert_eq!(app.elect.roles["scheduler"].ttl.as_secs(), 5);
/// # let handler = nats_elect::handler_fn(|term| async move {
/// #     term.cancelled().await;
/// #     Ok(())
/// # });
///
/// let builder = nats_elect::RoleManager::builder()
///     .config(app.elect)
///     .with_env()
///     .configured_role("scheduler", handler);
/// # let _ = (builder, app.listen);
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ElectionsConfig {
    /// How the process takes part in elections.
    pub manager: ManagerConfig,

    /// The settings of each role, by the role's name.
    pub roles: BTreeMap<String, RoleConfig>,

    /// The settings of each group, by the group's name.
    pub groups: BTreeMap<String, GroupConfig>,
}

impl From<ManagerConfig> for ElectionsConfig {
    fn from(manager: ManagerConfig) -> Self {
        Self {
            manager,
            ..Self::default()
        }
    }
}

impl ElectionsConfig {
    /// Takes settings from the environment. They override those of this configuration. Settings
    /// that the environment does not have stay as they are.
    ///
    /// The name of a variable follows from the path of the setting in a file: `NATS_ELECT_`, then
    /// the path in upper case, with `__` in place of each dot and without `manager`. `roles.scheduler.meta.region` is
    /// `NATS_ELECT_ROLES__SCHEDULER__META__REGION`. In the name of a role or a group, `_` stands
    /// for `-`.
    /// [`ManagerConfig::with_env`] lists the shorter names of connection settings.
    ///
    /// Values are written as in a file, without quotation marks. Lists and tables are written as
    /// JSON. Variables of roles and groups that this configuration does not have are not read.
    ///
    /// # Errors
    ///
    /// Returns an error that names the variable if its value can't be read or breaks a rule, or if
    /// there is no such setting. A broken rule that is not due to the environment is no error here.
    pub fn with_env(self) -> Result<Self, ConfigError> {
        self.overridden(&Environment::read()).map(|(it, _)| it)
    }

    /// As [`with_env`](Self::with_env). It also returns the variable of each setting that comes from
    /// the environment, by the setting's path. For this project's command.
    #[doc(hidden)]
    pub fn with_env_settings(self) -> Result<(Self, BTreeMap<String, String>), ConfigError> {
        self.overridden(&Environment::read())
    }

    /// Returns the variables in the environment that are named as settings of roles or groups, but
    /// of none that this configuration has. For this project's command; a builder logs them.
    #[doc(hidden)]
    pub fn others_in_env(&self) -> Result<Vec<String>, ConfigError> {
        self.others_in(&Environment::read())
    }

    fn others_in(&self, environment: &Environment) -> Result<Vec<String>, ConfigError> {
        let mut others = environment.of_others::<RoleConfig>(&names(&self.roles))?;
        others.extend(environment.of_others::<GroupConfig>(&names(&self.groups))?);
        Ok(others)
    }

    pub(crate) fn overridden(
        mut self,
        environment: &Environment,
    ) -> Result<(Self, Origins), ConfigError> {
        self.others_in(environment)?;
        let (manager, mut settings) = self.manager.overridden(environment)?;
        self.manager = manager;
        settings.extend(all_overridden(&mut self.roles, environment)?);
        settings.extend(all_overridden(&mut self.groups, environment)?);
        Ok((self, settings))
    }
}

fn names<T>(tables: &BTreeMap<String, T>) -> Vec<&str> {
    tables.keys().map(String::as_str).collect()
}

fn all_overridden<T: TableOfName + Clone>(
    tables: &mut BTreeMap<String, T>,
    environment: &Environment,
) -> Result<Origins, ConfigError> {
    let mut settings = Origins::new();
    for (name, config) in tables {
        let (changed, origins) = table_overridden(name, config.clone(), environment)?;
        *config = changed;
        settings.extend(origins);
    }
    Ok(settings)
}

/// The settings of a role or a group with those of the environment.
pub(crate) fn table_overridden<T: TableOfName>(
    name: &str,
    config: T,
    environment: &Environment,
) -> Result<(T, Origins), ConfigError> {
    let (config, origins) = environment.over_table(name, config)?;
    let blamed = |error| blamed(error, &origins, &format!("{}s.{name}", T::OF));
    match config.check().err().and_then(blamed) {
        Some(error) => Err(error),
        None => Ok((config, origins)),
    }
}
