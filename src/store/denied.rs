//! Operations that the server does not permit to a user. The server reports them only on the side,
//! as an event of the connection. The request itself gets no answer, so the mailbox ends it.

use std::fmt;

use async_nats::Event;
use uuid::Uuid;

use super::events::events_stream;
use super::feed::FENCES;
use nats_elect_core::name::{BucketName, RoleName};

/// An operation that this NATS user's permissions forbid.
///
/// The server reports it as an event of the connection, and the request itself gets no answer. A
/// [`RoleManager`](crate::RoleManager) hears of it by itself. A program with a connection of its
/// own, from [`ManagerConfig::connect_with`](crate::ManagerConfig::connect_with) for example, reads
/// it from the events.
///
/// Its text names the operation and the permission to grant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Denied {
    /// `true` for a publish, `false` for a subscription.
    pub publish: bool,
    /// The subject. It has no wildcards for a publish.
    pub subject: String,
}

impl Denied {
    /// Reads an event of the connection. Returns `None` if it is about something else.
    pub fn of(event: &Event) -> Option<Self> {
        match event {
            Event::ServerError(error) => Self::parse(&error.to_string()),
            _ => None,
        }
    }

    /// Reads the text of an asynchronous server error.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.split_once("ermissions Violation for ")?;
        let (what, rest) = rest.split_once('"')?;
        let (subject, _) = rest.split_once('"')?;
        Some(Self {
            publish: !what.starts_with("Subscription"),
            subject: subject.to_owned(),
        })
    }

    /// Returns whether who publishes to this subject reports the refusal.
    pub(crate) fn is_reported(&self, bucket: &BucketName) -> bool {
        let history = format!("$JS.API.STREAM.CREATE.{}", events_stream(bucket));
        self.is_of_election(bucket) || self.publish && self.subject == history
    }

    /// Returns the key of the bucket that this client may not write.
    fn key(&self, bucket: &BucketName) -> Option<&str> {
        let key = self.subject.strip_prefix(&format!("$KV.{bucket}."));
        key.filter(|_| self.publish)
    }

    /// Returns whether only elections publish to this subject.
    fn is_of_election(&self, bucket: &BucketName) -> bool {
        let key = self.key(bucket);
        let key = key.map(|key| key.strip_prefix(FENCES).unwrap_or(key));
        key.is_some_and(|key| RoleName::new(key).is_ok())
    }

    /// Returns whether only members of groups publish to this subject.
    pub(crate) fn is_of_group(&self, bucket: &BucketName) -> bool {
        self.key(bucket).is_some_and(|key| {
            let is_guard = |unit: &str| unit.contains('.');
            key.starts_with("_groups.")
                || key.starts_with("_gdata.")
                || key.starts_with("_gfence.")
                || key.strip_prefix("_guard.").is_some_and(is_guard)
        })
    }

    /// Returns all subjects at which this client awaits answers, as a permission names them, if it may
    /// not subscribe to one of them. Each ends in random parts.
    pub fn inboxes(&self) -> Option<String> {
        let tokens: Vec<_> = self.subject.split('.').collect();
        let has = |token: &str, kind: fn(&u8) -> bool| token.as_bytes().iter().any(kind);
        // 128 bits in hexadecimal digits, or the id of a client.
        let is_random = |token: &str| match token.len() {
            32 => token.bytes().all(|it| it.is_ascii_hexdigit()),
            22 => {
                token.bytes().all(|it| it.is_ascii_alphanumeric())
                    && has(token, u8::is_ascii_uppercase)
                    && has(token, u8::is_ascii_lowercase)
            }
            _ => false,
        };
        let last = tokens.len().saturating_sub(2).max(1);
        let at = (last..tokens.len()).find(|at| is_random(tokens[*at]));
        let at = at.or_else(|| (tokens[0] == "_INBOX").then_some(1));
        let prefix = tokens[..at.filter(|_| !self.publish)?].join(".");
        Some(format!("{prefix}.>"))
    }

    /// Returns the permission to grant: the subject, with a wildcard for what differs each time. One
    /// permission is for all keys of a group's units, and for all data of a role.
    pub fn permission(&self) -> String {
        if let Some(inboxes) = self.inboxes() {
            return inboxes;
        }
        let tokens: Vec<_> = self.subject.split('.').collect();
        // The rest of these subjects is a consumer, a key, or an answer's number.
        let fixed = match &tokens[..] {
            [
                "$KV",
                _,
                "_data" | "_gdata" | "_gfence" | "_groups" | "_guard",
                _,
                _,
                ..,
            ] => 4,
            ["$JS", "FC", _, _, ..] => 3,
            ["$JS", "API", "CONSUMER", "CREATE", _, _, ..] => 5,
            _ => {
                let is_id = |token: &str| token.parse::<Uuid>().is_ok();
                let parts = tokens.iter();
                let parts = parts.map(|token| if is_id(token) { "*" } else { *token });
                return parts.collect::<Vec<_>>().join(".");
            }
        };
        format!("{}.>", tokens[..fixed].join("."))
    }

    /// Returns the role whose leader may not write the data that it keeps beside its election.
    pub(crate) fn data_of(&self, bucket: &BucketName) -> Option<RoleName> {
        let key = self.key(bucket)?;
        let data = key.strip_prefix("_data.");
        let name = match data {
            Some(rest) => rest.split_once('.')?.0,
            None => key.strip_prefix("_guard.")?,
        };
        RoleName::new(name).ok()
    }
}

