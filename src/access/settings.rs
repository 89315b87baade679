//! What every builder here offers to say of its connection.

/// The methods of a builder that has its settings in `access`.
macro_rules! connection_settings {
    () => {
        /// Takes from the environment how to connect: `NATS_URL`, `NATS_CREDS` and the others that
        /// [`ManagerConfig::with_env`](crate::ManagerConfig::with_env) names. Without this call the environment is not looked at.
        pub fn with_env(mut self) -> Self {
            match self.access.config.clone().with_env() {
                Ok(config) => self.access.config = config,
                Err(error) => self.access.unreadable = self.access.unreadable.or(Some(error)),
            }
            self
        }

        /// Where NATS is: one URL, or several separated by commas. Default: `nats://127.0.0.1:4222`.
        pub fn servers(mut self, servers: impl AsRef<str>) -> Self {
            self.access.config.servers = $crate::model::config::listed(servers.as_ref());
            self
        }

        /// How to connect: whatever async-nats offers. Credentials, TLS and the inbox prefix that are set by other methods here
        /// or by the configuration are added to it.
        ///
        /// The connection's name, its ping interval (2 s), its connection timeout (2 s), its reconnect delay and its event
        /// callback are set here, and it never gives up reconnecting; what `options` say of these is not used.
        pub fn connect_options(mut self, options: ::async_nats::ConnectOptions) -> Self {
            self.access.options = Some(options);
            self
        }

        /// Authenticates with a user's name and password.
        pub fn user_and_password(
            mut self,
            user: impl Into<String>,
            password: impl Into<$crate::Secret>,
        ) -> Self {
            self.access.auth.user = Some(user.into());
            self.access.auth.password = Some(password.into());
            self
        }

        /// Authenticates with a token.
        pub fn token(mut self, token: impl Into<$crate::Secret>) -> Self {
            self.access.auth.token = Some(token.into());
            self
        }

        /// Authenticates with an nkey: the user's seed, which begins with `SU`.
        pub fn nkey(mut self, seed: impl Into<$crate::Secret>) -> Self {
            self.access.auth.nkey = Some(seed.into());
            self
        }

        /// Authenticates with an nkey whose seed is in this file.
        ///
        /// `start` looks whether it can be used; it is read anew for each connection, but for
        /// [`connect_options`](Self::connect_options): then once.
        pub fn nkey_file(mut self, path: impl Into<std::path::PathBuf>) -> Self {
            self.access.auth.nkey_file = Some(path.into());
            self
        }

        /// Authenticates with a JWT and its seed, in the form of a `.creds` file.
        pub fn creds(mut self, content: impl Into<$crate::Secret>) -> Self {
            self.access.auth.creds = Some(content.into());
            self
        }

        /// Authenticates with the JWT and seed of a `.creds` file.
        ///
        /// `start` looks whether it can be used; it is read anew for each connection, so that it can be replaced before its JWT
        /// ends. With [`connect_options`](Self::connect_options) it is read once.
        pub fn creds_file(mut self, path: impl Into<std::path::PathBuf>) -> Self {
            self.access.auth.creds_file = Some(path.into());
            self
        }

        /// Trusts the certificate authorities of this PEM file, instead of those of the system. Asks for TLS.
        ///
        /// `start` looks whether it can be used; it is read anew for each connection.
        pub fn ca_file(mut self, path: impl Into<std::path::PathBuf>) -> Self {
            self.access.config.tls.ca_file = Some(path.into());
            self
        }

        /// Shows the server this certificate (and its chain), with this private key: PEM files. Asks for TLS.
        ///
        /// `start` looks whether they can be used; they are read anew for each connection.
        pub fn client_certificate(
            mut self,
            cert_file: impl Into<std::path::PathBuf>,
            key_file: impl Into<std::path::PathBuf>,
        ) -> Self {
            self.access.config.tls.cert_file = Some(cert_file.into());
            self.access.config.tls.key_file = Some(key_file.into());
            self
        }

        /// Never connects without TLS. Default: as the servers say, or their addresses (`tls://`).
        pub fn require_tls(mut self) -> Self {
            self.access.config.tls.required = true;
            self
        }

        /// Encrypts before the server's greeting, for servers that are set to `handshake_first`. Asks for TLS.
        pub fn tls_first(mut self) -> Self {
            self.access.config.tls.first = true;
            self
        }

        /// What reply subjects begin with, where the user may not subscribe to `_INBOX.>`. Default: `_INBOX`.
        pub fn inbox_prefix(mut self, prefix: impl Into<String>) -> Self {
            self.access.config.inbox_prefix = Some(prefix.into());
            self
        }

        /// The Key-Value bucket in which the instances meet. Default: `leaders`.
        pub fn bucket(mut self, bucket: impl Into<String>) -> Self {
            self.access.config.bucket = bucket.into();
            self
        }

        /// How long `start` tries to reach NATS and its bucket. Default: 30 s.
        pub fn start_timeout(mut self, start_timeout: std::time::Duration) -> Self {
            self.access.config.start_timeout = start_timeout;
            self
        }
    };
}

pub(crate) use connection_settings;
