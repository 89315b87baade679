//! The settings of a process from the environment. Those of the connection have the names that NATS
//! tools use, too.

use super::overrides::{Environment, Origins, blamed};
use super::{AuthConfig, ConfigError, ManagerConfig};

impl ManagerConfig {
    /// Takes settings from the environment. They override those of this configuration. Settings
    /// that the environment does not have stay as they are.
    ///
    /// The name of a variable follows from the path of the setting: `NATS_ELECT_`, then the path in
    /// upper case, with `__` in place of each dot. `bucket` is `NATS_ELECT_BUCKET`, and `events.keep`
    /// is `NATS_ELECT_EVENTS__KEEP`. The command has the same variables. Values are written as in a file, without quotation marks;
    /// `servers` may be several addresses separated by commas.
    ///
    /// The connection has shorter names as well, those of the `nats` command. The longer names
    /// override them:
    ///
    /// - `NATS_URL`: one address, or several separated by commas.
    /// - `NATS_USER`, `NATS_PASSWORD` and `NATS_TOKEN`.
    /// - `NATS_NKEY`: a file with a seed.
    /// - `NATS_CREDS`: a file.
    /// - `NATS_CA`, `NATS_CERT` and `NATS_KEY`: files.
    /// - `NATS_TLS_FIRST`: `true` or `false`.
    ///
    /// An empty variable counts as unset. If any variable sets an authentication method, the whole
    /// of [`auth`](Self::auth) is replaced, so that no half of a login is left over.
    ///
    /// # Errors
    ///
    /// Returns an error that names the variable if its value can't be read or breaks a rule, or if
    /// there is no such setting. [`validate`](Self::validate) checks the rest, as always.
    pub fn with_env(self) -> Result<Self, ConfigError> {
        self.overridden(&Environment::read()).map(|(it, _)| it)
    }

    pub(crate) fn overridden(
        mut self,
        environment: &Environment,
    ) -> Result<(Self, Origins), ConfigError> {
        if environment.sets_auth() {
            self.auth = AuthConfig::default();
        }
        let (config, origins) = environment.over_manager(self)?;
        let blamed = |error| blamed(error, &origins, "manager");
        match config.validate().err().and_then(blamed) {
            Some(error) => Err(error),
            None => Ok((config, origins)),
        }
    }
}

/// Splits addresses that are separated by commas.
pub(crate) fn listed(servers: &str) -> Vec<String> {
    servers
        .split(',')
        .map(|server| server.trim().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(config: ManagerConfig, set: &[(&str, &str)]) -> Result<ManagerConfig, ConfigError> {
        let environment = set.iter().copied().collect();
        config.overridden(&environment).map(|(config, _)| config)
    }

    #[test]
    fn empty_variables_change_nothing() {
        let mut config = ManagerConfig::default();
        config.auth.token = Some("t".into());
        config.tls.first = true;
        let empty = ["NATS_URL", "NATS_USER", "NATS_TOKEN", "NATS_CA"].map(|name| (name, ""));
        assert_eq!(with(config.clone(), &empty), Ok(config));
    }

    #[test]
    fn each_variable_sets_its_field() {
        let config = with(
            ManagerConfig::default(),
            &[
                ("NATS_URL", "nats://a, tls://b:4223"),
                ("NATS_NKEY", "/seed"),
                ("NATS_CA", "/ca"),
                ("NATS_CERT", "/cert"),
                ("NATS_KEY", "/key"),
                ("NATS_TLS_FIRST", "true"),
            ],
        )
        .unwrap();
        assert_eq!(config.servers, ["nats://a", "tls://b:4223"]);
        assert_eq!(config.auth.nkey_file, Some("/seed".into()));
        assert_eq!(config.tls.ca_file, Some("/ca".into()));
        assert_eq!(config.tls.cert_file, Some("/cert".into()));
        assert_eq!(config.tls.key_file, Some("/key".into()));
        assert!(config.tls.first);
        assert_eq!(config.validate(), Ok(()));
        let auth = |set: &[(&str, &str)]| with(ManagerConfig::default(), set).unwrap().auth;
        let login = auth(&[("NATS_USER", "ada"), ("NATS_PASSWORD", "p")]);
        assert_eq!(login.user.as_deref(), Some("ada"));
        assert_eq!(login.password, Some("p".into()));
        assert_eq!(auth(&[("NATS_TOKEN", "t")]).token, Some("t".into()));
        let creds = auth(&[("NATS_CREDS", "/creds")]).creds_file;
        assert_eq!(creds, Some("/creds".into()));
    }

    #[test]
    fn the_environment_overrides_the_file_and_replaces_its_whole_login() {
        let mut file = ManagerConfig::default();
        file.auth.user = Some("of the file".into());
        file.auth.password = Some("p".into());
        file.tls.ca_file = Some("/ca".into());
        let config = with(file, &[("NATS_CREDS", "/creds")]).unwrap();
        assert_eq!(config.validate(), Ok(()));
        assert_eq!(config.auth.user, None);
        assert_eq!(config.tls.ca_file, Some("/ca".into()));
        let config = with(config, &[("NATS_URL", "nats://me:p@a")]).unwrap();
        assert!(config.auth.is_empty(), "the address says who connects");
        assert_eq!(config.validate(), Ok(()));
    }

    #[test]
    fn an_unreadable_value_is_reported_by_the_name_of_its_variable() {
        let error = with(ManagerConfig::default(), &[("NATS_TLS_FIRST", "perhaps")]).unwrap_err();
        assert_eq!(error.field, "NATS_TLS_FIRST");
        assert!(error.to_string().contains("perhaps"), "{error}");
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStringExt;
            for name in ["NATS_PASSWORD", "NATS_ELECT_AUTH__PASSWORD"] {
                let value = std::ffi::OsString::from_vec(b"s3cret\xff".to_vec());
                let environment = Environment::from_iter([(name, value)]);
                let error = ManagerConfig::default()
                    .overridden(&environment)
                    .unwrap_err();
                assert_eq!(error.field, name);
                assert!(!error.to_string().contains("s3cret"), "{error}");
            }
        }
    }

    #[test]
    fn two_authentication_methods_in_the_environment_are_an_error() {
        let both = [("NATS_TOKEN", "t"), ("NATS_CREDS", "/creds")];
        let error = with(ManagerConfig::default(), &both).unwrap_err();
        assert_eq!(error.field, "NATS_CREDS");
    }
}
