//! Connection options from the configuration. Every problem that can be seen without a server is
//! reported here, before anything connects.

use std::io;
use std::path::Path;
use std::sync::Arc;

use async_nats::rustls::pki_types::pem::PemObject;
use async_nats::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use async_nats::rustls::{ClientConfig, RootCertStore, crypto};
use async_nats::{ConnectOptions, ServerAddr};
use percent_encoding::percent_decode_str;

use super::identity::{Identity, read_anew};
use crate::model::config::{AuthConfig, ConfigError, HIDDEN, ManagerConfig, TlsConfig};

const SEED_RULE: &str = "must be the seed of a user's nkey: 58 characters that begin with SU, as `nk -gen user` writes it";
const CREDS_RULE: &str = "must hold a user's JWT and seed between their BEGIN and END lines, as `nsc generate creds` writes them";

/// Options, and the identity that they show to the servers, in words and without a secret.
type WithLogin = (ConnectOptions, Option<String>);

/// Adds the connection settings of the configuration to the options of the caller. It reads files,
/// so do not call it on a thread that must not block.
pub(super) fn options(
    given: Option<ConnectOptions>,
    config: &ManagerConfig,
    servers: &[ServerAddr],
) -> Result<WithLogin, ConfigError> {
    let (options, of_settings) = authenticated(given, &config.auth)?;
    let (options, of_address) = with_credentials_of(options, servers);
    let mut options = encrypted(options, &config.tls)?;
    if let Some(prefix) = &config.inbox_prefix {
        options = options.custom_inbox_prefix(prefix);
    }
    Ok((options, of_address.or(of_settings)))
}

/// Checks that none of these is set, because a client that was connected elsewhere ignores them.
/// The user who set one would expect it to work.
pub(super) fn nothing_said(config: &ManagerConfig) -> Result<(), ConfigError> {
    let said = if let Some(way) = config.auth.ways().first() {
        way
    } else if config.tls.is_required() {
        "tls"
    } else if config.inbox_prefix.is_some() {
        "inbox_prefix"
    } else {
        return Ok(());
    };
    Err(ConfigError::new(
        said,
        HIDDEN,
        "the given client is connected already: create that client with this setting, and remove it here",
    ))
}

fn authenticated(
    given: Option<ConnectOptions>,
    auth: &AuthConfig,
) -> Result<WithLogin, ConfigError> {
    let (identity, login, field, rule) = if let Some(nkey) = &auth.nkey {
        let identity = Identity::of_seed(nkey.expose());
        (identity, "the nkey", "auth.nkey", SEED_RULE)
    } else if let Some(creds) = &auth.creds {
        let identity = Identity::of_creds(creds.expose());
        (identity, "`auth.creds`", "auth.creds", CREDS_RULE)
    } else if let Some(path) = &auth.nkey_file {
        return with_file(given, path, of_nkey_file);
    } else if let Some(path) = &auth.creds_file {
        return with_file(given, path, of_creds_file);
    } else {
        let options = given.unwrap_or_default();
        return Ok(match (&auth.user, &auth.password, &auth.token) {
            (Some(user), Some(password), _) => with_password(options, user, password.expose()),
            (_, _, Some(token)) => with_token(options, token.expose()),
            _ => (options, None),
        });
    };
    let identity = identity.ok_or_else(|| ConfigError::new(field, HIDDEN, rule))?;
    Ok((
        identity.added_to(given.unwrap_or_default()),
        Some(login.into()),
    ))
}

fn with_file(
    given: Option<ConnectOptions>,
    path: &Path,
    read: fn(&Path) -> Result<Identity, ConfigError>,
) -> Result<WithLogin, ConfigError> {
    let identity = read(path)?;
    // The caller's options can't be changed to read a file.
    let options = match given {
        None => read_anew(path.to_owned(), read),
        Some(options) => identity.added_to(options),
    };
    Ok((options, Some(format!("the file \"{}\"", path.display()))))
}

fn of_nkey_file(path: &Path) -> Result<Identity, ConfigError> {
    let identity = Identity::of_seed(&read("auth.nkey_file", path)?);
    identity.ok_or_else(|| wrong("auth.nkey_file", path, SEED_RULE))
}

fn of_creds_file(path: &Path) -> Result<Identity, ConfigError> {
    let identity = Identity::of_creds(&read("auth.creds_file", path)?);
    identity.ok_or_else(|| wrong("auth.creds_file", path, CREDS_RULE))
}

