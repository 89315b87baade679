//! Lists of units in few words.

use crate::text::cut;

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

/// Parts of a list of units, each with the number of units that it stands for.
fn parts(units: &[&str]) -> Vec<(String, usize)> {
    let number = |unit: &str| unit.parse::<u32>().ok();
    let follows = |one: &&str, next: &&str| {
        let both = number(one).zip(number(next));
        both.is_some_and(|(one, next)| one.checked_add(1) == Some(next))
    };
    let text = |part: &[&str]| match (number(part[0]), number(part[part.len() - 1])) {
        (Some(first), Some(last)) if part.len() > 1 => format!("{first}-{last}"),
        _ => part[0].to_owned(),
    };
    let parts = units.chunk_by(follows);
    parts.map(|part| (text(part), part.len())).collect()
}

#[cfg(test)]
mod tests {
    use super::{listed, ranges};

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
