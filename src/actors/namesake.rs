//! Another process with this instance's id, and another application under one of its roles.

use uuid::Uuid;

use crate::role::Instance;
use nats_elect_core::record::{Content, Entry};

/// The last record of another start of this instance. One record alone may be that of the process
/// before this one. A second one shows that its writer lives.
#[derive(Debug, Default)]
pub(super) struct Namesake {
    seen: Option<(Uuid, u64)>,
}

impl Namesake {
    /// Takes an entry under a role's key. Returns whether it shows another running process with
    /// this instance's id.
    pub fn is_alive(&mut self, own: &Instance, entry: &Entry) -> bool {
        let Content::Record(record) = &entry.content else {
            return false;
        };
        let Some(incarnation) = record
            .incarnation
            .filter(|it| *it != own.incarnation && record.id == own.id.as_str())
        else {
            return false;
        };
        let before = self.seen.replace((incarnation, entry.revision));
        before.is_some_and(|(who, revision)| who == incarnation && revision < entry.revision)
    }
}

/// What is wrong with two applications under one role, and what to do.
pub const TWO_APPLICATIONS: &str = "two applications that stand for one role elect one leader between them: give them different buckets \
     (`bucket`, NATS_ELECT_BUCKET) or roles of different names, or the same name (`application`) if they are one";

/// Takes the application from an entry under a role's key. Returns a warning if it is another one
/// than this instance's.
pub(super) fn other_application(own: &Instance, entry: &mut Entry) -> Option<String> {
    let Content::Record(record) = &mut entry.content else {
        return None;
    };
    // The election has no use for it.
    let other = record.application.take()?;
    (other.name != own.application.name).then(|| {
        format!(
            "{:?} of application {:?} leads this role, and this is {:?}; {TWO_APPLICATIONS}",
            record.id, other.name, own.application.name
        )
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use nats_elect_core::application::Application;
    use nats_elect_core::name::{BucketName, InstanceId};

    fn entry(revision: u64, id: &str, incarnation: u128) -> Entry {
        let incarnation = Uuid::from_u128(incarnation);
        let record =
            format!(r#"{{"id":"{id}","token":"t","incarnation":"{incarnation}","beat":1}}"#);
        let content = Content::parse(record.as_bytes());
        Entry { revision, content }
    }

    #[test]
    fn only_a_second_record_of_the_same_start_shows_a_living_namesake() {
        let own = Instance {
            id: InstanceId::new("a").expect("an id"),
            incarnation: Uuid::from_u128(1),
            bucket: BucketName::new("leaders").expect("a name"),
            application: std::sync::Arc::new(Application::program("test")),
            meta: BTreeMap::new(),
        };
        let mut namesake = Namesake::default();
        let mut is_alive = |entry: Entry| namesake.is_alive(&own, &entry);
        assert!(!is_alive(entry(1, "a", 2)), "perhaps of an earlier process");
        assert!(!is_alive(entry(1, "a", 2)), "the same record");
        assert!(!is_alive(entry(2, "b", 3)));
        assert!(!is_alive(entry(3, "a", 1)), "its own");
        assert!(is_alive(entry(4, "a", 2)));
        assert!(!is_alive(entry(5, "a", 4)), "another start");
    }
}
