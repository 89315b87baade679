//! The line of succession, as records and releases show it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

/// The most heirs in a line.
pub const MOST_HEIRS: usize = 3;

/// The time by which each heir claims a free role after the one before it, and the others after
/// the last: enough for a claim and its news on a fast network.
pub const TURN: Duration = Duration::from_millis(10);

/// Up to three incarnations that should lead next, the first one first.
///
/// The order is a courtesy: it keeps candidates from claiming all at once. A role is free for the
/// others as well, and every claim is a compare-and-set. So heirs that are made up or gone cost a
/// [`TURN`] each, and three of them half a heartbeat more at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "Vec<Uuid>")]
pub struct Heirs([Option<Uuid>; MOST_HEIRS]);

impl Heirs {
    /// Nobody.
    pub const NONE: Self = Self([None; MOST_HEIRS]);

    /// Reads them from a list, separated by commas. What is no incarnation is left out.
    pub fn parse(text: &str) -> Self {
        text.split(',')
            .take(MOST_HEIRS)
            .filter_map(|heir| heir.parse().ok())
            .collect()
    }

    /// The incarnations, in their order.
    pub fn iter(&self) -> impl Iterator<Item = Uuid> + use<> {
        self.0.into_iter().flatten()
    }

    /// Whether nobody is named.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Whether there is no room for another.
    pub fn is_full(&self) -> bool {
        self.iter().count() == MOST_HEIRS
    }

    /// How long after the role is free this incarnation should claim it.
    pub fn turn_of(&self, incarnation: Uuid) -> Duration {
        let before = self.iter().take_while(|heir| *heir != incarnation).count();
        TURN * u32::try_from(before).unwrap_or_default()
    }

    /// Whether this incarnation is among them.
    pub fn has(&self, incarnation: Uuid) -> bool {
        self.iter().any(|heir| heir == incarnation)
    }
}

impl Serialize for Heirs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl From<Vec<Uuid>> for Heirs {
    fn from(incarnations: Vec<Uuid>) -> Self {
        incarnations.into_iter().collect()
    }
}

impl FromIterator<Uuid> for Heirs {
    /// Takes the first three that differ.
    fn from_iter<T: IntoIterator<Item = Uuid>>(incarnations: T) -> Self {
        let mut heirs = Self::NONE;
        let mut places = 0;
        for incarnation in incarnations {
            if places < MOST_HEIRS && !heirs.has(incarnation) {
                heirs.0[places] = Some(incarnation);
                places += 1;
            }
        }
        heirs
    }
}

impl fmt::Display for Heirs {
    /// Writes the list that [`parse`](Self::parse) reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heirs: Vec<_> = self.iter().map(|heir| heir.to_string()).collect();
        f.write_str(&heirs.join(","))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn heirs(numbers: &[u128]) -> Heirs {
        numbers.iter().copied().map(Uuid::from_u128).collect()
    }

    #[test]
    fn each_heir_has_its_turn_and_the_others_come_last() {
        let line = heirs(&[7, 8, 9]);
        let turns = [7, 8, 9, 10].map(|number| line.turn_of(Uuid::from_u128(number)));
        assert_eq!(turns, [Duration::ZERO, TURN, TURN * 2, TURN * 3]);
        assert_eq!(Heirs::NONE.turn_of(Uuid::from_u128(7)), Duration::ZERO);
    }

    #[test]
    fn an_heir_has_one_place_and_the_line_an_end() {
        assert_eq!(heirs(&[1, 1, 2, 3, 4]), heirs(&[1, 2, 3]));
        assert!(!heirs(&[1, 2, 3, 4]).has(Uuid::from_u128(4)));
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for line in [heirs(&[]), heirs(&[1]), heirs(&[3, 1, 2])] {
            assert_eq!(Heirs::parse(&line.to_string()), line);
        }
        let one = Uuid::from_u128(1);
        assert_eq!(Heirs::parse(&format!("x,,{one}")), heirs(&[1]));
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_three_heirs_at_most(text in ".*") {
            prop_assert!(Heirs::parse(&text).iter().count() <= MOST_HEIRS);
        }
    }
}
