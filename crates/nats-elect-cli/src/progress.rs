//! How far a command has come, on stderr, for people. Programs get the result alone.

use std::cell::RefCell;
use std::time::Duration;

use tokio::time::Instant;

use crate::fleet::now;
use crate::output::Output;

/// The pause between two lines about one wait.
const PAUSE: Duration = Duration::from_secs(10);

/// Tells of a step.
pub fn progress(output: Output, what: &str) {
    output.note(&format!("… {what}"));
}

/// Tells of a long wait, now and then.
pub struct Wait {
    output: Output,
    begun: Instant,
    told: RefCell<Option<(Duration, String)>>,
}

impl Wait {
    pub fn new(output: Output) -> Self {
        Self {
            output,
            begun: now(),
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
            && (last == what || now < *at + PAUSE)
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
    fn a_change_is_told_and_a_line_in_ten_seconds_at_most() {
        let wait = Wait::new(Output::default());
        let steps = [
            (0, "3"),
            (1, "2"),
            (9, "1"),
            (10, "1"),
            (30, "1"),
            (31, "0"),
        ];
        let steps = steps.into_iter();
        let told = steps.filter(|(at, what)| wait.is_due(what, Duration::from_secs(*at)));
        let told: Vec<_> = told.collect();
        assert_eq!(told, [(0, "3"), (10, "1"), (31, "0")]);
    }
}
