//! `group`: who owns the units of groups, who should, moves by hand, and another number of shards.

mod asking;
pub mod drain;
pub mod explain;
pub mod grow;
pub mod ls;
pub mod plan;
mod reasons;
pub mod show;
pub mod transfer;
mod waits;

use std::collections::HashMap;
use std::time::Duration;

use nats_elect::admin::AdminClient;
use nats_elect::duration::seconds::Seconds;
use nats_elect::{ObservedGroup, ObservedGroups, ObservedMember, ObservedUnit, UnitStanding};
use serde_json::{Value, json};

use crate::exit::{Code, Failure};
use crate::instances::operating;
use crate::options::Shared;
use crate::text::cut;
use crate::trust::Trust;

/// The default for how long heartbeats are waited for. They come each second by default.
const WAIT: &str = "2500ms";

/// Of longer texts the beginning is shown, in characters.
const SHOWN: usize = 48;

/// Reads all groups of the bucket, and waits for a heartbeat of each member.
async fn read(shared: &Shared, wait: Duration) -> Result<ObservedGroups, Failure> {
    // Roles are of no interest here. The future's state is large: boxing it spares the callers.
    let trust = Trust::default();
    let observer = Box::pin(shared.observer(Some(&[]), &trust)).await?;
    Ok(observer.groups(wait).await?)
}

/// Asks or operates instances. If there is none, JetStream may be off.
async fn operate<T>(
    shared: &Shared,
    act: impl AsyncFnOnce(AdminClient) -> Result<T, Failure>,
) -> Result<T, Failure> {
    match operating(&shared.config()?, shared.whose(), act).await {
        Err(failure) if failure.code == Code::NotFound => {
            Err(shared.jetstream_off().await.unwrap_or(failure))
        }
        done => done,
    }
}

/// The group of this name.
fn find<'a>(all: &'a ObservedGroups, name: &str) -> Result<&'a ObservedGroup, Failure> {
    all.groups.get(name).ok_or_else(|| {
        Failure::not_found(format!("there is no group {name:?} in the bucket"))
            .advice("`nats-elect group ls` lists the groups")
    })
}

/// A member of a group, with the units that it owns there.
pub struct Member<'a> {
    pub epoch: &'a str,
    pub seen: &'a ObservedMember,
    pub units: Vec<&'a str>,
}

impl<'a> Member<'a> {
    /// The members of a group, and those that own units of it all the same, by their names.
    pub fn all(all: &'a ObservedGroups, name: &'a str, group: &'a ObservedGroup) -> Vec<Self> {
        let mut owned = HashMap::<_, Vec<_>>::new();
        for unit in &group.units {
            if let Some(epoch) = owner(unit) {
                owned.entry(epoch).or_default().push(unit.unit.as_str());
            }
        }
        let members = all.members.iter().map(|(epoch, seen)| Self {
            epoch,
            seen,
            units: owned.remove(epoch.as_str()).unwrap_or_default(),
        });
        let mut members: Vec<_> = members
            .filter(|it| !it.units.is_empty() || it.seen.groups.contains_key(name))
            .collect();
        members.sort_by(|a, b| (&a.seen.instance_id, a.epoch).cmp(&(&b.seen.instance_id, b.epoch)));
        members
    }

    pub fn name(&self) -> String {
        if self.seen.instance_id.is_empty() {
            format!("(no name, {})", self.epoch)
        } else {
            self.seen.instance_id.clone()
        }
    }

    /// Whether it lives, as one word.
    const fn state(&self) -> &'static str {
        state(self.seen)
    }
}

const fn state(member: &ObservedMember) -> &'static str {
    match (member.understood, member.confirmed) {
        (false, _) => "unknown",
        (true, true) => "confirmed",
        (true, false) => "unconfirmed",
    }
}

/// The epoch that owns a unit, if its lease was not ended.
fn owner(unit: &ObservedUnit) -> Option<&str> {
    let is_owned = unit.standing == UnitStanding::Owned;
    unit.owner.as_deref().filter(|_| is_owned)
}

/// What every command tells programs of a group.
pub fn group_json(all: &ObservedGroups, name: &str, group: &ObservedGroup) -> Value {
    let members = Member::all(all, name, group);
    let counts = members.iter().map(|it| it.units.len());
    let standings = UnitStanding::ALL.iter();
    let standings: serde_json::Map<_, _> = standings
        .map(|standing| (standing.to_string(), group.count(*standing).into()))
        .collect();
    let problems = problems(all, name);
    json!({
        "group": name,
        "kind": group.kind,
        "shards": group.shards,
        "generation": group.generation,
        "making": group.making,
        "unclosed": group.unclosed,
        "prepared": group.prepared,
        "surplus": group.surplus.len(),
        "unit_count": group.unit_count(),
        "owned": group.count(UnitStanding::Owned),
        "standings": standings,
        "member_count": members.len(),
        "units_per_member": { "least": counts.clone().min(), "most": counts.max() },
        "problems": problems,
    })
}

