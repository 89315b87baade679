//! The methods of a builder for the settings that it keeps in `access`.

/// Gives a builder, in its `impl`, a method for each setting that is listed, with its text: it calls
/// that of [`ManagerConfig`](crate::ManagerConfig) of the same name. `connection` stands for those of
/// the connection, which every builder offers.
macro_rules! config_setters {
    (connection) => {
        /// Takes settings from the environment: `NATS_URL`, `NATS_CREDS` and the others that
        /// [`ManagerConfig::with_env`](crate::ManagerConfig::with_env) describes, and for a manager
        /// those of its roles and groups, as
        /// [`ElectionsConfig::with_env`](crate::ElectionsConfig::with_env) describes. The settings
        /// of roles and groups are overridden wherever this call stands. Without this call the
        /// environment is not read.
        pub fn with_env(mut self) -> Self {
            self.access.take_environment();
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

        $crate::access::config_setters! {
            /// Sets the address of NATS: one URL, or several separated by commas. Default:
            /// `nats://127.0.0.1:4222`.
            servers(servers: impl AsRef<str>);

            /// Sets how to authenticate, instead of what was set before.
            auth(auth: $crate::AuthConfig);

            /// Sets how the connection is encrypted. Default: as the servers require, or their
            /// addresses (`tls://`).
            tls(tls: $crate::TlsConfig);

            /// Sets the prefix of reply subjects, if the user may not subscribe to `_INBOX.>`.
            /// Default: `_INBOX`.
            inbox_prefix(prefix: impl Into<String>);

            /// Sets the Key-Value bucket in which the instances meet. Default: `leaders`.
            bucket(bucket: impl Into<String>);

            /// Sets how long `start` tries to reach NATS and its bucket. Default: 30 s.
            start_timeout(start_timeout: std::time::Duration);
        }
    };
    ($($(#[$doc:meta])* $setter:ident($($given:ident: $type:ty),*);)*) => {
        $(
            $(#[$doc])*
            pub fn $setter(mut self $(, $given: $type)*) -> Self {
                self.access.config = self.access.config.$setter($($given),*);
                self
            }
        )*
    };
}

pub(crate) use config_setters;
