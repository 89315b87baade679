//! How durations, leases, tokens and foreign text are written for people.

use std::borrow::Borrow;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

use nats_elect::FencingToken;
use nats_elect::duration::rounded;

/// A duration as people say it: `350ms`, `4.2s`, `42s`, `3m 12s`, `5h 2m`, `12d 3h`.
pub fn lasted(duration: Duration) -> String {
    rounded(duration).to_string()
}

/// How long ago something was: `12s ago`.
pub fn ago(duration: Duration) -> String {
    format!("{} ago", lasted(duration))
}

/// How much of a lease is left, as a bar of so many characters: empty only at the end.
pub fn bar(left: Duration, ttl: Duration, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let all = width * 8;
    let full = (left.as_millis() * all as u128).div_ceil(ttl.as_millis().max(1));
    let full = usize::try_from(full).unwrap_or(all).min(all);
    let bar = "█".repeat(full / 8) + EIGHTHS[full % 8];
    let empty = "░".repeat(width - full.div_ceil(8));
    bar + &empty
}

/// The end of a fencing token's 32 hexadecimal digits. Within one bucket of two terms the later one
/// has the greater one, for all that anybody looks at side by side: it begins anew every four
/// billion writes.
pub fn short(token: FencingToken) -> String {
    let whole = token.to_string();
    format!("…{}", &whole[whole.len() - 8..])
}

/// The beginning of a text that has more characters than this, and a sign that it goes on.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().nth(most).is_none() {
        return text.to_owned();
    }
    let kept = text.chars().take(most.saturating_sub(1));
    kept.chain(['…']).collect()
}

/// The servers' addresses, without what is a secret in them.
pub fn hosts(servers: &[String]) -> String {
    let host = |server: &String| {
        let address = server
            .rsplit_once('@')
            .map_or(server.as_str(), |(_, host)| host);
        let address = address.rsplit_once("://").map_or(address, |(_, host)| host);
        address.to_owned()
    };
    joined(servers.iter().map(host))
}

/// Words with commas between them.
pub fn joined<T: Borrow<str>>(words: impl IntoIterator<Item = T>) -> String {
    words.into_iter().collect::<Vec<_>>().join(", ")
}

/// `1 role`, `2 roles`.
pub fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Lines of at most that many characters, but for words that are longer.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::<String>::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A line of facts: a name, and what it is.
pub fn row(name: &str, value: &str) -> String {
    format!("  {name:<14} {value}")
}

/// A time as RFC 3339 has it, to the millisecond.
pub fn stamp(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// The same, without milliseconds.
pub fn to_the_second(ms: u64) -> String {
    stamp_of(ms).replacen(&format!(".{:03}Z", ms % 1000), "Z", 1)
}

/// What [`stamp`] writes, for people: `2026-03-01 08:00:00`.
pub fn clock(stamp: &str) -> String {
    let whole = stamp.split('.').next().unwrap_or(stamp);
    whole.replacen('T', " ", 1)
}

/// A time in milliseconds since the Unix epoch, as [`stamp`] writes it.
pub fn stamp_of(ms: u64) -> String {
    // The year 9999 is the last one that can be written.
    const LAST: u64 = 253_402_300_799_000;
    stamp(SystemTime::UNIX_EPOCH + Duration::from_millis(ms.min(LAST)))
}

/// A time in milliseconds since the Unix epoch, by somebody's clock.
pub fn ms_of(time: SystemTime) -> u64 {
    let ms = time.duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(ms.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// The wall clock: for people, and for proofs.
#[expect(
    clippy::disallowed_methods,
    reason = "told to people, and what proofs are judged by; no lease rests on it"
)]
pub fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// Text from anywhere, so that it can be shown on a terminal: what would move the cursor, hide, or
/// turn the text around is written as its number.
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            let _ = write!(clean, "\\u{{{:x}}}", u32::from(c));
        } else {
            clean.push(c);
        }
    }
    clean
}

/// JSON in which nothing can do anything to a terminal either. Its meaning stays: control
/// characters stand in strings only.
pub fn clean_json(json: &str) -> String {
    let mut clean = String::with_capacity(json.len());
    let mut units = [0; 2];
    for c in json.chars() {
        if is_unsafe(c) {
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(clean, "\\u{unit:04x}");
            }
        } else {
            clean.push(c);
        }
    }
    clean
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_full_at_first_and_empty_only_at_the_end() {
        let ttl = Duration::from_secs(10);
        for (left, expected) in [
            (10_000, "█████"),
            (5_000, "██▌░░"),
            (4_100, "██▏░░"),
            (1, "▏░░░░"),
            (0, "░░░░░"),
        ] {
            assert_eq!(bar(Duration::from_millis(left), ttl, 5), expected);
        }
        assert_eq!(bar(ttl * 2, ttl, 5), "█████");
        assert_eq!(bar(Duration::ZERO, Duration::ZERO, 5), "░░░░░");
    }

    #[test]
    fn a_text_is_cut_where_it_is_too_long_alone() {
        assert_eq!(cut("größer", 6), "größer");
        assert_eq!(cut("größeren", 6), "größe…");
    }

    #[test]
    fn the_short_token_is_the_end_of_the_long_one() {
        let token = FencingToken {
            epoch: 7,
            sequence: 0x65b_feda_25e0,
        };
        assert!(token.to_string().ends_with(&short(token)["…".len()..]));
    }

    #[test]
    fn what_could_act_on_a_terminal_is_written_as_its_number() {
        let odd = "a\u{1b}[2J\u{9b}1m\u{202e}\n\u{7f}ä";
        assert_eq!(clean(odd), r"a\u{1b}[2J\u{9b}1m\u{202e}\u{a}\u{7f}ä");
        let json = clean_json(&serde_json::json!({ "x": odd }).to_string());
        assert!(!json.chars().any(is_unsafe), "{json}");
        let read: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(read["x"], odd);
    }

    #[test]
    fn no_time_is_too_late_to_be_written() {
        assert_eq!(stamp_of(1_500), "1970-01-01T00:00:01.500Z");
        assert_eq!(stamp_of(u64::MAX), "9999-12-31T23:59:59.000Z");
    }
}
