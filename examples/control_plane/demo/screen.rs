//! The text for people: plain lines, with colours on a terminal.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use super::board::Lead;
use crate::app::{Role, short};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Writes one line to standard output. A reader that went away is remembered, and is no reason to
/// fail.
pub fn say(line: &str) {
    let mut out = io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        CLOSED.store(true, Ordering::Relaxed);
    }
}

/// Whether nobody reads standard output any more.
pub fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Writes one line to standard error.
pub fn complain(problem: &str) {
    let _ = writeln!(io::stderr(), "control_plane: {problem}");
}

/// How text may look here.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    colours: bool,
}

impl Style {
    /// Colours only on a terminal, and not where `NO_COLOR` asks for none.
    pub fn of_stdout() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            colours: io::stdout().is_terminal() && !refused,
        }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colours {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// A heading.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Good news.
    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// Bad news.
    pub fn bad(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// Each instance has its own colour.
    fn instance(self, name: &str, text: &str) -> String {
        let number = name.bytes().map(usize::from).sum::<usize>();
        self.paint(["36", "33", "35"][number % 3], text)
    }

    /// All roles with their leaders, on one line.
    pub fn leaders(self, leads: &[Option<Lead>; 3]) -> String {
        let mut line = String::new();
        for (role, lead) in Role::ALL.into_iter().zip(leads) {
            let text = match lead {
                Some(lead) => format!("{} {}", lead.instance, short(lead.fencing_token)),
                None => "—".to_owned(),
            };
            let padded = format!("{text:<15}");
            let shown = match lead {
                Some(lead) => self.instance(&lead.instance, &padded),
                None => padded,
            };
            let _ = write!(line, "{role} {shown}");
        }
        line.trim_end().to_owned()
    }
}

/// The names of roles.
pub fn list(roles: &[Role]) -> String {
    roles
        .iter()
        .map(|role| role.name())
        .collect::<Vec<_>>()
        .join(", ")
}
