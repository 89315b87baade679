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
        /// the inbox prefix of the configuration are added to them; their files are read once then.
        ///
        /// This crate sets the connection's name, its ping interval (2 s), its connection timeout
        /// (2 s), its reconnect delay and its event callback. The connection never gives up
        /// reconnecting. The values of `options` for these settings are not used.
        pub fn connect_options(mut self, options: ::async_nats::ConnectOptions) -> Self {
            self.access.options = Some(options);
            self
        }

        /// Sets how to authenticate, instead of what was set before.
        pub fn auth(mut self, auth: $crate::AuthConfig) -> Self {
            self.access.config.auth = auth;
            self
        }

        /// Sets how the connection is encrypted. Default: as the servers require, or their addresses
        /// (`tls://`).
        pub fn tls(mut self, tls: $crate::TlsConfig) -> Self {
            self.access.config.tls = tls;
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
