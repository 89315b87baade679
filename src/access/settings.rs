//! The connection settings that every builder offers.

/// The methods of a builder that has its settings in `access`.
macro_rules! connection_settings {
    () => {
        /// Takes settings from the environment: `NATS_URL`, `NATS_CREDS` and the others that
        /// [`ManagerConfig::with_env`](crate::ManagerConfig::with_env) describes, and for a manager
        /// those of its roles, as
        /// [`ElectionsConfig::with_env`](crate::ElectionsConfig::with_env) describes. The settings
        /// of roles are overridden wherever this call stands. Without this call the environment is
        /// not read.
        pub fn with_env(mut self) -> Self {
            self.access.take_environment();
            self
        }

        /// Sets the address of NATS: one URL, or several separated by commas. Default:
        /// `nats://127.0.0.1:4222`.
        pub fn servers(mut self, servers: impl AsRef<str>) -> Self {
            self.access.config = self.access.config.servers(servers);
            self
        }

        /// Sets the connection options. Every option of async-nats is allowed. Credentials, TLS and
        /// the inbox prefix that other methods here or the configuration set are added to them.
        ///
        /// This crate sets the connection's name, its ping interval (2 s), its connection timeout
        /// (2 s), its reconnect delay and its event callback. The connection never gives up
        /// reconnecting. The values of `options` for these settings are not used.
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
            self.access.auth = self.access.auth.user_and_password(user, password);
            self
        }

        /// Authenticates with a token.
        pub fn token(mut self, token: impl Into<$crate::Secret>) -> Self {
            self.access.auth = self.access.auth.token(token);
            self
        }

        /// Authenticates with an nkey. The argument is the user's seed, which begins with `SU`.
        pub fn nkey(mut self, seed: impl Into<$crate::Secret>) -> Self {
            self.access.auth = self.access.auth.nkey(seed);
            self
        }

        /// Authenticates with an nkey whose seed is in this file.
        ///
        /// `start` checks that the file can be used. The file is read again for each connection.
        /// With [`connect_options`](Self::connect_options) it is read once.
        pub fn nkey_file(mut self, path: impl Into<std::path::PathBuf>) -> Self {
            self.access.auth = self.access.auth.nkey_file(path);
            self
        }

        /// Authenticates with a JWT and its seed, in the form of a `.creds` file.
        pub fn creds(mut self, content: impl Into<$crate::Secret>) -> Self {
            self.access.auth = self.access.auth.creds(content);
            self
        }

        /// Authenticates with the JWT and seed of a `.creds` file.
        ///
        /// `start` checks that the file can be used. The file is read again for each connection, so
        /// that you can replace it before its JWT ends. With
        /// [`connect_options`](Self::connect_options) it is read once.
        pub fn creds_file(mut self, path: impl Into<std::path::PathBuf>) -> Self {
            self.access.auth = self.access.auth.creds_file(path);
            self
        }

        /// Trusts the certificate authorities of this PEM file, instead of those of the system.
        /// Requires TLS.
        ///
        /// `start` checks that the file can be used. The file is read again for each connection.
        pub fn ca_file(mut self, path: impl Into<std::path::PathBuf>) -> Self {
            self.access.config.tls = self.access.config.tls.ca_file(path);
            self
        }

        /// Presents this certificate (and its chain) to the server, with this private key. Both are
        /// PEM files. Requires TLS.
        ///
        /// `start` checks that the files can be used. The files are read again for each connection.
        pub fn client_certificate(
            mut self,
            cert_file: impl Into<std::path::PathBuf>,
            key_file: impl Into<std::path::PathBuf>,
        ) -> Self {
            let tls = self.access.config.tls;
            self.access.config.tls = tls.client_certificate(cert_file, key_file);
            self
        }

        /// Never connects without TLS. Default: as the servers require, or their addresses
        /// (`tls://`).
        pub fn require_tls(mut self) -> Self {
            self.access.config.tls = self.access.config.tls.require();
            self
        }

        /// Encrypts before the server's greeting, for servers that are set to `handshake_first`.
        /// Requires TLS.
        pub fn tls_first(mut self) -> Self {
            self.access.config.tls = self.access.config.tls.first();
            self
        }

        /// Sets the prefix of reply subjects, if the user may not subscribe to `_INBOX.>`. Default:
        /// `_INBOX`.
        pub fn inbox_prefix(mut self, prefix: impl Into<String>) -> Self {
            self.access.config = self.access.config.inbox_prefix(prefix);
            self
        }

        /// Sets the Key-Value bucket in which the instances meet. Default: `leaders`.
        pub fn bucket(mut self, bucket: impl Into<String>) -> Self {
            self.access.config = self.access.config.bucket(bucket);
            self
        }

        /// Sets how long `start` tries to reach NATS and its bucket. Default: 30 s.
        pub fn start_timeout(mut self, start_timeout: std::time::Duration) -> Self {
            self.access.config = self.access.config.start_timeout(start_timeout);
            self
        }
    };
}

pub(crate) use connection_settings;
