//! Whether an instance can be operated over NATS, and on which subjects.

use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::subjects::{shown_prefix, subject_prefix};
use nats_elect_core::config::ensure;

/// The default subject prefix of admin requests.
pub const DEFAULT_SUBJECT_PREFIX: &str = "nats-elect-admin";

/// Whether this instance answers admin requests over NATS, and on which subjects.
///
/// It then reports its status to every client that may ask, and does what a permitted client
/// requests. NATS permissions decide which clients may, see `docs/security.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AdminConfig {
    /// Whether the instance answers at all. Default true. If not, it subscribes to none of these
    /// subjects, and discovery does not find it.
    pub enabled: bool,

    /// The prefix of request subjects. The bucket follows it. Default `nats-elect-admin`.
    ///
    /// The prefix consists of tokens of ASCII letters, digits, `-` and `_`, with dots between them,
    /// together at most 128 bytes. The first token is not `nats-elect`, where the instances send
    /// each other peer requests. It does not begin with `_`, as inboxes do.
    pub subject_prefix: String,
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            subject_prefix: DEFAULT_SUBJECT_PREFIX.into(),
        }
    }
}

impl AdminConfig {
    /// Returns a configuration that answers no admin requests.
    pub fn off() -> Self {
        Self {
            enabled: false,
            ..Self::default()
        }
    }

    /// Returns a configuration that answers on subjects with this prefix, for fleets that need
    /// separate permissions.
    pub fn under(subject_prefix: impl Into<String>) -> Self {
        Self {
            subject_prefix: subject_prefix.into(),
            ..Self::default()
        }
    }

    /// Checks the prefix. It must not be under `inbox`, because answers could then be taken for
    /// requests.
    pub(super) fn validate(&self, inbox: Option<&str>) -> Result<(), ConfigError> {
        check_prefix(&self.subject_prefix)?;
        let inbox = inbox.unwrap_or("_INBOX");
        let within = |a: &str, b: &str| {
            let rest = a.strip_prefix(b);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let prefix = self.subject_prefix.as_str();
        ensure(
            !within(prefix, inbox) && !within(inbox, prefix),
            FIELD,
            shown_prefix(prefix),
            "must be apart from `inbox_prefix`, where answers arrive",
        )
    }
}

const FIELD: &str = "admin.subject_prefix";

/// Checks the prefix of request subjects.
pub(crate) fn check_prefix(prefix: &str) -> Result<(), ConfigError> {
    subject_prefix(FIELD, prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(prefix: &str, inbox: Option<&str>) -> bool {
        let error = AdminConfig::under(prefix).validate(inbox);
        error.is_err_and(|error| error.field == FIELD)
    }

    #[test]
    fn a_subject_prefix_is_a_plain_subject_apart_from_other_subjects() {
        for good in ["nats-elect-admin", "ops.elect", "A.b-c.1", "nats-elected"] {
            assert_eq!(AdminConfig::under(good).validate(None), Ok(()), "{good}");
        }
        let long = "x".repeat(129);
        for bad in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "a.*",
            ">",
            "a b",
            "a\n",
            "$SRV",
            "$KV.leaders",
            "a.$b",
            "_INBOX",
            "_INBOX.x",
            "_x",
            "nats-elect",
            "nats-elect.leaders",
            "é",
            &long,
        ] {
            assert!(refused(bad, None), "{bad:?}");
        }
    }

    #[test]
    fn answers_cannot_be_taken_for_requests() {
        for (prefix, inbox) in [("ops", "ops"), ("ops", "ops.inbox"), ("ops.admin", "ops")] {
            assert!(refused(prefix, Some(inbox)), "{prefix} {inbox}");
        }
        assert!(!refused("ops", Some("opsinbox")));
    }

    #[test]
    fn a_file_can_switch_the_admin_service_off_or_move_it() {
        let read = |text| toml::from_str::<AdminConfig>(text).expect("valid TOML");
        assert_eq!(read("enabled = false"), AdminConfig::off());
        assert_eq!(read("subject_prefix = 'ops'"), AdminConfig::under("ops"));
        assert!(toml::from_str::<AdminConfig>("prefix = 'ops'").is_err());
    }
}
