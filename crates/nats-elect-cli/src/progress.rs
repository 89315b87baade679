//! How far a command has come, on stderr, for people. Programs get the result alone.

use std::cell::RefCell;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use crate::output::Output;

/// The pause between two lines about one wait, where nobody looks on.
const PAUSE: Duration = Duration::from_secs(10);

/// Tells of a step.
pub fn progress(output: Output, what: &str) {
    output.note(&format!("… {what}"));
}

/// Tells of a long wait: each change to the user of a terminal, and fewer of them to a log.
pub struct Wait {
    output: Output,
    pause: Duration,
    begun: Instant,
    told: RefCell<Option<(Duration, String)>>,
}

impl Wait {
    #[expect(
        clippy::disallowed_methods,
        reason = "for people to read; no lease rests on it"
    )]
    pub fn new(output: Output) -> Self {
        let is_seen = io::stderr().is_terminal();
        Self {
            output,
            pause: if is_seen { Duration::ZERO } else { PAUSE },
            begun: Instant::now(),
            told: RefCell::default(),
        }
    }

    /// Tells how things are. To be called again and again, also if nothing has changed: what was
    /// left out may be due.
    pub fn tell(&self, what: &str) {
        if self.is_due(what, self.begun.elapsed()) {
            progress(self.output, what);
        }
    }

    fn is_due(&self, what: &str, now: Duration) -> bool {
        let mut told = self.told.borrow_mut();
        if let Some((at, last)) = &*told
            && (last == what || now < *at + self.pause)
        {
            return false;
        }
        *told = Some((now, what.to_owned()));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_a_line_in_ten_seconds_and_a_terminal_each_change() {
        let steps = [
            (0, "3"),
            (0, "3"),
            (1, "2"),
            (9, "1"),
            (10, "1"),
            (30, "1"),
            (31, "0"),
        ];
        let told = |pause| {
            let wait = Wait {
                pause,
                ..Wait::new(Output::bare(false))
            };
            let steps = steps.into_iter();
            let told = steps.filter(|(at, what)| wait.is_due(what, Duration::from_secs(*at)));
            told.collect::<Vec<_>>()
        };
        assert_eq!(told(PAUSE), [(0, "3"), (10, "1"), (31, "0")]);
        let all = [(0, "3"), (1, "2"), (9, "1"), (31, "0")];
        assert_eq!(told(Duration::ZERO), all);
    }
}
