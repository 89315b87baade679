//! Whether leader changes are published.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::subjects::{shown_prefix, subject_prefix};
use super::{AdminConfig, ConfigError};
use nats_elect_core::config::{DAY, ensure, range};
use nats_elect_core::{duration, setters};

const FIELD: &str = "events.subject_prefix";

/// How leader changes are published, for other programs: see [`LeaderEvent`](crate::LeaderEvent).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct EventsConfig {
    /// Whether this instance publishes the begin and the end of its terms. Default true.
    pub publish: bool,

    /// The prefix of the subjects. A role's events are published on
    /// `<subject_prefix>.<bucket>.<role>`. Default `nats-elect-events`.
    ///
    /// The prefix consists of tokens of ASCII letters, digits, `-` and `_`, with dots between them,
    /// together at most 128 bytes. The first token is not `nats-elect` and does not begin with `_`.
    /// The whole prefix is not `admin.subject_prefix`.
    pub subject_prefix: String,

    /// How long a JetStream stream keeps the events. One second to ten years.
    ///
    /// The stream is called `nats-elect-events-<bucket>`. It is made if it does not exist, with the
    /// replicas and the storage that a created bucket would have. Each event is published until
    /// the stream has confirmed it.
    ///
    /// If unset, events are kept if they can be: an instance with `bucket_auto_create` tries to
    /// make the stream, for a week and 30,000 events, and `nats-elect create-bucket` makes it, too. An
    /// event that no stream takes is published once, and a program that does not listen misses it.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub keep: Option<Duration>,
}

impl Default for EventsConfig {
    fn default() -> Self {
        Self {
            publish: true,
            subject_prefix: "nats-elect-events".into(),
            keep: None,
        }
    }
}

setters!(EventsConfig {
    subject_prefix: impl Into<String> => subject_prefix.into();
    keep: Duration => Some(keep);
});

impl EventsConfig {
    /// Returns a configuration that publishes nothing.
    #[must_use]
    pub fn off() -> Self {
        Self {
            publish: false,
            ..Self::default()
        }
    }

    pub(super) fn validate(&self, admin: &AdminConfig) -> Result<(), ConfigError> {
        subject_prefix(FIELD, &self.subject_prefix)?;
        ensure(
            self.subject_prefix != admin.subject_prefix,
            FIELD,
            shown_prefix(&self.subject_prefix),
            "must not be `admin.subject_prefix`: instances would take the events for requests",
        )?;
        if let Some(keep) = self.keep {
            range("events.keep", keep, Duration::from_secs(1), 3650 * DAY)?;
            ensure(
                self.publish,
                "events.keep",
                duration::exact(keep),
                "needs `events.publish = true`",
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::config::ManagerConfig;

    fn refused(events: EventsConfig) -> String {
        let config = ManagerConfig {
            events,
            ..ManagerConfig::default()
        };
        config.validate().expect_err("it breaks a rule").field
    }

    #[test]
    fn events_have_subjects_of_their_own() {
        for prefix in [
            "",
            ".a",
            "a..b",
            "a.*",
            "a b",
            "$KV.leaders",
            "_INBOX",
            "nats-elect",
            "nats-elect.leaders",
            "nats-elect-admin",
        ] {
            let events = EventsConfig::default().subject_prefix(prefix);
            assert_eq!(refused(events), "events.subject_prefix", "{prefix}");
        }
        for prefix in ["nats-elect-events", "control.elections"] {
            let events = EventsConfig::default().subject_prefix(prefix);
            assert_eq!(events.validate(&AdminConfig::default()), Ok(()), "{prefix}");
        }
    }

    #[test]
    fn events_are_kept_only_if_they_are_published() {
        let unpublished = EventsConfig::off().keep(DAY);
        assert_eq!(refused(unpublished), "events.keep");
        let fleeting = EventsConfig::default().keep(Duration::ZERO);
        assert_eq!(refused(fleeting), "events.keep");
        assert_eq!(
            EventsConfig::default()
                .keep(DAY)
                .validate(&AdminConfig::default()),
            Ok(())
        );
    }

    #[test]
    fn a_file_sets_the_time_in_words() {
        let text = "[events]\nkeep = \"30d\"\n";
        let config: ManagerConfig = toml::from_str(text).expect("it is valid");
        assert_eq!(config.events, EventsConfig::default().keep(30 * DAY));
    }
}
