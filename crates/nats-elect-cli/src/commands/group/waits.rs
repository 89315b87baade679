//! What a unit waits for until its owner acts, by the rules of the members.

use nats_elect::{LONGEST_LEASE, UnitStanding};

use super::explain::Facts;
use crate::text::lasted;

/// What has to happen, and what follows.
type Wait = (String, String);

fn wait(what: impl Into<String>, then: &str) -> Wait {
    (what.into(), then.into())
}

impl Facts<'_> {
    /// What has to happen before somebody owns it, and what follows.
    pub fn waits_for(&self) -> Option<Wait> {
        if self.group.making {
            return Some(wait(
                "the members to create all units of the new group",
                "the members take the units",
            ));
        }
        if self.group.kind.is_none() {
            return Some(wait(
                "the group's record, which is missing or can't be understood",
                "nobody takes a unit before",
            ));
        }
        if self.unit.standing == UnitStanding::Owned {
            let waits = self.waits_for_owner().or_else(|| self.waits_for_others());
            return waits.or_else(|| {
                let age = self.age("no owner gave the unit away with it")?;
                Some(wait(age, "its owner begins, if it had not begun before"))
            });
        }
        if let Some(why) = self.nobody_may() {
            return Some(wait(
                format!("a member that may take it: {why}"),
                "that one takes it, a minute later at most",
            ));
        }
        if let Some((others, _)) = self.waits_for_others() {
            return Some(wait(others, "the members take the units of this one"));
        }
        Some(self.waits_for_taker())
    }

    /// Why no member that is there may take it from its owner, or if it has none.
    fn nobody_may(&self) -> Option<String> {
        let mut takers = self.all.members_of(self.name);
        let owner = self.unit.owner.as_deref();
        let may = takers.any(|(epoch, it)| {
            let lasts = it.confirmed || it.age < it.ttl.unwrap_or(LONGEST_LEASE);
            lasts && !it.cordoned && Some(epoch) != owner
        });
        if !may {
            return Some("the group has none that lives, or all are cordoned".into());
        }
        let planned = self.planned.as_ref()?;
        planned
            .why
            .clone()
            .filter(|_| planned.verdict == "unplaced")
    }

    /// Nobody owns it.
    fn waits_for_taker(&self) -> Wait {
        match self.unit.standing {
            UnitStanding::Free => self.waits_free(),
            UnitStanding::Abandoned => match self.age("no owner wrote it") {
                Some(age) => wait(age, "a member takes it"),
                None => wait(
                    "a member that takes it",
                    "one does after it has waited for that lease itself, a minute at most",
                ),
            },
            UnitStanding::OwnerMissing => wait(
                "the end of its owner's lease, which has no record: a minute at most",
                "members end that lease, and one takes the unit",
            ),
            UnitStanding::Missing => wait(
                "a member to notice that it has no key: after a purge 5m at most",
                "one creates it as nobody's, and a minute later one takes it",
            ),
            standing => {
                let what = if standing == UnitStanding::Closed {
                    "closed, without a later generation"
                } else {
                    "it is not understood, or deleted"
                };
                let over = || format!("a member that writes over this record: {what}");
                wait(
                    self.age(what).unwrap_or_else(over),
                    "a member writes over it, and begins a minute later",
                )
            }
        }
    }

    fn waits_free(&self) -> Wait {
        // Members plan for units whose records are of age.
        let age = self.age("no owner gave the unit away with it");
        let age = age.filter(|_| self.planned.is_none());
        wait(
            age.unwrap_or_else(|| "a member that takes it".into()),
            "it has an owner in a moment",
        )
    }

    /// Nobody builds on a record before it is of age.
    fn age(&self, why: &str) -> Option<String> {
        let left = lasted(self.unit.ages_for?);
        Some(format!(
            "this record to be of age, in {left} at most: {why}"
        ))
    }

    /// No unit of this generation begins beside those of earlier ones.
    fn waits_for_others(&self) -> Option<Wait> {
        let unclosed = self.group.unclosed;
        (unclosed > 0).then(|| {
            wait(
                format!("{unclosed} units of earlier generations to be closed"),
                "its owner begins, if it had not begun before",
            )
        })
    }

    fn waits_for_owner(&self) -> Option<Wait> {
        let owner = self.owner()?;
        if owner.understood && owner.confirmed {
            return None;
        }
        let lease = owner.ttl.map_or_else(|| "a minute".to_owned(), lasted);
        let then = match self.nobody_may() {
            Some(_) => {
                "if none comes, it has no owner until a member comes that may take it".into()
            }
            None => {
                "if none comes for so long, members end that lease, and one takes the unit".into()
            }
        };
        Some((
            format!("a heartbeat of the owner, whose lease is {lease}"),
            then,
        ))
    }
}