/// What is wrong with a group, in words.
fn problems(all: &ObservedGroups, name: &str) -> Vec<String> {
    let problems = all.problems_of(name).into_iter();
    problems.map(|it| it.to_string()).collect()
}

/// A member as every command tells it to programs.
pub fn member_json(member: &Member<'_>, group: &str) -> Value {
    let seen = member.seen;
    json!({
        "epoch": member.epoch,
        "instance_id": seen.instance_id,
        "incarnation": seen.incarnation,
        "understood": seen.understood,
        "confirmed": seen.confirmed,
        "age_seconds": Seconds(seen.age),
        "ttl_seconds": seen.ttl.map(Seconds),
        "load": seen.groups.get(group),
        "zone": seen.zone,
        "cordoned": seen.cordoned,
        "revision": seen.revision,
        "unit_count": member.units.len(),
        "all_units": seen.units,
    })
}

fn unit_json(unit: &ObservedUnit) -> Value {
    json!({
        "unit": unit.unit,
        "standing": unit.standing,
        "owner": unit.owner,
        "instance_id": unit.instance_id,
        "fencing_token": unit.fencing_token,
    })
}

/// Names of units in few words: numbers that follow each other as `3-7`.
pub fn ranges(units: &[&str]) -> String {
    let parts: Vec<_> = parts(units).into_iter().map(|(text, _)| text).collect();
    parts.join(",")
}

/// The same up to so many characters, and how many of all units are left out: `3-7,9 … and 12 more`.
pub fn listed(units: &[&str], all: usize, most: usize) -> String {
    let (mut text, mut shown) = (String::new(), 0);
    for (part, count) in parts(units) {
        let part = cut(&part, most);
        if !text.is_empty() && text.chars().count() + 1 + part.chars().count() > most {
            break;
        }
        if !text.is_empty() {
            text.push(',');
        }
        text += &part;
        shown += count;
    }
    if shown < all {
        text = format!("{text} … and {} more", all - shown);
    }
    text.trim_start().to_owned()
}

/// For units in their order: 2 comes before 10, and numbers before names.
pub fn order(unit: &str) -> (bool, u32, &str) {
    let number = unit.parse::<u32>().ok();
    (number.is_none(), number.unwrap_or_default(), unit)
}

/// Parts of a list of units, each with the number of units that it stands for.
fn parts(units: &[&str]) -> Vec<(String, usize)> {
    let mut parts: Vec<(String, Option<(u32, u32)>)> = Vec::new();
    for unit in units {
        let number = unit.parse::<u32>().ok();
        match (parts.last_mut(), number) {
            (Some((text, Some((first, last)))), Some(number)) if *last + 1 == number => {
                *last = number;
                *text = format!("{first}-{last}");
            }
            _ => parts.push(((*unit).to_owned(), number.map(|it| (it, it)))),
        }
    }
    let count = |range: Option<(u32, u32)>| {
        let more = range.map_or(0, |(first, last)| last - first);
        usize::try_from(more)
            .unwrap_or(usize::MAX)
            .saturating_add(1)
    };
    let parts = parts.into_iter();
    parts.map(|(text, range)| (text, count(range))).collect()
}

#[cfg(test)]
mod tests {
    use super::{listed, order, ranges};

    #[test]
    fn a_list_that_is_cut_says_how_many_are_left_out() {
        for (units, all, most, text) in [
            (&["0", "1", "2", "5"][..], 4, 5, "0-2,5"),
            (&["0", "1", "2", "5"], 4, 4, "0-2 … and 1 more"),
            (&["network", "scheduler"], 2, 3, "ne… … and 1 more"),
            (&["0", "1"], 30, 20, "0-1 … and 28 more"),
            (&[], 3, 20, "… and 3 more"),
        ] {
            assert_eq!(listed(units, all, most), text);
        }
        let mut units = ["b", "10", "2", "a"];
        units.sort_by_key(|it| order(it));
        assert_eq!(units, ["2", "10", "a", "b"]);
    }

    #[test]
    fn numbers_that_follow_each_other_are_one_range() {
        for (units, text) in [
            (&[][..], ""),
            (&["7"], "7"),
            (&["0", "1", "2", "5", "7", "8"], "0-2,5,7-8"),
            (&["network", "scheduler"], "network,scheduler"),
            (&["4294967294", "4294967295"], "4294967294-4294967295"),
        ] {
            assert_eq!(ranges(units), text);
        }
    }
}
