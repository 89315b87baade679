//! Connection settings from the environment, under the names that NATS tools use.

use std::ffi::OsString;
use std::path::PathBuf;

use super::manager::names_a_user;
use super::{AuthConfig, ConfigError, ManagerConfig, Secret};

impl ManagerConfig {
    /// Returns the defaults, with the connection settings of the environment: see
    /// [`with_env`](Self::with_env).
    ///
    /// # Errors
    ///
    /// The same as `with_env`.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::default().with_env()
    }

    /// Takes the connection settings from the environment. They override those of this
    /// configuration. Settings that the environment does not have stay as they are.
    ///
    /// The names are those of the `nats` command:
    ///
    /// - `NATS_URL`: one address, or several separated by commas.
    /// - `NATS_USER`, `NATS_PASSWORD` and `NATS_TOKEN`.
    /// - `NATS_NKEY`: a file with a seed.
    /// - `NATS_CREDS`: a file.
    /// - `NATS_CA`, `NATS_CERT` and `NATS_KEY`: files.
    /// - `NATS_TLS_FIRST`: `true` or `false`.
    ///
    /// An empty variable counts as unset. If any variable sets an authentication method, the whole
    /// of [`auth`](Self::auth) is replaced, so that no half of a login is left over. No other
    /// variables are read.
    ///
    /// # Errors
    ///
    /// Returns an error that names the variable if its value can't be read. This method does not
    /// check whether the settings fit together. [`validate`](Self::validate) checks that, as
    /// always.
    pub fn with_env(self) -> Result<Self, ConfigError> {
        self.with_variables(|name| std::env::var_os(name))
    }

    fn with_variables(
        mut self,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, ConfigError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| {
            let value = set(name).map(OsString::into_string).transpose();
            // The value may be a secret, so it is not shown.
            value.map_err(|_| ConfigError::new(name, "not UTF-8", "must be text in UTF-8"))
        };
        let file = |name: &str| set(name).map(PathBuf::from);

        let mut says_who = false;
        if let Some(servers) = text("NATS_URL")? {
            self.servers = listed(&servers);
            says_who = self.servers.iter().any(|server| names_a_user(server));
        }
        let auth = AuthConfig {
            user: text("NATS_USER")?,
            password: text("NATS_PASSWORD")?.map(Secret::from),
            token: text("NATS_TOKEN")?.map(Secret::from),
            nkey_file: file("NATS_NKEY"),
            creds_file: file("NATS_CREDS"),
            ..AuthConfig::default()
        };
        if says_who || !auth.is_empty() {
            self.auth = auth;
        }
        let tls = &mut self.tls;
        tls.ca_file = file("NATS_CA").or(tls.ca_file.take());
        tls.cert_file = file("NATS_CERT").or(tls.cert_file.take());
        tls.key_file = file("NATS_KEY").or(tls.key_file.take());
        if let Some(first) = text("NATS_TLS_FIRST")? {
            tls.first = match first.to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => true,
                "false" | "0" | "no" | "off" => false,
                _ => {
                    return Err(ConfigError::new(
                        "NATS_TLS_FIRST",
                        format!("{:?}", nats_elect_core::text::beginning(&first)),
                        "must be true or false",
                    ));
                }
            };
        }
        Ok(self)
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
        config.with_variables(|name| {
            let found = set.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| OsString::from(value))
        })
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
                ("NATS_TLS_FIRST", "TRUE"),
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
            let read = ManagerConfig::default().with_variables(|name| {
                (name == "NATS_PASSWORD").then(|| OsString::from_vec(b"s3cret\xff".to_vec()))
            });
            let error = read.unwrap_err();
            assert_eq!(error.field, "NATS_PASSWORD");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn two_authentication_methods_in_the_environment_are_an_error() {
        let both = [("NATS_TOKEN", "t"), ("NATS_CREDS", "/creds")];
        let error = with(ManagerConfig::default(), &both).unwrap();
        assert_eq!(error.validate().unwrap_err().field, "auth.creds_file");
    }
}
