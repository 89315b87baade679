//! Sets of numbers as text.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::bits::{Packer, Unpacker};
use super::units::MOST_SHARDS;

/// The first character of a bitmap.
const BITMAP: char = '=';

/// Ranges of this length stay ranges, so that people can read them.
const READABLE_BYTES: usize = 32;

/// A set of numbers below [`MOST_SHARDS`].
///
/// Its text lists ranges, such as `0-3,7`. If that has more than 32 characters, and a bitmap is
/// shorter, it is `=` and the bitmap in base64, from number 0 on. In memory each range takes eight
/// bytes: at most 24 for a character of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ranges(Vec<(u32, u32)>);

impl Ranges {
    /// Whether the number is in the set.
    pub fn contains(&self, number: u32) -> bool {
        let after = self.0.partition_point(|&(_, last)| last < number);
        self.0.get(after).is_some_and(|&(first, _)| first <= number)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|&(first, last)| first..=last)
    }

    /// The number after the largest one. 0 if the set is empty.
    pub fn end(&self) -> u32 {
        self.0.last().map_or(0, |&(_, last)| last + 1)
    }

    /// Parses a text. Returns `None` for ranges in another order, and for numbers of [`MOST_SHARDS`]
    /// and more.
    pub fn parse(text: &str) -> Option<Self> {
        let mut ranges = Self::default();
        if let Some(bitmap) = text.strip_prefix(BITMAP) {
            let mut bits = Unpacker::new(bitmap)?;
            let mut numbers = 0..MOST_SHARDS;
            while let Some(bit) = bits.take(1) {
                let number = numbers.next()?;
                if bit == 1 {
                    ranges.add(number, number);
                }
            }
        } else if !text.is_empty() {
            for range in text.split(',') {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let (first, last) = (first.parse().ok()?, last.parse().ok()?);
                let is_next = ranges.end() <= first && first <= last && last < MOST_SHARDS;
                is_next.then(|| ranges.add(first, last))?;
            }
        }
        Some(ranges)
    }

    /// Adds numbers, of which the first is not below an earlier range.
    fn add(&mut self, first: u32, last: u32) {
        match self.0.last_mut() {
            Some((_, end)) if first <= *end + 1 => *end = last.max(*end),
            _ => self.0.push((first, last)),
        }
    }
}

impl FromIterator<u32> for Ranges {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut sorted: Vec<_> = numbers.into_iter().collect();
        sorted.sort_unstable();
        let mut ranges = Self::default();
        for number in sorted {
            ranges.add(number, number);
        }
        ranges
    }
}

impl fmt::Display for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = self.0.iter().map(|&(first, last)| match last - first {
            0 => first.to_string(),
            _ => format!("{first}-{last}"),
        });
        let text = texts.collect::<Vec<_>>().join(",");
        let bitmap_bytes = 1 + ((self.end() as usize).div_ceil(8) * 4).div_ceil(3);
        if text.len() <= bitmap_bytes.max(READABLE_BYTES) {
            return f.write_str(&text);
        }
        let (mut bits, mut end) = (Packer::default(), 0);
        for &(first, last) in &self.0 {
            (end..first).for_each(|_| bits.put(0, 1));
            (first..=last).for_each(|_| bits.put(1, 1));
            end = last + 1;
        }
        write!(f, "{BITMAP}{}", bits.into_text())
    }
}

impl Serialize for Ranges {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ranges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("not a set of numbers"))
    }
}
