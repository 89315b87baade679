//! What a unit waits for until its owner acts, by the rules of the members.

use nats_elect::UnitStanding;

use super::explain::Facts;
use crate::text::lasted;

/// What has to happen, and what follows.
type Wait = (String, &'static str);

impl Facts<'_> {
    /// What has to happen before somebody owns it, and what follows.
    pub fn waits_for(&self) -> Option<Wait> {
        if self.group.making {
            return Some((
                "the members to create all units of the new group".into(),
                "the members take the units",
            ));
        }
        if self.group.kind.is_none() {
            return Some((
                "the group's record, which is missing or can't be understood".into(),
                "nobody takes a unit before",
            ));
        }
        if self.unit.standing == UnitStanding::Owned {
            let wait = self.waits_for_owner().or_else(|| self.waits_for_others());
            return wait.or_else(|| {
                let age = self.age("no owner gave the unit away with it")?;
                Some((age, "its owner begins, if it had not begun before"))
            });
        }
        let takers = self.all.members_of(self.name);
        if takers.filter(|(_, it)| !it.cordoned).count() == 0 {
            return Some((
                "a member that may take it: the group has none, or all are cordoned".into(),
                "that one takes it, a minute later at most",
            ));
        }
        if let Some((others, _)) = self.waits_for_others() {
            return Some((others, "the members take the units of this one"));
        }
        Some(self.waits_for_taker())
    }

    /// Nobody owns it.
    fn waits_for_taker(&self) -> Wait {
        match self.unit.standing {
            UnitStanding::Free => self.waits_free(),
            UnitStanding::Abandoned => match self.age("no owner wrote it") {
                Some(age) => (age, "a member takes it"),
                None => (
                    "a member that takes it".into(),
                    "one does after it has waited for that lease itself, a minute at most",
                ),
            },
            UnitStanding::OwnerMissing => (
                "the end of its owner's lease, which has no record: a minute at most".into(),
                "members end that lease, and one takes the unit",
            ),
            UnitStanding::Missing => (
                "a member to notice that it has no key: after a purge 5m at most".into(),
                "one creates it as nobody's, and a minute later one takes it",
            ),
            standing => {
                let what = if standing == UnitStanding::Closed {
                    "closed, without a later generation"
                } else {
                    "it is not understood, or deleted"
                };
                let over = || format!("a member that writes over this record: {what}");
                (
                    self.age(what).unwrap_or_else(over),
                    "a member writes over it, and begins a minute later",
                )
            }
        }
    }

    fn waits_free(&self) -> Wait {
        let Some(planned) = &self.planned else {
            let age = self.age("no owner gave the unit away with it");
            let wait = age.unwrap_or_else(|| "a member that takes it".into());
            return (wait, "it has an owner in a moment");
        };
        // Members plan for units whose records are of age.
        match planned
            .why
            .as_ref()
            .filter(|_| planned.verdict == "unplaced")
        {
            Some(why) => (
                format!("a member that may take it: {why}"),
                "one takes it in a moment",
            ),
            None => (
                "a member that takes it".into(),
                "it has an owner in a moment",
            ),
        }
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
            (
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
        Some((
            format!("a heartbeat of the owner, whose lease is {lease}"),
            "if none comes for so long, members end that lease, and one takes the unit",
        ))
    }
}
