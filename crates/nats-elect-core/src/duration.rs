//! The notation of durations: in texts, in configurations, and in JSON.
//!
//! - Texts show settings [`exact`]ly and everything else [`rounded`].
//! - Configurations have text with units, as `humantime-serde` reads and writes it.
//! - Messages and JSON output have numbers of seconds, in fields that end in `_seconds`: see
//!   [`seconds`].

use std::fmt;
use std::time::Duration;

const MICRO: u128 = 1_000;
const MILLI: u128 = 1_000_000;
const SECOND: u128 = 1_000_000_000;
const MINUTE: u128 = 60 * SECOND;
const HOUR: u128 = 60 * MINUTE;
const DAY: u128 = 24 * HOUR;

/// A duration without loss: `15s`, `1.5s`, `250ms`, `1h 30m`. For settings.
///
/// Configurations accept this form.
pub const fn exact(duration: Duration) -> Text {
    Text(duration)
}

/// Reads a duration in the form that [`exact`] writes.
///
/// # Errors
/// Returns what is wrong with the text.
pub fn parse(text: &str) -> Result<Duration, String> {
    humantime_serde::re::humantime::parse_duration(text)
        .map_err(|error| format!("{error}: a time needs a unit, like 500ms or 15s"))
}

/// A duration with about two digits: `830us`, `1.7s`, `42s`, `3m 12s`, `12d 3h`. For measurements
/// and for times that are derived.
pub fn rounded(duration: Duration) -> Text {
    let nanos = duration.as_nanos();
    let unit = match nanos {
        0..MICRO => 1,
        MICRO..MILLI => MICRO,
        MILLI..SECOND => MILLI,
        SECOND..HOUR => SECOND,
        HOUR..DAY => MINUTE,
        _ => HOUR,
    };
    let step = if nanos < 10 * unit && nanos < MINUTE {
        (unit / 10).max(1)
    } else {
        unit
    };
    let duration = from_nanos((nanos + step / 2) / step * step);
    Text(duration)
}

/// The least duration of three digits that is not shorter than this one. For lower bounds.
pub fn rounded_up(duration: Duration) -> Text {
    let nanos = duration.as_nanos();
    let step = third_digit(nanos);
    Text(from_nanos(nanos.div_ceil(step) * step))
}

/// The greatest duration of three digits that is not longer than this one. For upper bounds.
pub fn rounded_down(duration: Duration) -> Text {
    let nanos = duration.as_nanos();
    let step = third_digit(nanos);
    Text(from_nanos(nanos / step * step))
}

/// The value of the third digit of a duration under a minute. Longer ones are told to the second.
fn third_digit(nanos: u128) -> u128 {
    if nanos >= MINUTE {
        return SECOND;
    }
    let digits = nanos.checked_ilog10().unwrap_or(0);
    10_u128.pow(digits.saturating_sub(2))
}

fn from_nanos(nanos: u128) -> Duration {
    let seconds = u64::try_from(nanos / SECOND).unwrap_or(u64::MAX);
    let rest = u32::try_from(nanos % SECOND).unwrap_or(0);
    Duration::new(seconds, rest)
}

/// A duration that `Display` writes with units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text(Duration);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&written(self.0.as_nanos()))
    }
}

fn written(mut nanos: u128) -> String {
    if nanos == 0 {
        return "0s".into();
    }
    let mut parts = Vec::new();
    for (unit, name) in [(DAY, "d"), (HOUR, "h"), (MINUTE, "m")] {
        if nanos >= unit {
            parts.push(format!("{}{name}", nanos / unit));
            nanos %= unit;
        }
    }
    let smallest = match nanos {
        0 => None,
        1..MICRO => Some((1, "ns")),
        MICRO..MILLI => Some((MICRO, "us")),
        MILLI..SECOND => Some((MILLI, "ms")),
        _ => Some((SECOND, "s")),
    };
    if let Some((unit, name)) = smallest {
        let width = usize::try_from(unit.ilog10()).unwrap_or(0);
        let fraction = format!("{:0width$}", nanos % unit);
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        parts.push(format!("{}{point}{fraction}{name}", nanos / unit));
    }
    parts.join(" ")
}

impl serde::Serialize for Text {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Durations as numbers of seconds, for serde's `with` attribute.
///
/// They are whole microseconds, rounded down, and at most 285 years. So every reader of 64-bit
/// floating point numbers reads the number that was written.
pub mod seconds {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Beyond it a floating point number leaves out some whole numbers.
    const MOST: u64 = 1 << 53;
    const MICROS: u64 = 1_000_000;

    /// A duration that is written as a number of seconds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Seconds(pub Duration);

    impl Serialize for Seconds {
        #[expect(clippy::cast_precision_loss, reason = "it is at most 2^53")]
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let micros = u64::try_from(self.0.as_micros()).unwrap_or(MOST).min(MOST);
            if micros.is_multiple_of(MICROS) {
                serializer.serialize_u64(micros / MICROS)
            } else {
                serializer.serialize_f64(micros as f64 / MICROS as f64)
            }
        }
    }

