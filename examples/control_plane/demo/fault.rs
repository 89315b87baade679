//! The faults of a story.

use std::process::ExitStatus;

use super::board::Lead;
use super::history::{History, Work};
use crate::app::Role;
use crate::clock::Moment;

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Its process was killed.
    Kill,
    /// It was cut off from NATS.
    Cut,
    /// It was asked to stop.
    Stop,
}

/// One fault, as the story knows it: everything else comes from the histories.
#[derive(Clone, Debug)]
pub struct Fault {
    pub kind: Kind,
    pub victim: String,
    pub pid: u32,
    /// The roles that it led.
    pub roles: Vec<Role>,
    /// Just before it was done.
    pub at: Moment,
    /// How its process ended, and when that was known.
    pub exit: Option<ExitStatus>,
    pub gone: Option<Moment>,
    /// When the instance was started or connected again.
    pub undone: Option<Moment>,
    /// When the story went on.
    pub until: Moment,
}

impl Fault {
    /// A fault that is about to happen.
    pub fn new(kind: Kind, victim: &Lead, roles: &[Role]) -> Self {
        let at = Moment::now();
        Self {
            kind,
            victim: victim.instance.clone(),
            pid: victim.pid,
            roles: roles.to_vec(),
            at,
            until: at,
            exit: None,
            gone: None,
            undone: None,
        }
    }

    /// When the victim's handler ended because of it.
    pub fn ended(&self, history: &History, role: Role) -> Option<Moment> {
        history
            .ended(self.pid, role, self.at)
            .filter(|at| *at < self.until)
    }

    /// The first work of the next leader.
    pub fn successor<'a>(&self, history: &'a History, role: Role) -> Option<Work<'a>> {
        let next = history.successor(role, self.pid, self.at);
        next.filter(|work| work.start < self.until)
    }

    /// The victim's fate, in a word.
    pub const fn title(&self) -> &'static str {
        match self.kind {
            Kind::Kill => "killed",
            Kind::Cut => "cut off",
            Kind::Stop => "stopped",
        }
    }
}
