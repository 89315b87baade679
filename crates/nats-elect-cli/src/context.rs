//! Contexts of the `nats` command: files that say how to connect.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use nats_elect::{AuthConfig, ManagerConfig};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::exit::Failure;

/// A context file. What is not named here is about other things than the connection.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Context {
    url: String,
    user: String,
    password: String,
    token: String,
    creds: String,
    nkey: String,
    cert: String,
    key: String,
    ca: String,
    tls_first: bool,
    inbox_prefix: String,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Settings of a connection that can't be had here: passed over, they would lead elsewhere.
const UNKNOWN: [&str; 6] = [
    "nsc",
    "socks_proxy",
    "user_jwt",
    "jetstream_domain",
    "jetstream_api_prefix",
    "windows_cert_store",
];

/// The configuration of a named context.
pub fn named(name: &str) -> Result<ManagerConfig, Failure> {
    read(&folder()?, name)
}

/// The configuration of the context that `nats context select` selected, if any.
pub fn selected() -> Result<Option<ManagerConfig>, Failure> {
    let Ok(folder) = folder() else {
        return Ok(None);
    };
    let Ok(name) = fs::read_to_string(folder.join("context.txt")) else {
        return Ok(None);
    };
    match name.trim() {
        "" => Ok(None),
        name => read(&folder, name).map(Some),
    }
}

/// Where the `nats` command keeps its contexts.
fn folder() -> Result<PathBuf, Failure> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let configs = match set("XDG_CONFIG_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => home()
            .ok_or_else(|| {
                Failure::not_found("there is no home folder with contexts")
                    .advice("set HOME or XDG_CONFIG_HOME")
            })?
            .join(".config"),
    };
    Ok(configs.join("nats"))
}

fn home() -> Option<PathBuf> {
    env::home_dir().filter(|home| !home.as_os_str().is_empty())
}

fn read(folder: &Path, name: &str) -> Result<ManagerConfig, Failure> {
    if name.is_empty() || name.contains(['/', '\\']) || name.contains("..") {
        return Err(Failure::usage(format!(
            "{name:?} is not a valid context name"
        )));
    }
    let path = folder.join("context").join(format!("{name}.json"));
    let text = fs::read_to_string(&path).map_err(|error| {
        Failure::not_found(format!(
            "context {name:?} can't be read ({}: {error})",
            path.display()
        ))
        .advice(
            "`nats context ls` lists the contexts; `nats context unselect` clears the selection",
        )
    })?;
    // The error of serde_json quotes no values but at wrong types, and those may be secrets.
    let context: Context = serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!(
            "context {name:?} is not valid ({}, line {}, column {})",
            path.display(),
            error.line(),
            error.column()
        ))
        .advice("correct it with `nats context edit`")
    })?;
    context.config(name)
}

impl Context {
    fn config(self, name: &str) -> Result<ManagerConfig, Failure> {
        for field in UNKNOWN {
            if self
                .others
                .get(field)
                .is_some_and(|it| !it.is_null() && it != "")
            {
                return Err(Failure::usage(format!(
                    "context {name:?} sets `{field}`, which nats-elect does not know"
                ))
                .advice(match field {
                    "nsc" | "user_jwt" => "put the user's JWT and seed in a file, as `nsc generate creds` does, and set `creds` to it",
                    _ => "choose a context without it, or connect with --server and the other options",
                }));
            }
        }
        let mut config = ManagerConfig::default();
        let url = self.url.trim();
        if !url.is_empty() {
            config.servers = url.split(',').map(|url| url.trim().to_owned()).collect();
        }
        config.auth = self.auth();
        config.tls.ca_file = file(&self.ca);
        config.tls.cert_file = file(&self.cert);
        config.tls.key_file = file(&self.key);
        config.tls.first = self.tls_first;
        config.inbox_prefix = text(self.inbox_prefix);
        Ok(config)
    }

    fn auth(&self) -> AuthConfig {
        let mut auth = AuthConfig::default();
        auth.creds_file = file(&self.creds);
        auth.nkey_file = file(&self.nkey);
        auth.token = text(self.token.clone()).map(Into::into);
        // The `nats` command takes a user without a password for a token.
        match (text(self.user.clone()), text(self.password.clone())) {
            (Some(token), None) => auth.token = Some(token.into()),
            (user, password) => {
                auth.user = user;
                auth.password = password.map(Into::into);
            }
        }
        auth
    }
}

fn text(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn file(path: &str) -> Option<PathBuf> {
    match (path, path.strip_prefix("~/"), home()) {
        ("", ..) => None,
        (_, Some(rest), Some(home)) => Some(home.join(rest)),
        _ => Some(PathBuf::from(path)),
    }
}
