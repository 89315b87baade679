//! Authentication and encryption of the connection to NATS.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ConfigError, Secret};
use nats_elect_core::config::ensure;
use nats_elect_core::setters;

/// The replacement for a hidden value in an error.
pub(crate) const HIDDEN: &str = "***";

/// How to authenticate. Set one method, or none. Default: none.
///
/// The methods are `user` with `password`; `token`; `nkey` or `nkey_file`; `creds` or `creds_file`.
/// Files are read again for each connection. If the program made its own connection options, files
/// are read once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AuthConfig {
    /// The user's name. Needs `password`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,

    /// The user's password. Needs `user`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,

    /// A token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,

    /// The seed of a user's nkey. It begins with `SU`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nkey: Option<Secret>,

    /// A file with such a seed, alone or as `nk` and `nsc` write it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nkey_file: Option<PathBuf>,

    /// The content of a `.creds` file: a user's JWT, and the seed that goes with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creds: Option<Secret>,

    /// A `.creds` file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creds_file: Option<PathBuf>,
}

/// How the connection is encrypted. Default: as each server's address and the server require.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TlsConfig {
    /// A PEM file with the certificates of the authorities to trust, instead of those of the
    /// system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,

    /// A PEM file with this client's certificate and its chain, for servers that ask for one. Needs
    /// `key_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_file: Option<PathBuf>,

    /// A PEM file with the certificate's private key. Needs `cert_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,

    /// Encrypt before the server's greeting, not after it. Default false. Needs a server that is
    /// set to `handshake_first`.
    pub first: bool,

    /// Never connect without TLS. Default false. Any other setting here requires TLS as well.
    pub required: bool,
}

setters!(AuthConfig {
    token: impl Into<Secret> => Some(token.into());
    nkey: impl Into<Secret> => Some(nkey.into());
    nkey_file: impl Into<PathBuf> => Some(nkey_file.into());
    creds: impl Into<Secret> => Some(creds.into());
    creds_file: impl Into<PathBuf> => Some(creds_file.into());
});

impl AuthConfig {
    /// Sets [`user`](field@Self::user) and [`password`](field@Self::password).
    #[must_use]
    pub fn user_and_password(
        mut self,
        user: impl Into<String>,
        password: impl Into<Secret>,
    ) -> Self {
        self.user = Some(user.into());
        self.password = Some(password.into());
        self
    }

    /// Returns whether no authentication is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the fields that are set, one for each authentication method.
    pub(crate) fn ways(&self) -> Vec<&'static str> {
        let ways = [
            ("auth.user", self.user.is_some() || self.password.is_some()),
            ("auth.token", self.token.is_some()),
            ("auth.nkey", self.nkey.is_some()),
            ("auth.nkey_file", self.nkey_file.is_some()),
            ("auth.creds", self.creds.is_some()),
            ("auth.creds_file", self.creds_file.is_some()),
        ];
        let set = ways.into_iter().filter(|(_, is_set)| *is_set);
        set.map(|(field, _)| field).collect()
    }

    /// Checks that at most one method is set, and that it is complete. Files and keys are checked
    /// when the manager starts.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if let [first, second, ..] = self.ways()[..] {
            return Err(ConfigError::new(
                second,
                HIDDEN,
                format!("`{first}` is set too: set one way to authenticate and remove the others"),
            ));
        }
        match (&self.user, &self.password) {
            (Some(user), None) => Err(ConfigError::new(
                "auth.user",
                format!("{user:?}"),
                "there is no `auth.password`: set it, or put a token in `auth.token`",
            )),
            (None, Some(_)) => Err(ConfigError::new(
                "auth.password",
                HIDDEN,
                "there is no `auth.user`: set it, or put a token in `auth.token`",
            )),
            _ => Ok(()),
        }
    }
}

setters!(TlsConfig {
    ca_file: impl Into<PathBuf> => Some(ca_file.into());
});

impl TlsConfig {
    /// Sets [`cert_file`](field@Self::cert_file) and [`key_file`](field@Self::key_file).
    #[must_use]
    pub fn client_certificate(
        mut self,
        cert_file: impl Into<PathBuf>,
        key_file: impl Into<PathBuf>,
    ) -> Self {
        self.cert_file = Some(cert_file.into());
        self.key_file = Some(key_file.into());
        self
    }