fn encrypted(mut options: ConnectOptions, tls: &TlsConfig) -> Result<ConnectOptions, ConfigError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = &tls.ca_file {
        for certificate in certificates("tls.ca_file", path)? {
            roots.add(certificate).map_err(|error| {
                wrong(
                    "tls.ca_file",
                    path,
                    &format!("it can't be trusted: {error}"),
                )
            })?;
        }
        options = options.add_root_certificates(path.clone());
    }
    if let (Some(cert_file), Some(key_file)) = (&tls.cert_file, &tls.key_file) {
        let chain = certificates("tls.cert_file", cert_file)?;
        let key = read("tls.key_file", key_file)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| {
            wrong(
                "tls.key_file",
                key_file,
                "must hold a private key in PEM form, without a pass phrase",
            )
        })?;
        // Only check that they belong together. The client reads the files again for each
        // connection.
        let provider = Arc::new(crypto::ring::default_provider());
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                let builder = builder.with_root_certificates(roots);
                builder.with_client_auth_cert(chain, key)
            })
            .map_err(|error| {
                let rule =
                    format!("it does not match the certificate of `tls.cert_file` ({error})");
                wrong("tls.key_file", key_file, &rule)
            })?;
        options = options.add_client_certificate(cert_file.clone(), key_file.clone());
    }
    if tls.first {
        options = options.tls_first();
    }
    // Do not set `false`: the caller's options may require TLS.
    Ok(if tls.is_required() {
        options.require_tls(true)
    } else {
        options
    })
}

fn certificates(field: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let text = read(field, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let found = found.ok().filter(|found| !found.is_empty());
    found.ok_or_else(|| wrong(field, path, "must hold a certificate in PEM form"))
}

fn read(field: &str, path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|error| {
        let problem = match error.kind() {
            io::ErrorKind::InvalidData => "it is no text".to_owned(),
            _ => format!("it can't be read ({error})"),
        };
        wrong(
            field,
            path,
            &format!("{problem}: name a file that this process may read"),
        )
    })
}

fn wrong(field: &str, path: &Path, rule: &str) -> ConfigError {
    ConfigError::new(field, format!("\"{}\"", path.display()), rule)
}

/// Takes the login from the addresses, because async-nats ignores it there.
fn with_credentials_of(options: ConnectOptions, servers: &[ServerAddr]) -> WithLogin {
    let named = |server: &ServerAddr| {
        let password = server.password().map(percent_decoded);
        Some((percent_decoded(server.username()?), password))
    };
    match servers.iter().find_map(named) {
        None => (options, None),
        Some((user, Some(password))) => with_password(options, &user, &password),
        Some((token, None)) => with_token(options, &token),
    }
}

fn with_password(options: ConnectOptions, user: &str, password: &str) -> WithLogin {
    let options = options.user_and_password(user.to_owned(), password.to_owned());
    (options, Some(format!("user {user:?}")))
}

fn with_token(options: ConnectOptions, token: &str) -> WithLogin {
    (options.token(token.to_owned()), Some("the token".into()))
}

/// Returns the address without its login, because the client's logs show addresses.
pub(super) fn without_credentials(server: ServerAddr) -> ServerAddr {
    let mut url = server.clone().into_inner();
    // This fails for addresses that can't have a login.
    let (user, password) = (url.set_username(""), url.set_password(None));
    if user.is_err() || password.is_err() {
        return server;
    }
    ServerAddr::from_url(url).unwrap_or(server)
}

/// Decodes the escapes for characters that have a meaning in an address. Invalid escapes stay as
/// they are.
fn percent_decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_can_be_shown_without_its_login() {
        for (written, shown) in [
            ("nats://ada:s3cret@host:4223", "nats://host:4223"),
            ("tls://t0ken@host", "tls://host"),
            ("host:4222", "nats://host:4222"),
        ] {
            let address = without_credentials(written.parse().unwrap());
            assert_eq!(address.into_inner().as_str(), shown);
        }
    }

    #[test]
    fn the_login_of_an_address_is_unescaped() {
        for (written, meant) in [
            ("secret", "secret"),
            ("p%40ss%3aword", "p@ss:word"),
            ("100%", "100%"),
            ("%zz%+1%4", "%zz%+1%4"),
            ("gr%C3%BCn", "grün"),
        ] {
            assert_eq!(percent_decoded(written), meant, "{written}");
        }
    }
}