    impl<'de> Deserialize<'de> for Seconds {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let seconds = f64::deserialize(deserializer)?;
            Duration::try_from_secs_f64(seconds)
                .map(Self)
                .map_err(|_| D::Error::custom("a duration is a number of seconds, 0 or more"))
        }
    }

    /// Writes a duration.
    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        Seconds(*duration).serialize(serializer)
    }

    /// Reads a duration.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Seconds::deserialize(deserializer).map(|seconds| seconds.0)
    }

    /// The same for an optional duration.
    pub mod option {
        use super::{Deserialize, Deserializer, Duration, Seconds, Serialize, Serializer};

        /// Writes a duration, or `null`.
        pub fn serialize<S: Serializer>(
            duration: &Option<Duration>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            duration.map(Seconds).serialize(serializer)
        }

        /// Reads a duration, or `None` from `null`.
        pub fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Duration>, D::Error> {
            let seconds = Option::<Seconds>::deserialize(deserializer)?;
            Ok(seconds.map(|seconds| seconds.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::seconds::Seconds;
    use super::*;

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn a_setting_is_written_exactly() {
        for (duration, expected) in [
            (Duration::ZERO, "0s"),
            (Duration::from_nanos(7), "7ns"),
            (Duration::from_nanos(1_500), "1.5us"),
            (us(16_667), "16.667ms"),
            (us(250_000), "250ms"),
            (us(1_500_000), "1.5s"),
            (us(15_000_000), "15s"),
            (Duration::from_nanos(1_666_666_666), "1.666666666s"),
            (us(90_000_000), "1m 30s"),
            (us(3_600_000_500), "1h 500us"),
            (Duration::from_secs(86_400), "1d"),
        ] {
            assert_eq!(exact(duration).to_string(), expected);
            if !expected.contains('.') {
                assert_eq!(parse(expected), Ok(duration));
            }
        }
        let error = parse("15").expect_err("no unit");
        assert!(error.contains("needs a unit"), "{error}");
    }

    #[test]
    fn a_measured_time_has_few_digits() {
        for (micros, expected) in [
            (0, "0s"),
            (8, "8us"),
            (834, "834us"),
            (8_342, "8.3ms"),
            (12_712, "13ms"),
            (350_000, "350ms"),
            (999_600, "1s"),
            (1_666_667, "1.7s"),
            (4_250_000, "4.3s"),
            (9_960_000, "10s"),
            (42_400_000, "42s"),
            (59_600_000, "1m"),
            (192_400_000, "3m 12s"),
            (18_120_000_000, "5h 2m"),
            (1_047_600_000_000, "12d 3h"),
        ] {
            assert_eq!(rounded(us(micros)).to_string(), expected);
        }
    }

    #[test]
    fn a_bound_of_three_digits_is_on_the_safe_side() {
        let third = Duration::from_nanos(1_666_666_666);
        assert_eq!(rounded_up(third).to_string(), "1.67s");
        assert_eq!(rounded_down(third).to_string(), "1.66s");
        for short in [us(15_300_000), us(10_000), Duration::ZERO] {
            assert_eq!(rounded_up(short), exact(short));
            assert_eq!(rounded_down(short), exact(short));
        }
    }

    proptest! {
        #[test]
        fn configurations_read_what_is_written(seconds in 0..=u64::MAX, nanos in 0..1_000_000_000_u32) {
            let duration = Duration::new(seconds, nanos);
            prop_assert_eq!(parse(&exact(duration).to_string()), Ok(duration));
        }

        #[test]
        fn rounded_durations_are_close(duration in (0..u64::MAX / 2).prop_map(Duration::from_nanos)) {
            let Text(near) = rounded(duration);
            prop_assert!(near.abs_diff(duration) <= duration / 19, "{near:?}");
            let (Text(up), Text(down)) = (rounded_up(duration), rounded_down(duration));
            prop_assert!(down <= duration && duration <= up);
            prop_assert!(up.abs_diff(down) <= duration / 59, "{down:?} {up:?}");
        }

        #[test]
        fn a_reader_of_floating_point_numbers_loses_nothing(micros in 0..=1_u64 << 53) {
            let json = serde_json::to_string(&Seconds(us(micros))).expect("JSON");
            let read: Seconds = serde_json::from_str(&json).expect("a number");
            let float: f64 = serde_json::from_str(&json).expect("a number");
            let again: Seconds = serde_json::from_str(&serde_json::json!(float).to_string()).expect("a number");
            prop_assert_eq!(read, again);
            prop_assert!(read.0.abs_diff(us(micros)) < us(1));
        }
    }

    #[test]
    fn whole_seconds_are_whole_numbers() {
        for (micros, expected) in [
            (0, "0"),
            (15_000_000, "15"),
            (830, "0.00083"),
            (1_500_000, "1.5"),
        ] {
            assert_eq!(
                serde_json::to_string(&Seconds(us(micros))).expect("JSON"),
                expected
            );
        }
        let longest = serde_json::to_string(&Seconds(Duration::MAX)).expect("JSON");
        assert!(longest.starts_with("9007199254.7"), "{longest}");
    }

    #[test]
    fn hostile_numbers_are_refused() {
        for odd in ["-1", "1e300", "\"15s\"", "null", "{}"] {
            assert!(serde_json::from_str::<Seconds>(odd).is_err(), "{odd}");
        }
    }
}