    /// Sets [`required`](field@Self::required): no connection is made without TLS.
    #[must_use]
    pub const fn require(mut self) -> Self {
        self.required = true;
        self
    }

    /// Sets [`first`](field@Self::first): encryption begins before the server's greeting.
    #[must_use]
    pub const fn first(mut self) -> Self {
        self.first = true;
        self
    }

    /// Returns whether connections without TLS are forbidden.
    pub(crate) fn is_required(&self) -> bool {
        *self != Self::default()
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        match (&self.cert_file, &self.key_file) {
            (Some(cert), None) => Err(ConfigError::new(
                "tls.cert_file",
                format!("\"{}\"", cert.display()),
                "there is no `tls.key_file`: name the certificate's private key",
            )),
            (None, Some(key)) => Err(ConfigError::new(
                "tls.key_file",
                format!("\"{}\"", key.display()),
                "there is no `tls.cert_file`: name the certificate that goes with the key",
            )),
            _ => Ok(()),
        }
    }
}

/// Checks the prefix of reply subjects.
pub(super) fn validate_inbox_prefix(prefix: &str) -> Result<(), ConfigError> {
    let plain = |token: &str| {
        let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '*' | '>');
        !token.is_empty() && !token.contains(odd)
    };
    ensure(
        prefix.split('.').all(plain) && prefix.len() <= 255,
        "inbox_prefix",
        format_args!("{:?}", nats_elect_core::text::beginning(prefix)),
        "must be a subject without wildcards and without a dot at its end, of at most 255 bytes, like _INBOX_elect",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(auth: &AuthConfig, field: &str, rule: &str) {
        let error = auth.validate().unwrap_err();
        assert_eq!(error.field, field);
        assert!(error.rule.contains(rule), "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }

    #[test]
    fn exactly_one_authentication_method_may_be_set() {
        let mut auth = AuthConfig::default();
        assert_eq!(auth.validate(), Ok(()));
        auth.token = Some("s3cret".into());
        assert_eq!(auth.validate(), Ok(()));
        auth.user = Some("ada".into());
        auth.password = Some("s3cret".into());
        refused(&auth, "auth.token", "`auth.user` is set too");
        auth.token = None;
        assert_eq!(auth.validate(), Ok(()));
        auth.creds_file = Some("/c".into());
        refused(&auth, "auth.creds_file", "`auth.user` is set too");
    }

    #[test]
    fn half_a_login_is_an_error() {
        let mut auth = AuthConfig {
            user: Some("ada".into()),
            ..AuthConfig::default()
        };
        refused(&auth, "auth.user", "there is no `auth.password`");
        auth.user = None;
        auth.password = Some("s3cret".into());
        refused(&auth, "auth.password", "there is no `auth.user`");
    }

    #[test]
    fn a_certificate_needs_its_key_and_a_key_needs_its_certificate() {
        let mut tls = TlsConfig::default();
        assert!(!tls.is_required());
        tls.cert_file = Some("/cert".into());
        assert_eq!(tls.validate().unwrap_err().field, "tls.cert_file");
        tls.key_file = Some("/key".into());
        assert_eq!(tls.validate(), Ok(()));
        assert!(tls.is_required());
        tls.cert_file = None;
        assert_eq!(tls.validate().unwrap_err().field, "tls.key_file");
    }

    #[test]
    fn an_inbox_prefix_is_a_plain_subject() {
        for good in ["_INBOX", "_INBOX.elect", "a.b.c"] {
            assert_eq!(validate_inbox_prefix(good), Ok(()), "{good}");
        }
        for bad in ["", ".", "a.", ".a", "a..b", "a.*", "_INBOX.>", "a b", "a\n"] {
            let error = validate_inbox_prefix(bad).unwrap_err();
            assert_eq!(error.field, "inbox_prefix", "{bad:?}");
        }
    }

    #[test]
    fn secrets_in_a_file_are_read_and_not_shown() {
        let auth: AuthConfig =
            toml::from_str("user = 'ada'\npassword = 's3cret'").expect("valid TOML");
        let password = auth.password.as_ref().expect("a password");
        assert_eq!(password.expose(), "s3cret");
        let shown = format!("{auth:?}");
        assert!(
            shown.contains("ada") && !shown.contains("s3cret"),
            "{shown}"
        );
        let text = toml::to_string(&auth).unwrap();
        assert_eq!(toml::from_str::<AuthConfig>(&text).unwrap(), auth);
    }
}
