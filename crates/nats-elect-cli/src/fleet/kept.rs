//! The events of the past that are kept.

use std::collections::{BTreeMap, VecDeque};

use nats_elect::{LeaderChange, LeaderEvent};

use crate::past_event::MOST;

/// Events by role, so that one more costs what its role has and no more.
#[derive(Default)]
pub struct Kept {
    /// Of each role in the order of its terms, each with its place among all.
    roles: BTreeMap<String, VecDeque<(u64, LeaderEvent)>>,
    /// The role of each event in the order in which they came.
    order: VecDeque<String>,
    /// The place of the next event.
    next: u64,
}

impl Kept {
    /// Adds an event that is later than those of its role.
    pub fn add(&mut self, event: LeaderEvent) {
        let role = event.role.clone();
        let place = self.place();
        self.of(role).push_back((place, event));
    }

    /// Adds an event of which others may have been told before. Returns whether it is new: it may
    /// have been published while the past was read.
    pub fn remember(&mut self, event: &LeaderEvent) -> bool {
        let known = self.roles.get(&event.role);
        if known.is_some_and(|known| known.iter().any(|(_, it)| it == event)) {
            return false;
        }
        let place = self.place();
        // Two instances report one handoff, and the later leader may be the first to do so.
        let term = |event: &LeaderEvent| {
            let is_end = matches!(event.change, LeaderChange::TermEnded { .. });
            (event.fencing_token, is_end)
        };
        let events = self.of(event.role.clone());
        let later = events.iter().position(|(_, it)| term(it) > term(event));
        let at = later.unwrap_or(events.len());
        // The later ones move on by one place each.
        let mut carried = event.clone();
        for (_, it) in events.iter_mut().skip(at) {
            std::mem::swap(it, &mut carried);
        }
        events.push_back((place, carried));
        true
    }

    /// The events of one role or of all, the oldest first.
    pub fn all(&self, role: Option<&str>) -> Vec<LeaderEvent> {
        let mut events: Vec<_> = match role {
            Some(role) => self.roles.get(role).into_iter().flatten().collect(),
            None => self.roles.values().flatten().collect(),
        };
        events.sort_by_key(|(place, _)| *place);
        events.into_iter().map(|(_, event)| event.clone()).collect()
    }

    /// The place of the next event, with room for it.
    fn place(&mut self) -> u64 {
        if self.order.len() == MOST
            && let Some(role) = self.order.pop_front()
            && let Some(events) = self.roles.get_mut(&role)
        {
            events.pop_front();
            if events.is_empty() {
                self.roles.remove(&role);
            }
        }
        self.next += 1;
        self.next
    }

    fn of(&mut self, role: String) -> &mut VecDeque<(u64, LeaderEvent)> {
        self.order.push_back(role.clone());
        self.roles.entry(role).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(role: &str, sequence: u64) -> LeaderEvent {
        let json = format!(
            "{{\"v\":1,\"bucket\":\"b\",\"role\":\"{role}\",\"instance_id\":\"i\",\
             \"incarnation\":\"00000000-0000-0000-0000-000000000001\",\"correlation_id\":\"c\",\
             \"fencing_token\":\"{sequence:032x}\",\"at_ms\":1,\"event\":\"term_started\",\
             \"vacancy\":\"expired\"}}"
        );
        LeaderEvent::parse(json.as_bytes()).expect("an event")
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
        let mut kept = Kept::default();
        kept.add(started("a", 1));
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
        let mut kept = Kept::default();
        kept.add(started("old", 1));
        for sequence in 1..=MOST as u64 {
            kept.remember(&started(&format!("r{}", sequence % 7), sequence));
        }
        assert_eq!(tokens(&kept, Some("old")), []);
        assert_eq!(kept.all(None).len(), MOST);
    }
}