impl fmt::Display for Denied {
    /// Writes the forbidden operation, and the permission to grant.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = self.permission();
        if self.publish {
            return write!(f, "this NATS user may not publish to \"{subject}\"");
        }
        write!(f, "this NATS user may not subscribe to \"{subject}\"")?;
        if subject == "_INBOX.>" {
            write!(
                f,
                ", where answers come in: it needs that, or an `inbox_prefix` under which it may subscribe"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permission_violation_is_read_from_the_servers_text() {
        let text = r#"nats: Permissions Violation for Publish to "$KV.leaders.a""#;
        let denied = Denied::parse(text).expect("a violation");
        assert!(denied.publish);
        assert_eq!(denied.subject, "$KV.leaders.a");
        let text = r#"nats: Permissions Violation for Subscription to "_INBOX.x.*""#;
        let denied = Denied::parse(text).expect("a violation");
        assert!(!denied.publish);
        let text = denied.to_string();
        assert!(text.contains("subscribe to \"_INBOX.>\","), "{text}");
        assert!(!text.contains("_INBOX.x"), "{text}");
        let text =
            r#"nats: Permissions Violation for Subscription to "ops.in.LaNrAoGoKGwN8rKq4cyMvY.*""#;
        let denied = Denied::parse(text).expect("a violation").to_string();
        assert!(denied.ends_with("subscribe to \"ops.in.>\""), "{denied}");
        for (publish, subject) in [
            (false, "nats-elect-admin.leaders.instances"),
            (false, "nats-elect.a-bucket-of-many-bytes.scheduler.x"),
            (true, "_INBOX.LaNrAoGoKGwN8rKq4cyMvY"),
        ] {
            let subject = subject.to_owned();
            assert_eq!(Denied { publish, subject }.inboxes(), None);
        }
        assert_eq!(Denied::parse("nats: stale connection"), None);
    }

    #[test]
    fn a_denial_of_a_groups_keys_names_one_permission_for_all_of_them() {
        let bucket = BucketName::new("leaders").expect("a name");
        for (key, permission) in [
            ("_groups.shards.map", "_groups.shards.>"),
            (
                "_groups.shards.member.AAAAAAAAAAAAAAAAAAAAAA",
                "_groups.shards.>",
            ),
            ("_gdata.shards.1.17.count", "_gdata.shards.>"),
            ("_gfence.shards.1.17", "_gfence.shards.>"),
            ("_guard.shards.1.17", "_guard.shards.>"),
        ] {
            let denied = Denied {
                publish: true,
                subject: format!("$KV.leaders.{key}"),
            };
            assert!(denied.is_of_group(&bucket), "{key}");
            assert!(!denied.is_of_election(&bucket), "{key}");
            assert_eq!(denied.data_of(&bucket), None, "{key}");
            let told = format!("may not publish to \"$KV.leaders.{permission}\"");
            assert!(denied.to_string().ends_with(&told), "{denied}");
        }
        for (other, permission) in [
            ("shards", "shards"),
            ("_fence.shards", "_fence.shards"),
            ("_data.r.a", "_data.r.>"),
            ("_guard.r", "_guard.r"),
        ] {
            let denied = Denied {
                publish: true,
                subject: format!("$KV.leaders.{other}"),
            };
            assert!(!denied.is_of_group(&bucket), "{other}");
            let permission = format!("$KV.leaders.{permission}");
            assert_eq!(denied.permission(), permission);
        }
    }

    #[test]
    fn a_permission_has_wildcards_where_the_subject_differs_each_time() {
        let id = "e374253a-3acb-6c4c-f3bf-46b5abe52919";
        for (subject, permission) in [
            (
                format!("$JS.FC.KV_leaders.doctor.{id}"),
                "$JS.FC.KV_leaders.>",
            ),
            (
                "$JS.API.CONSUMER.CREATE.KV_leaders.x.$KV.leaders.y".to_owned(),
                "$JS.API.CONSUMER.CREATE.KV_leaders.>",
            ),
            (
                format!("nats-elect.leaders.a.{id}"),
                "nats-elect.leaders.a.*",
            ),
            (
                format!("nats-elect-admin.leaders.pause.{id}.*"),
                "nats-elect-admin.leaders.pause.*.*",
            ),
        ] {
            let publish = true;
            assert_eq!(Denied { publish, subject }.permission(), permission);
        }
    }

    #[test]
    fn a_denial_of_data_is_distinguished_from_one_of_election_keys() {
        let bucket = BucketName::new("leaders").expect("a name");
        let data_of = |subject: &str, publish| {
            let subject = subject.to_owned();
            let role = Denied { publish, subject }.data_of(&bucket);
            role.map(|role| role.to_string())
        };
        let r = Some("r".to_owned());
        assert_eq!(data_of("$KV.leaders._data.r.jobs.1", true), r);
        assert_eq!(data_of("$KV.leaders._guard.r", true), r);
        for subject in ["r", "_fence.r", "_first", "_data.r", "_guard.r.x"] {
            assert_eq!(data_of(&format!("$KV.leaders.{subject}"), true), None);
        }
        assert_eq!(data_of("$KV.other._guard.r", true), None);
        assert_eq!(data_of("$KV.leaders._guard.r", false), None);
        let of_election = |subject: &str| {
            let subject = subject.to_owned();
            let publish = true;
            Denied { publish, subject }.is_of_election(&bucket)
        };
        assert!(of_election("$KV.leaders.r") && of_election("$KV.leaders._fence.r"));
        for other in ["$KV.leaders._data.r.a", "$KV.other.r", "$JS.API.INFO"] {
            assert!(!of_election(other), "{other}");
        }
    }
}
