//! What of all that is known is looked at.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::facts::Facts;

/// What is shown.
#[derive(Default)]
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

    /// Does what a key means; false if that is to end. While a filter is typed, characters are part
    /// of it.
    pub fn press(&mut self, key: KeyEvent) -> bool {
        if key.kind == KeyEventKind::Release {
            return true;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return key.code != KeyCode::Char('c');
        }
        match key.code {
            KeyCode::Backspace if self.typing => drop(self.filter.pop()),
            KeyCode::Char(character) if self.typing => self.filter.push(character),
            KeyCode::Up | KeyCode::Char('k') => self.go(|at, _| at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.go(|at, _| at + 1),
            KeyCode::PageUp => self.go(|at, _| at.saturating_sub(PAGE)),
            KeyCode::PageDown => self.go(|at, _| at + PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.go(|_, _| 0),
            KeyCode::End | KeyCode::Char('G') => self.go(|_, last| last),
            KeyCode::Esc => {
                self.typing = false;
                self.help = false;
                self.filter.clear();
            }
            KeyCode::Enter => self.typing = false,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('?') => self.help = !self.help,
            KeyCode::Char('q') => return false,
            _ => {}
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
