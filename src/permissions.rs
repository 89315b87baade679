//! The permissions of NATS users: one table, from which `nats-elect permissions` prints, `doctor`
//! tries, and the files in `deploy/nats` are made.
//!
//! ```
//! use nats_elect::permissions::{Part, Scope};
//!
//! let mut scope = Scope::default();
//! scope.roles.push("scheduler".parse().expect("a name"));
//! let mut publish = scope.rights(Part::Candidate).flat_map(|right| right.publish);
//! assert!(publish.any(|subject| subject == "$KV.leaders._fence.scheduler"));
//! ```

mod table;

use crate::model::config::{AdminConfig, EventsConfig};
use nats_elect_core::name::{BucketName, GroupName, RoleName};
pub use table::Need;
use table::{PUBLISHED, SUBSCRIBED};

/// What a NATS user is for: a file of `deploy/nats` each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// Takes part in elections, and owns units of groups.
    Candidate,
    /// Reads the bucket, and asks instances how they are.
    Observer,
    /// Asks instances, and has them step down, pause, resume and cordon.
    Operator,
    /// Makes and edits the bucket.
    Admin,
    /// Retires roles.
    Retire,
}

/// The bucket, and the names in it, for which permissions are granted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Scope {
    /// The bucket.
    pub bucket: BucketName,
    /// The roles. Without any, an operator may operate all, and a candidate can lead none.
    pub roles: Vec<RoleName>,
    /// The groups. Without any, an operator may operate all, and a candidate can own no unit.
    pub groups: Vec<GroupName>,
    /// The beginning of the subjects of admin requests.
    pub admin_prefix: String,
    /// The beginning of the events' subjects.
    pub events_prefix: String,
    /// The beginning of reply subjects.
    pub inbox_prefix: String,
}

impl Default for Scope {
    fn default() -> Self {
        Self {
            bucket: BucketName::new("leaders").expect("it is a name"),
            roles: Vec::new(),
            groups: Vec::new(),
            admin_prefix: AdminConfig::default().subject_prefix,
            events_prefix: EventsConfig::default().subject_prefix,
            inbox_prefix: "_INBOX".into(),
        }
    }
}

/// Subjects that one need has in common.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Right {
    /// What they are needed for.
    pub need: Need,
    /// The same in words. Empty if it is that of the right before.
    pub why: &'static str,
    /// The subjects that the user publishes to.
    pub publish: Vec<String>,
    /// The subjects that the user subscribes to.
    pub subscribe: Vec<String>,
}

impl Scope {
    /// Returns all that a user of this part needs, in the order of the table.
    pub fn rights(&self, part: Part) -> impl Iterator<Item = Right> {
        let published = PUBLISHED.iter().map(|row| (row, true));
        let rows = published.chain(SUBSCRIBED.iter().map(|row| (row, false)));
        let rows = rows.filter(move |(row, _)| row.parts.contains(&part));
        let rights = rows.map(move |(row, is_published)| {
            let subjects = self.subjects(part, row.subjects);
            let (publish, subscribe) = subjects.into_iter().partition(|_| is_published);
            let (need, why) = (row.need, row.why);
            Right {
                need,
                why,
                publish,
                subscribe,
            }
        });
        rights.filter(|it| !it.publish.is_empty() || !it.subscribe.is_empty())
    }

    /// Fills in the names: all patterns for the first one, then for the next.
    fn subjects(&self, part: Part, patterns: &[&str]) -> Vec<String> {
        let has = |name: &str| patterns.iter().any(|it| it.contains(name));
        // Only roles are retired.
        let names_group = part != Part::Retire && !self.groups.is_empty();
        let names_any = !self.roles.is_empty() || names_group;
        if has("{any group}") && self.groups.is_empty() || has("{all}") && names_any {
            return Vec::new();
        }
        let named: Vec<&str> = match (has("{role}"), has("{group}")) {
            (true, _) => self.roles.iter().map(RoleName::as_str).collect(),
            (_, true) => self.groups.iter().map(GroupName::as_str).collect(),
            _ => return patterns.iter().map(|it| self.filled(it, "")).collect(),
        };
        // Who takes part does so by name. An observer changes nothing.
        let is_for_all = match part {
            Part::Candidate => false,
            Part::Observer => true,
            _ => !names_any,
        };
        let all = (is_for_all && named.is_empty()).then_some("*");
        let of = |name| patterns.iter().map(move |it| self.filled(it, name));
        named.into_iter().chain(all).flat_map(of).collect()
    }

    fn filled(&self, pattern: &str, name: &str) -> String {
        [
            ("{any group}", ""),
            ("{all}", ""),
            ("{role}", name),
            ("{group}", name),
            ("{bucket}", self.bucket.as_str()),
            ("{admin}", &self.admin_prefix),
            ("{events}", &self.events_prefix),
            ("{inbox}", &self.inbox_prefix),
        ]
        .into_iter()
        .fold(pattern.to_owned(), |it, (from, to)| it.replace(from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(part: Part, roles: &[&str], groups: &[&str]) -> Vec<String> {
        let scope = Scope {
            roles: roles.iter().map(|it| it.parse().unwrap()).collect(),
            groups: groups.iter().map(|it| it.parse().unwrap()).collect(),
            ..Scope::default()
        };
        let rights = scope.rights(part).collect::<Vec<_>>();
        rights.into_iter().flat_map(|it| it.publish).collect()
    }

    #[test]
    fn a_candidate_may_write_what_it_names_and_no_more() {
        let roles = published(Part::Candidate, &["scheduler"], &[]);
        assert!(roles.contains(&"$KV.leaders._fence.scheduler".into()));
        assert!(!roles.iter().any(|it| it.contains("group")), "{roles:?}");
        let groups = published(Part::Candidate, &[], &["partitions"]);
        assert!(groups.contains(&"$KV.leaders._groups.partitions.>".into()));
        assert!(
            groups
                .iter()
                .all(|it| !it.ends_with(".>") || !it.contains("_data"))
        );
        assert!(
            published(Part::Candidate, &[], &[])
                .iter()
                .all(|it| !it.starts_with("$KV"))
        );
    }

    #[test]
    fn a_retirer_who_names_a_group_alone_may_retire_all_roles() {
        let retire = |groups| published(Part::Retire, &[], groups);
        assert_eq!(retire(&["partitions"]), retire(&[]));
        assert!(retire(&[]).contains(&"$KV.leaders.*".into()));
    }

    #[test]
    fn an_operator_who_names_roles_operates_no_others() {
        let all = published(Part::Operator, &[], &[]);
        let some = published(Part::Operator, &["scheduler"], &[]);
        for verb in ["pause", "cordon"] {
            let of = |rest| format!("nats-elect-admin.leaders.{verb}.*{rest}");
            assert!(all.contains(&of("")) && all.contains(&of(".*")));
            assert!(!some.contains(&of("")) && !some.contains(&of(".*")));
            assert!(some.contains(&of(".scheduler")));
        }
        assert!(!some.iter().any(|it| it.contains("take-unit")), "{some:?}");
    }
}
