//! What of all that is known is looked at.

use super::facts::Facts;

/// What was typed means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Quit,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    /// Begins to type a filter.
    Filter,
    Typed(char),
    Erase,
    /// Ends typing; the filter stays.
    Keep,
    /// Ends typing, and shows everything again.
    Clear,
    Help,
}

/// What is shown.
pub struct State {
    pub facts: Facts,
    selected: Option<String>,
    pub filter: String,
    pub typing: bool,
    pub help: bool,
}

/// Roles that a page key goes by.
const PAGE: usize = 10;

impl State {
    pub fn new(facts: Facts) -> Self {
        Self {
            facts,
            selected: None,
            filter: String::new(),
            typing: false,
            help: false,
        }
    }

    /// The roles that pass the filter: those that are not known to be led first.
    pub fn roles(&self) -> Vec<&str> {
        let facts = &self.facts;
        let wanted = self.filter.to_lowercase();
        let passes = |name: &str| {
            let leader = facts.roles[name].leader.as_ref();
            name.to_lowercase().contains(&wanted)
                || leader.is_some_and(|leader| leader.instance_id.to_lowercase().contains(&wanted))
        };
        let names = facts.roles.keys().map(String::as_str);
        let mut names: Vec<&str> = names.filter(|name| passes(name)).collect();
        names.sort_by_key(|name| facts.roles[*name].urgency());
        names
    }

    /// Where the selected one of these roles stands; the first if it is not among them.
    pub fn selected(&self, roles: &[&str]) -> usize {
        let selected = self.selected.as_deref();
        let at = roles.iter().position(|role| Some(*role) == selected);
        at.unwrap_or(0)
    }

    /// Does what was typed; false if that is to end.
    pub fn act(&mut self, action: Action) -> bool {
        match action {
            Action::Quit => return false,
            Action::Up => self.go(|at, _| at.saturating_sub(1)),
            Action::Down => self.go(|at, _| at + 1),
            Action::PageUp => self.go(|at, _| at.saturating_sub(PAGE)),
            Action::PageDown => self.go(|at, _| at + PAGE),
            Action::First => self.go(|_, _| 0),
            Action::Last => self.go(|_, last| last),
            Action::Filter => self.typing = true,
            Action::Typed(character) => self.filter.push(character),
            Action::Erase => {
                self.filter.pop();
            }
            Action::Keep => self.typing = false,
            Action::Clear => {
                self.typing = false;
                self.help = false;
                self.filter.clear();
            }
            Action::Help => self.help = !self.help,
        }
        true
    }

    fn go(&mut self, to: impl FnOnce(usize, usize) -> usize) {
        let roles = self.roles();
        let last = roles.len().saturating_sub(1);
        let at = to(self.selected(&roles), last).min(last);
        self.selected = roles.get(at).map(|role| (*role).to_owned());
    }
}
