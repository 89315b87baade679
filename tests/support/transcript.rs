//! Sessions of a shell in the documentation: what is typed there is typed, and what is printed has
//! the shape of what is shown.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// For what a command prints.
const PATIENCE: Duration = Duration::from_secs(30);
/// A stream says each second that it goes on.
const MOST_OTHERS: usize = 60;

/// A command, and what the documentation shows as its output.
pub struct Step {
    pub command: String,
    pub shown: String,
}

/// The session of a page in which this is typed.
pub fn session(blocks: &[super::markdown::Block], typed: &str) -> Vec<Step> {
    let is_it = |text: &str| steps(text).iter().any(|it| it.command.contains(typed));
    let block = blocks
        .iter()
        .find(|it| it.info == "console" && is_it(&it.text));
    steps(
        &block
            .unwrap_or_else(|| panic!("no session with {typed}"))
            .text,
    )
}

fn steps(block: &str) -> Vec<Step> {
    let mut steps = Vec::<Step>::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step {
                command: command.to_owned(),
                shown: String::new(),
            }),
            (None, Some(step)) if step.command.ends_with('\\') => {
                step.command.push('\n');
                step.command.push_str(line);
            }
            (None, Some(step)) => step.shown.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    steps
}

/// Whether this machine has the programs that these sessions need.
pub fn can_be_typed() -> bool {
    let is_there = |program| {
        let mut command = Command::new(program);
        let command = command.arg("--version").stdout(Stdio::null());
        command.status().is_ok_and(|it| it.success())
    };
    let can = is_there("curl") && is_there("jq");
    if !can {
        eprintln!("no curl, or no jq: the sessions of the documentation are not tried");
    }
    can
}

/// Types all commands into one shell, after these replacements.
pub fn type_in(steps: &[Step], replaced: &[(&str, &str)]) {
    const END: &str = "\u{1}";
    let commands = steps.iter().map(|it| &*it.command);
    let script: String = commands
        .flat_map(|it| [it, "\nprintf '", END, "'\n"])
        .collect();
    let ran = Command::new("sh")
        .arg("-c")
        .arg(with(&script, replaced))
        .output();
    let ran = ran.expect("a shell");
    let said = String::from_utf8(ran.stdout).expect("text");
    let mut said = said.split(END);
    for step in steps {
        let said = said.next().unwrap_or_default();
        assert!(
            is_alike(&step.shown, said),
            "$ {}\n{said}\nis not what is shown:\n{}{}",
            step.command,
            step.shown,
            String::from_utf8_lossy(&ran.stderr)
        );
    }
}

/// Begins a command that goes on. What it prints is compared while this is read, line by line.
pub fn begin(step: &Step, replaced: &[(&str, &str)]) -> Stream {
    let command = format!("exec {}", with(&step.command, replaced));
    let mut shell = Command::new("sh");
    let shell = shell.arg("-c").arg(command).stdout(Stdio::piped()).spawn();
    let mut child = shell.expect("a shell");
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let (printed, lines) = channel();
    thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            let _ = printed.send(line);
        }
    });
    let shown = step.shown.lines().filter(|line| !line.is_empty());
    Stream {
        child,
        lines,
        shown: shown.map(ToOwned::to_owned).collect(),
    }
}

/// A command that goes on. It ends with this.
pub struct Stream {
    child: Child,
    lines: Receiver<String>,
    shown: VecDeque<String>,
}

impl Stream {
    /// Reads until all is printed that is shown before a line with this text, and that line. Lines
    /// that are not shown are passed over.
    pub fn shows(&mut self, last: &str) {
        let mut others = Vec::new();
        while let Some(wanted) = self.shown.pop_front() {
            loop {
                let line = self.lines.recv_timeout(PATIENCE);
                let line = line.ok().filter(|_| others.len() < MOST_OTHERS);
                let Some(line) = line else {
                    panic!("{wanted:?} is shown, and not printed: {others:#?}");
                };
                if is_alike(&wanted, &line) {
                    break;
                }
                others.push(line);
            }
            if wanted.contains(last) {
                return;
            }
        }
        panic!("{last} is not shown");
    }

    /// All of it was printed.
    pub fn is_over(&self) -> bool {
        self.shown.is_empty()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn with(text: &str, replaced: &[(&str, &str)]) -> String {
    let mut text = text.to_owned();
    for (shown, here) in replaced {
        text = text.replace(shown, here);
    }
    text
}

/// Whether two outputs differ in nothing but times, numbers of this run, and their like.
fn is_alike(shown: &str, said: &str) -> bool {
    if let (Some(shown), Some(said)) = (values(shown), values(said)) {
        let pairs = shown.iter().zip(&said);
        return shown.len() == said.len() && pairs.into_iter().all(|(a, b)| is_alike_json(a, b));
    }
    let (shown, said) = (shown.lines(), said.lines());
    let is_alike = |(shown, said): (&str, &str)| {
        let data = |line: &str| line.strip_prefix("data: ").and_then(values);
        if let (Some(shown), Some(said)) = (data(shown), data(said)) {
            return is_alike_json(&shown[0], &said[0]);
        }
        let (shown, said) = (shown.split(' '), said.split(' '));
        let as_many = shown.clone().count() == said.clone().count();
        as_many && shown.zip(said).all(|(a, b)| is_alike_text(a, b))
    };
    shown.clone().count() == said.clone().count() && shown.zip(said).all(is_alike)
}

/// Text as JSON, if it is nothing else.
fn values(text: &str) -> Option<Vec<Value>> {
    let values = serde_json::Deserializer::from_str(text).into_iter();
    let values: Vec<Value> = values.collect::<Result<_, _>>().ok()?;
    (!values.is_empty()).then_some(values)
}

fn is_alike_json(shown: &Value, said: &Value) -> bool {
    match (shown, said) {
        (Value::Object(shown), Value::Object(said)) => {
            let has = |(name, value)| {
                let of_name = said.get::<String>(name);
                of_name.is_some_and(|it| is_alike_json(value, it))
            };
            shown.len() == said.len() && shown.iter().all(has)
        }
        (Value::Array(shown), Value::Array(said)) => {
            let mut pairs = shown.iter().zip(said);
            shown.len() == said.len() && pairs.all(|(a, b)| is_alike_json(a, b))
        }
        (Value::String(shown), Value::String(said)) => is_alike_text(shown, said),
        // Statuses are told exactly, revisions and durations are of a run.
        (Value::Number(shown), Value::Number(said)) => match shown.as_u64() {
            Some(number) if number < 1000 => shown == said,
            _ => shown.is_f64() == said.is_f64(),
        },
        (shown, said) => shown == said,
    }
}

/// A text with several digits is a time, a token, or the like.
fn is_alike_text(shown: &str, said: &str) -> bool {
    let is_of_a_run = shown.bytes().filter(u8::is_ascii_digit).count() > 3;
    shown == said || (is_of_a_run && said.contains(|c: char| c.is_ascii_digit()))
}
