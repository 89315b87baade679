//! Checked names of roles, buckets, instances, data keys, groups and units.
//!
//! Each name obeys the rule of the place that it is used in. A role name is a key of the bucket. A
//! bucket name is part of a stream name. An instance id is shown in JSON and in metric labels.
//! Clones share one allocation.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::text::{beginning, is_invisible};
use serde::{Deserialize, Serialize};

/// The longest name of any kind, in bytes. With it, a subject made of a bucket and a role stays far
/// below the server's limit for a protocol line (4 KiB).
pub const MAX_NAME_BYTES: usize = 255;

/// The error for a string that is not a valid name of its kind. It tells the problem and the rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a valid {kind}: {problem}; {rule}")]
#[non_exhaustive]
pub struct NameError {
    /// The kind of name: `role name`, `bucket name`, `instance id`, `data key`, `group name` or
    /// `unit name`.
    pub kind: &'static str,
    /// The refused string, or its beginning if it is long.
    pub name: String,
    /// The problem with it, in words.
    pub problem: String,
    /// The whole rule, in words.
    pub rule: &'static str,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $problem:path, $rule:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                // Large maps have many copies of one name, and compare it again and again.
                if Arc::ptr_eq(&self.0, &other.0) {
                    return Ordering::Equal;
                }
                self.0.cmp(&other.0)
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl $name {
            /// The rule in words, as errors quote it.
            pub const RULE: &'static str = $rule;

            /// Checks the string against [`Self::RULE`].
            ///
            /// # Errors
            ///
            /// The first problem with the string, and the rule.
            pub fn new(name: &str) -> Result<Self, NameError> {
                match $problem(name) {
                    None => Ok(Self(name.into())),
                    Some(problem) => Err(NameError {
                        kind: $kind,
                        name: beginning(name),
                        problem,
                        rule: Self::RULE,
                    }),
                }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                *self.0 == *other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                *self.0 == **other
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(name: &str) -> Result<Self, NameError> {
                Self::new(name)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = NameError;

            fn try_from(name: &str) -> Result<Self, NameError> {
                Self::new(name)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(name: String) -> Result<Self, NameError> {
                Self::new(&name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.as_str().to_owned()
            }
        }
    };
}

name! {
    /// The name of a role, which is its key in the bucket.
    ///
    /// 1 to 255 bytes of ASCII letters, digits, `-`, `/`, `_` and `=`. It has no dots, because the
    /// watch on role keys is a single-token wildcard. It does not begin with `_`: such keys are the
    /// crate's own (fence records, fenced data).
    RoleName, "role name", role_problem,
    "a role name is 1 to 255 ASCII letters, digits, '-', '/', '_' and '=', and does not begin with '_'"
}

name! {
    /// The name of a NATS Key-Value bucket.
    ///
    /// 1 to 255 bytes of ASCII letters, digits, `-` and `_`. This is the server's rule for the
    /// stream behind it.
    BucketName, "bucket name", bucket_problem,
    "a bucket name is 1 to 255 ASCII letters, digits, '-' and '_'"
}

name! {
    /// The name of an instance.
    ///
    /// 1 to 255 bytes of printable UTF-8 without white space, because it is shown in logs, metric
    /// labels and tables. It should be unique among the running processes. Safety does not depend
    /// on that: two processes with one id are still two instances, because identity is the id *and*
    /// the incarnation.
    InstanceId, "instance id", instance_problem,
    "an instance id is 1 to 255 bytes of printable UTF-8 without white space, control or invisible characters"
}

name! {
    /// The key of a leader's data in its role's store.
    ///
    /// 1 to 255 bytes of ASCII letters, digits, `-`, `/`, `_`, `=` and `.`, as Key-Value clients
    /// accept them. No part between dots is empty.
    DataKey, "data key", data_problem,
    "a data key is 1 to 255 ASCII letters, digits, '-', '/', '_', '=' and '.', and no dot stands at an end or beside another"
}

name! {
    /// The name of a group, which is a part of its keys in the bucket.
    ///
    /// It has the rule of [`RoleName`].
    GroupName, "group name", role_problem,
    "a group name is 1 to 255 ASCII letters, digits, '-', '/', '_' and '=', and does not begin with '_'"
}

name! {
    /// The name of a unit within its group: a shard's number in decimal, or a name.
    ///
    /// It has the rule of [`RoleName`].
    UnitName, "unit name", role_problem,
    "a unit name is 1 to 255 ASCII letters, digits, '-', '/', '_' and '=', and does not begin with '_'"
}

impl UnitName {
    /// The name of a shard: its number in decimal, without leading zeros.
    pub fn shard(number: u32) -> Self {
        Self(number.to_string().into())
    }

    /// The number of the shard that this names. `None` if it is no number, has leading zeros, or
    /// is above `u32::MAX`.
    pub fn as_shard(&self) -> Option<u32> {
        let number = self.0.parse().ok()?;
        (Self::shard(number) == *self).then_some(number)
    }
}

fn data_problem(name: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '/' | '_' | '=' | '.');
    problem(name, allowed).or_else(|| {
        let is_odd = name.split('.').any(str::is_empty);
        is_odd.then(|| "it begins or ends with '.', or has two in a row".into())
    })
}

fn role_problem(name: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '/' | '_' | '=');
    problem(name, allowed).or_else(|| {
        let is_ours = name.starts_with('_');
        is_ours.then(|| "it begins with '_', which is reserved".into())
    })
}

fn bucket_problem(name: &str) -> Option<String> {
    problem(name, |c| {
        c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
    })
}

fn instance_problem(name: &str) -> Option<String> {
    problem(name, |c| {
        !c.is_control() && !c.is_whitespace() && !is_invisible(c)
    })
}

fn problem(name: &str, allowed: impl Fn(char) -> bool) -> Option<String> {
    if name.is_empty() {
        return Some("it is empty".into());
    }
    if name.len() > MAX_NAME_BYTES {
        return Some(format!("it is {} bytes long", name.len()));
    }
    let (at, found) = name.char_indices().find(|&(_, c)| !allowed(c))?;
    Some(format!("it has {found:?} at byte {at}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinary_names_are_accepted() {
        for name in ["a", "scheduler", "eu-west/1", "a=b", "a_", "-", "/", "A9"] {
            assert_eq!(RoleName::new(name).unwrap().as_str(), name);
        }
        assert_eq!(BucketName::new("_leaders-1").unwrap(), "_leaders-1");
        for id in ["node-1", "10.0.0.1:80", "zürich", "机器", "a\"b"] {
            assert_eq!(InstanceId::new(id).unwrap().to_string(), id);
        }
    }

    #[test]
    fn a_data_key_has_no_wildcard_and_no_empty_part() {
        for name in ["a", "jobs.42", "_a", "a/b=c-d", "A.b.C"] {
            assert_eq!(DataKey::new(name).unwrap(), name);
        }
        for name in [".", ".a", "a.", "a..b"] {
            let problem = DataKey::new(name).unwrap_err().problem;
            assert_eq!(problem, "it begins or ends with '.', or has two in a row");
        }
        for name in ["*", "a.>", "a b", "a\r\nb", "é", "a:b", "$a"] {
            let problem = DataKey::new(name).unwrap_err().problem;
            assert!(problem.starts_with("it has '"), "{name}: {problem}");
        }
        assert!(DataKey::new(&"k".repeat(256)).is_err());
    }

    #[test]
    fn a_name_has_1_to_255_bytes() {
        assert_eq!(RoleName::new("").unwrap_err().problem, "it is empty");
        assert_eq!(BucketName::new("").unwrap_err().problem, "it is empty");
        assert_eq!(InstanceId::new("").unwrap_err().problem, "it is empty");
        assert!(RoleName::new(&"r".repeat(255)).is_ok());
        let error = RoleName::new(&"r".repeat(256)).unwrap_err();
        assert_eq!(error.problem, "it is 256 bytes long");
        assert!(error.to_string().len() < 300, "{error}");
        let error = InstanceId::new(&"é".repeat(128)).unwrap_err();
        assert_eq!(error.problem, "it is 256 bytes long");
    }

    #[test]
    fn the_error_tells_the_problem_and_the_rule() {
        assert_eq!(
            RoleName::new("a.b").unwrap_err().to_string(),
            "\"a.b\" is not a valid role name: it has '.' at byte 1; a role name is 1 to 255 ASCII letters, digits, '-', '/', '_' and '=', \
             and does not begin with '_'"
        );
        for name in ["a b", "a*", "a>", "ä", "a\n"] {
            assert!(RoleName::new(name).is_err(), "{name}");
        }
        assert!(BucketName::new("a/b").is_err());
    }

    #[test]
    fn a_role_name_does_not_begin_with_an_underscore() {
        for name in ["_", "_fence", "_data"] {
            let problem = RoleName::new(name).unwrap_err().problem;
            assert_eq!(problem, "it begins with '_', which is reserved");
        }
    }

    #[test]
    fn an_instance_id_has_no_invisible_characters() {
        for id in [
            "a b",
            "a\t",
            "a\u{a0}b",
            "a\0",
            "\u{7f}",
            "a\u{200b}",
            "\u{202e}a",
        ] {
            assert!(InstanceId::new(id).is_err(), "{id:?}");
        }
    }

    #[test]
    fn a_shard_has_one_name() {
        for number in [0, 1, 17, 10_000, u32::MAX] {
            assert_eq!(UnitName::shard(number).as_shard(), Some(number));
        }
        for name in ["00", "017", "scheduler", "1a", "4294967296", "-1"] {
            assert_eq!(UnitName::new(name).unwrap().as_shard(), None, "{name}");
        }
    }

    #[test]
    fn deserialization_checks_the_rule() {
        let map: BTreeMap<RoleName, InstanceId> = serde_json::from_str(r#"{"a":"x"}"#).unwrap();
        assert_eq!(map["a"], "x");
        assert_eq!(serde_json::to_string(&map).unwrap(), r#"{"a":"x"}"#);
        let error = serde_json::from_str::<RoleName>(r#""a.b""#).unwrap_err();
        assert!(
            error.to_string().contains("is not a valid role name"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn a_role_name_is_accepted_exactly_if_it_obeys_its_rule(name in "[-/_=a-z.*> ]{0,6}|\\PC{0,90}") {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-/_=".contains(&b);
            let valid = (1..=255).contains(&name.len()) && name.bytes().all(allowed) && !name.starts_with('_');
            prop_assert_eq!(RoleName::new(&name).is_ok(), valid);
        }

        #[test]
        fn a_name_reads_back_from_what_it_displays(name in "[-a-z0-9/_=.]{1,20}|\\PC{1,20}") {
            if let Ok(name) = RoleName::new(&name) {
                prop_assert_eq!(name.to_string().parse(), Ok(name));
            }
            if let Ok(name) = BucketName::new(&name) {
                prop_assert_eq!(name.to_string().parse(), Ok(name));
            }
            if let Ok(name) = InstanceId::new(&name) {
                prop_assert_eq!(name.to_string().parse(), Ok(name));
            }
            if let Ok(name) = DataKey::new(&name) {
                prop_assert_eq!(name.to_string().parse(), Ok(name));
            }
        }

        #[test]
        fn no_string_makes_a_check_panic(name in any::<String>()) {
            for error in [
                RoleName::new(&name).err(), BucketName::new(&name).err(), InstanceId::new(&name).err(),
            ].into_iter().flatten() {
                prop_assert!(error.to_string().contains(error.rule));
            }
        }
    }
}
