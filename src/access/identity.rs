//! Authentication by signing data that the server sends: with an nkey, or with a JWT and the key
//! that it is for.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_nats::{Auth, AuthError, ConnectOptions};
use nkeys::{KeyPair, KeyPairType};

use crate::clock;
use crate::lock::lock;
use crate::model::config::ConfigError;
use crate::repeated::Repeated;

/// A user's key, and the operator's JWT for it.
pub(super) struct Identity {
    jwt: Option<String>,
    seed: String,
    key: KeyPair,
}

impl Identity {
    /// Reads a user's seed, alone or on a line of its own.
    pub fn of_seed(text: &str) -> Option<Self> {
        let seed = text
            .lines()
            .map(str::trim)
            .find(|it| it.starts_with("SU"))?;
        let key = KeyPair::from_seed(seed).ok()?;
        matches!(key.key_pair_type(), KeyPairType::User).then(|| Self {
            jwt: None,
            seed: seed.to_owned(),
            key,
        })
    }

    /// Reads the content of a `.creds` file. It has a JWT between the first BEGIN and END, and a
    /// seed between the next.
    pub fn of_creds(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(str::trim).filter(|it| !it.is_empty());
        let mut next = || {
            lines.find(|line| line.starts_with("---") && line.contains("BEGIN"))?;
            lines.next()
        };
        let (jwt, seed) = (next()?, next()?);
        let is_jwt = jwt.split('.').count() == 3 && jwt.split('.').all(|part| !part.is_empty());
        let identity = Self::of_seed(seed).filter(|_| is_jwt)?;
        Some(Self {
            jwt: Some(jwt.to_owned()),
            ..identity
        })
    }

    /// Adds the proof of this identity to the options.
    pub fn added_to(self, options: ConnectOptions) -> ConnectOptions {
        let Self { jwt, seed, key } = self;
        match jwt {
            None => options.nkey(seed),
            Some(jwt) => options.jwt(jwt, move |nonce| {
                let signed = key.sign(&nonce).map_err(AuthError::new);
                std::future::ready(signed)
            }),
        }
    }

    fn answer(&self, nonce: &[u8]) -> Result<Auth, AuthError> {
        let mut auth = Auth::new();
        auth.signature = Some(self.key.sign(nonce).map_err(AuthError::new)?);
        match &self.jwt {
            Some(jwt) => auth.jwt = Some(jwt.clone()),
            None => auth.nkey = Some(self.key.public_key()),
        }
        Ok(auth)
    }
}

/// Returns options that read the identity from its file at each connection. Short-lived identities
/// are replaced there meanwhile. A file that can't be used is logged, because the client does not pass
/// the reason on.
pub(super) fn read_anew(
    path: PathBuf,
    read: fn(&Path) -> Result<Identity, ConfigError>,
) -> ConnectOptions {
    let logged = Arc::new(Mutex::new(Repeated::default()));
    ConnectOptions::with_auth_callback(move |nonce| {
        let (path, logged) = (path.clone(), Arc::clone(&logged));
        async move {
            let reading = tokio::task::spawn_blocking(move || read(&path));
            match reading.await.map_err(AuthError::new)? {
                Ok(identity) => {
                    lock(&logged).clear();
                    identity.answer(&nonce)
                }
                Err(error) => {
                    if lock(&logged)
                        .is_due(&error.to_string(), clock::now())
                        .is_some()
                    {
                        tracing::error!(%error, "no credentials for a connection to NATS");
                    }
                    Err(AuthError::new(error))
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_users_seed_is_found_among_other_lines() {
        let seed = KeyPair::new_user().seed().unwrap();
        let found = Identity::of_seed(&format!("# mine\n  {seed}\r\n")).unwrap();
        assert_eq!(found.seed, seed);
        let accounts = KeyPair::new_account().seed().unwrap();
        for bad in ["", "SU", &accounts, &seed[1..], &seed.to_lowercase()] {
            assert!(Identity::of_seed(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_creds_file_holds_a_jwt_and_then_a_seed() {
        let seed = KeyPair::new_user().seed().unwrap();
        let creds = |jwt: &str, seed: &str| {
            format!(
                "-----BEGIN NATS USER JWT-----\r\n{jwt}\r\n------END NATS USER JWT------\r\n\r\n*** IMPORTANT ***\r\n\
                 -----BEGIN USER NKEY SEED-----\r\n{seed}\r\n------END USER NKEY SEED------"
            )
        };
        let found = Identity::of_creds(&creds("a.b.c", &seed)).unwrap();
        assert_eq!(found.jwt.as_deref(), Some("a.b.c"));
        assert_eq!(found.seed, seed);
        for bad in [
            creds("a.b.c", ""),
            creds("", &seed),
            creds("a.b", &seed),
            creds("a..c", &seed),
            creds(&seed, "a.b.c"),
            seed,
            String::new(),
        ] {
            assert!(Identity::of_creds(&bad).is_none(), "{bad}");
        }
    }
}
