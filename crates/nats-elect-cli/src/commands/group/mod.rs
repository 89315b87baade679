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

use std::time::Duration;

use nats_elect::admin::AdminClient;
use nats_elect::{ObservedGroup, ObservedGroups};

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
