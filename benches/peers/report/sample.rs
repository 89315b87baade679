//! Durations, as tables have them.

use std::time::Duration;

/// For a table, in milliseconds, with as many digits as say something.
pub fn ms(duration: Duration) -> String {
    let ms = duration.as_secs_f64() * 1e3;
    if ms < 100.0 {
        format!("{ms:.2}")
    } else {
        format!("{ms:.0}")
    }
}

/// How many times as long.
pub fn ratio(duration: Duration, floor: Duration) -> String {
    if floor.is_zero() {
        return "–".to_owned();
    }
    format!("{:.2}", duration.as_secs_f64() / floor.as_secs_f64())
}
