//! The events of the past that are kept.

use std::collections::VecDeque;

use nats_elect::{LeaderChange, LeaderEvent};

use crate::past_event::MOST;

/// The events of all roles as they came, the oldest first, but those of one role in the order of its
/// terms.
#[derive(Clone, Default, PartialEq)]
pub struct Kept(pub VecDeque<LeaderEvent>);

impl Kept {
    /// Adds an event of which others may have been told before. Returns whether it is new: it may
    /// have been published while the past was read.
    pub fn remember(&mut self, event: &LeaderEvent) -> bool {
        if self.0.contains(event) {
            return false;
        }
        // Two instances report one handoff, and the later leader may be the first to do so.
        let term = |event: &LeaderEvent| {
            let is_end = matches!(event.change, LeaderChange::TermEnded { .. });
            (event.fencing_token, is_end)
        };
        let mut last = event.clone();
        for it in self.0.iter_mut().filter(|it| it.role == event.role) {
            if term(it) > term(&last) {
                std::mem::swap(it, &mut last);
            }
        }
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(last);
        true
    }

    /// The events of one role or of all, the oldest first.
    pub fn all(&self, role: Option<&str>) -> Vec<LeaderEvent> {
        let is_meant = |it: &&LeaderEvent| role.is_none_or(|role| it.role == role);
        self.0.iter().filter(is_meant).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::past_event;

    fn started(role: &str, sequence: u64) -> LeaderEvent {
        past_event::started(sequence, "i", serde_json::json!({ "role": role }))
    }

    fn tokens(kept: &Kept, role: Option<&str>) -> Vec<(String, u64)> {
        let all = kept.all(role).into_iter();
        all.map(|it| (it.role, it.fencing_token.sequence)).collect()
    }

    fn of(all: &[(&str, u64)]) -> Vec<(String, u64)> {
        let all = all.iter();
        all.map(|(role, n)| ((*role).to_owned(), *n)).collect()
    }

    #[test]
    fn events_of_a_role_are_in_the_order_of_its_terms_and_each_is_kept_once() {
        let mut kept = Kept([started("a", 1)].into());
        for (role, sequence, is_new) in [
            ("a", 5, true),
            ("b", 2, true),
            ("a", 3, true),
            ("a", 5, false),
        ] {
            assert_eq!(kept.remember(&started(role, sequence)), is_new);
        }
        let all = of(&[("a", 1), ("a", 3), ("b", 2), ("a", 5)]);
        assert_eq!(tokens(&kept, None), all);
        assert_eq!(
            tokens(&kept, Some("a")),
            of(&[("a", 1), ("a", 3), ("a", 5)])
        );
    }

    #[test]
    fn the_oldest_events_make_room() {
        let mut kept = Kept([started("old", 1)].into());
        for sequence in 1..=MOST as u64 {
            kept.remember(&started(&format!("r{}", sequence % 7), sequence));
        }
        assert_eq!(tokens(&kept, Some("old")), []);
        assert_eq!(kept.all(None).len(), MOST);
    }
}
