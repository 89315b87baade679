//! Whole numbers in JSON that no reader rounds, for serde's `with` attribute.
//!
//! Many readers of JSON have 64-bit floating point numbers alone. They round whole numbers beyond
//! 2^53 without a word. So such a number is written as text, in decimal digits. All others are
//! written as numbers.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The greatest whole number up to which each has a floating point number of its own.
const MOST: u128 = 1 << 53;

/// A whole number, written as described in the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole<T>(pub T);

impl<T: Copy + Into<i128> + Serialize> Serialize for Whole<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let wide: i128 = self.0.into();
        if wide.unsigned_abs() <= MOST {
            self.0.serialize(serializer)
        } else {
            serializer.collect_str(&wide)
        }
    }
}

/// What JSON may have for a whole number.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a whole number, or its digits as text")]
enum Written {
    Signed(i64),
    Unsigned(u64),
    Text(String),
}

impl<'de, T: TryFrom<i128>> Deserialize<'de> for Whole<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wide: Option<i128> = match Written::deserialize(deserializer)? {
            Written::Signed(number) => Some(number.into()),
            Written::Unsigned(number) => Some(number.into()),
            // One number has one text.
            Written::Text(text) => text.parse().ok().filter(|it: &i128| it.to_string() == text),
        };
        let number = wide.and_then(|wide| T::try_from(wide).ok());
        let beyond = || D::Error::custom("the number is not one that can stand here");
        number.map(Self).ok_or_else(beyond)
    }
}

/// Writes a whole number.
pub fn serialize<T, S>(number: &T, serializer: S) -> Result<S::Ok, S::Error>
where
    T: Copy + Into<i128> + Serialize,
    S: Serializer,
{
    Whole(*number).serialize(serializer)
}

/// Reads a whole number.
pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: TryFrom<i128>,
    D: Deserializer<'de>,
{
    Whole::deserialize(deserializer).map(|whole| whole.0)
}

/// The same for an optional number.
pub mod option {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Whole};

    /// Writes a whole number, or `null`.
    pub fn serialize<T, S>(number: &Option<T>, serializer: S) -> Result<S::Ok, S::Error>
    where
        T: Copy + Into<i128> + Serialize,
        S: Serializer,
    {
        number.map(Whole).serialize(serializer)
    }

    /// Reads a whole number, or `None` from `null`.
    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: TryFrom<i128>,
        D: Deserializer<'de>,
    {
        let whole = Option::<Whole<T>>::deserialize(deserializer)?;
        Ok(whole.map(|whole| whole.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_numbers_that_readers_would_round_are_text() {
        let json = |number: i64| serde_json::to_string(&Whole(number)).expect("JSON");
        assert_eq!(json(-7), "-7");
        assert_eq!(json(1 << 53), "9007199254740992");
        assert_eq!(json((1 << 53) + 1), "\"9007199254740993\"");
        assert_eq!(json(i64::MIN), "\"-9223372036854775808\"");
    }

    proptest! {
        #[test]
        fn every_number_is_read_as_it_was_written(signed: i64, unsigned: u64) {
            let json = serde_json::to_vec(&(Whole(signed), Whole(unsigned))).expect("JSON");
            let read: (Whole<i64>, Whole<u64>) = serde_json::from_slice(&json).expect("numbers");
            prop_assert_eq!(read, (Whole(signed), Whole(unsigned)));
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for odd in [
            "-1", "1.5", "1e3", "\"+7\"", "\"07\"", "\" 7\"", "\"-1\"", "\"0x7\"", "\"\"", "null",
            "[]",
        ] {
            assert!(serde_json::from_str::<Whole<u64>>(odd).is_err(), "{odd}");
        }
        let beyond = "\"18446744073709551616\"";
        assert!(serde_json::from_str::<Whole<u64>>(beyond).is_err());
    }
}
