//! The rules for subjects that users choose.

use nats_elect_core::config::ensure;
use nats_elect_core::text::beginning;

use super::ConfigError;

/// Checks a prefix of our subjects. It must be a plain subject that is neither an inbox nor the
/// subject of peer requests.
pub(super) fn subject_prefix(field: &str, prefix: &str) -> Result<(), ConfigError> {
    let plain = |token: &str| {
        let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        !token.is_empty() && token.chars().all(fit)
    };
    ensure(
        prefix.len() <= 128
            && prefix.split('.').all(plain)
            && !prefix.starts_with('_')
            && prefix.split('.').next() != Some("nats-elect"),
        field,
        shown_prefix(prefix),
        "must be tokens of ASCII letters, digits, '-' and '_' with dots between them, at most 128 bytes, that begin neither with '_' nor \
         with the token nats-elect, like nats-elect-admin",
    )
}

pub(super) fn shown_prefix(prefix: &str) -> String {
    format!("{:?}", beginning(prefix))
}
