//! What was found, line by line.

use std::io;

use serde::Serialize;

use crate::output::Output;
use crate::text::clean;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    /// It works, but something is risked.
    Warn,
    /// An election can't be held, or not as it is configured.
    Fail,
    /// It could not be looked at, which says nothing about it.
    Skipped,
}

/// One line.
#[derive(Serialize)]
pub struct Finding {
    pub check: &'static str,
    pub verdict: Verdict,
    pub found: String,
    /// What to change, where something is to be changed.
    pub advice: Option<String>,
}

/// All that was found so far. People see it as it is found.
pub struct Findings {
    output: Output,
    all: Vec<Finding>,
}

impl Findings {
    pub const fn new(output: Output) -> Self {
        Self {
            output,
            all: Vec::new(),
        }
    }

    pub fn ok(&mut self, check: &'static str, found: impl Into<String>) -> io::Result<()> {
        self.add(check, Verdict::Ok, found.into(), None)
    }

    pub fn warn(
        &mut self,
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> io::Result<()> {
        self.add(check, Verdict::Warn, found.into(), Some(advice.into()))
    }

    pub fn fail(
        &mut self,
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> io::Result<()> {
        self.add(check, Verdict::Fail, found.into(), Some(advice.into()))
    }

    pub fn skipped(&mut self, check: &'static str, why: impl Into<String>) -> io::Result<()> {
        self.add(check, Verdict::Skipped, why.into(), None)
    }

    fn add(
        &mut self,
        check: &'static str,
        verdict: Verdict,
        found: String,
        advice: Option<String>,
    ) -> io::Result<()> {
        if !self.output.is_data() {
            let shown = self.coloured(verdict);
            let mut head = format!("{shown} {check:<17} ");
            let advice = advice.iter().map(|advice| format!("-> {advice}"));
            for line in wrapped(&clean(&found))
                .into_iter()
                .chain(advice.flat_map(|it| wrapped(&it)))
            {
                self.output.line(format!("{head}{line}"))?;
                head = " ".repeat(26);
            }
        }
        self.all.push(Finding {
            check,
            verdict,
            found,
            advice,
        });
        Ok(())
    }

    /// Ends with the sum of it. Whether it counts as a failure: with `strict` warnings do.
    pub fn sum_up(self, strict: bool) -> io::Result<bool> {
        let count = |verdict| self.all.iter().filter(|it| it.verdict == verdict).count();
        let [ok, warn, fail, skipped] =
            [Verdict::Ok, Verdict::Warn, Verdict::Fail, Verdict::Skipped].map(count);
        if self.output.is_data() {
            self.output.data(&serde_json::json!({
                "checks": self.all,
                "ok": ok, "warn": warn, "fail": fail, "skipped": skipped,
            }))?;
        } else {
            self.output.line(format!(
                "\n{ok} ok, {warn} to look at, {fail} failed, {skipped} skipped"
            ))?;
        }
        Ok(fail > 0 || strict && warn > 0)
    }

    fn coloured(&self, verdict: Verdict) -> String {
        let (word, colour) = match verdict {
            Verdict::Ok => ("ok", 32),
            Verdict::Warn => ("warn", 33),
            Verdict::Fail => ("FAIL", 31),
            Verdict::Skipped => ("skipped", 2),
        };
        if self.output.colours() {
            format!("\u{1b}[{colour}m{word:<7}\u{1b}[0m")
        } else {
            format!("{word:<7}")
        }
    }
}

/// Lines of at most that many characters, but for words that are longer.
fn wrapped(text: &str) -> Vec<String> {
    const WIDTH: usize = 90;
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
