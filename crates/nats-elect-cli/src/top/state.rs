//! What of all that is known is looked at.

use std::cmp::Reverse;

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
    /// Instances further to the left.
    Left,
    /// Instances further to the right.
    Right,
    /// Begins to type a filter.
    Filter,
    Typed(char),
    Erase,
    /// Ends typing; the filter stays.
    Keep,
    /// Ends typing, and shows everything again.
    Clear,
    Sort,
    /// Lets the picture stand still, or go on.
    Freeze,
    Help,
}

/// In which order roles are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Name,
    Leader,
    /// The shortest remaining lease first.
    Lease,
    /// The latest change of the leader first.
    Change,
}

/// What is shown.
#[derive(Debug)]
pub struct State {
    facts: Facts,
    /// The picture that stands still, if it does.
    still: Option<Facts>,
    selected: Option<String>,
    /// How many instances are out of sight on the left.
    pub column: usize,
    pub filter: String,
    pub typing: bool,
    pub sort: Sort,
    pub help: bool,
}

/// Roles that a page key goes by.
const PAGE: usize = 10;

impl State {
    pub fn new(facts: Facts) -> Self {
        Self {
            facts,
            still: None,
            selected: None,
            column: 0,
            filter: String::new(),
            typing: false,
            sort: Sort::default(),
            help: false,
        }
    }

    /// What is known: for what is learned, also while the picture stands still.
    pub const fn facts_mut(&mut self) -> &mut Facts {
        &mut self.facts
    }

    /// What is shown.
    pub fn facts(&self) -> &Facts {
        self.still.as_ref().unwrap_or(&self.facts)
    }

    pub const fn is_frozen(&self) -> bool {
        self.still.is_some()
    }

    /// The roles that pass the filter, in order.
    pub fn roles(&self) -> Vec<&str> {
        let facts = self.facts();
        let wanted = self.filter.to_lowercase();
        let passes = |name: &str| {
            let leader = facts.roles[name].leader.as_ref();
            name.to_lowercase().contains(&wanted)
                || leader.is_some_and(|leader| leader.id.to_lowercase().contains(&wanted))
        };
        let names = facts.roles.keys().map(String::as_str);
        let mut names: Vec<&str> = names.filter(|name| passes(name)).collect();
        match self.sort {
            // As they come.
            Sort::Name => {}
            Sort::Leader => names.sort_by_key(|name| {
                let leader = facts.roles[*name].leader.as_ref();
                (leader.is_some(), leader)
            }),
            Sort::Lease => names.sort_by_key(|name| facts.roles[*name].remaining),
            Sort::Change => names.sort_by_key(|name| Reverse(facts.last_change(name))),
        }
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
            Action::Left => self.column = self.column.saturating_sub(1),
            Action::Right => {
                let last = self.facts().columns().len().saturating_sub(1);
                self.column = (self.column + 1).min(last);
            }
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
            Action::Sort => {
                self.sort = match self.sort {
                    Sort::Name => Sort::Leader,
                    Sort::Leader => Sort::Lease,
                    Sort::Lease => Sort::Change,
                    Sort::Change => Sort::Name,
                }
            }
            Action::Freeze => {
                self.still = match self.still.take() {
                    Some(_) => None,
                    None => Some(self.facts.clone()),
                }
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
