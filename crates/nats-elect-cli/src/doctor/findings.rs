//! What was found, line by line.

use std::io;

use serde::Serialize;
use serde_json::json;

use crate::exit::{Code, Outcome};
use crate::output::Output;
use crate::text::{clean, wrapped};

/// The width of lines, in characters.
const WIDTH: usize = 90;

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
    /// Whether all of it was written.
    written: io::Result<()>,
}

impl Findings {
    pub const fn new(output: Output) -> Self {
        Self {
            output,
            all: Vec::new(),
            written: Ok(()),
        }
    }

    pub fn ok(&mut self, check: &'static str, found: impl Into<String>) {
        self.add(check, Verdict::Ok, found.into(), None);
    }

    pub fn warn(
        &mut self,
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.add(check, Verdict::Warn, found.into(), Some(advice.into()));
    }

    pub fn fail(
        &mut self,
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.add(check, Verdict::Fail, found.into(), Some(advice.into()));
    }

    pub fn skipped(&mut self, check: &'static str, why: impl Into<String>) {
        self.add(check, Verdict::Skipped, why.into(), None);
    }

    pub fn add(
        &mut self,
        check: &'static str,
        verdict: Verdict,
        found: String,
        advice: Option<String>,
    ) {
        let finding = Finding {
            check,
            verdict,
            found,
            advice,
        };
        if !self.output.is_data() && self.written.is_ok() {
            self.written = self.show(&finding);
        }
        self.all.push(finding);
    }

    fn show(&self, finding: &Finding) -> io::Result<()> {
        let shown = self.coloured(finding.verdict);
        let mut head = format!("{shown} {:<17} ", finding.check);
        let advice = finding.advice.iter().map(|advice| format!("-> {advice}"));
        let lines = wrapped(&clean(&finding.found), WIDTH).into_iter();
        for line in lines.chain(advice.flat_map(|it| wrapped(&it, WIDTH))) {
            self.output.line(format!("{head}{line}"))?;
            head = " ".repeat(26);
        }
        Ok(())
    }

    /// Ends with the sum of it. Failures count, and with `strict` warnings, too.
    pub fn sum_up(self, strict: bool) -> Outcome {
        self.written?;
        let count = |verdict| self.all.iter().filter(|it| it.verdict == verdict).count();
        let [ok, warn, fail, skipped] =
            [Verdict::Ok, Verdict::Warn, Verdict::Fail, Verdict::Skipped].map(count);
        if self.output.is_data() {
            self.output.data(&json!({
                "checks": self.all, "ok": ok, "warn": warn, "fail": fail, "skipped": skipped,
            }))?;
        } else {
            self.output.line(format!(
                "\n{ok} ok, {warn} to look at, {fail} failed, {skipped} skipped"
            ))?;
        }
        let failed = fail > 0 || strict && warn > 0;
        Ok(if failed { Code::Failed as u8 } else { 0 })
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
