//! The line of leader changes that wait to be published.

use std::collections::VecDeque;

use crate::model::leader_event::LeaderEvent;

/// The number of changes that may wait. An instance may win thousands of roles at once, and lose them
/// again.
const MOST: usize = 20_000;

/// Leader changes in their order. Where too many wait, the oldest is dropped, except for the one
/// that is being published.
#[derive(Default)]
pub(super) struct Line {
    news: VecDeque<LeaderEvent>,
    /// Whether the first change is being published.
    telling: bool,
    /// The number of dropped changes since the line was last empty.
    dropped: u64,
}

impl Line {
    pub fn join(&mut self, event: LeaderEvent) {
        if self.news.len() >= MOST {
            self.news.remove(usize::from(self.telling));
            if self.dropped == 0 {
                tracing::warn!(
                    most = MOST,
                    "too many leader changes wait to be published: the oldest are dropped"
                );
            }
            self.dropped += 1;
        }
        self.news.push_back(event);
    }

    /// Returns the first change, which is being published from now on.
    pub fn tell(&mut self) -> Option<LeaderEvent> {
        let first = self.news.front().cloned();
        self.telling = first.is_some();
        first
    }

    /// Records that the change that was being published, if any, is published.
    pub fn told(&mut self) {
        if std::mem::take(&mut self.telling) {
            self.news.pop_front();
        }
        if self.news.is_empty() {
            let dropped = std::mem::take(&mut self.dropped);
            if dropped > 0 {
                tracing::warn!(dropped, "leader changes were dropped, and not published");
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.news.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::model::leader_event::LeaderChange;
    use nats_elect_core::event::Vacancy;
    use nats_elect_core::token::{CorrelationId, FencingToken};

    fn event(role: &str, at_ms: u64) -> LeaderEvent {
        LeaderEvent {
            bucket: "leaders".into(),
            role: role.into(),
            instance_id: "node-1".into(),
            incarnation: Uuid::nil(),
            correlation_id: CorrelationId::new(Uuid::nil(), 1, at_ms),
            fencing_token: FencingToken {
                epoch: 1,
                sequence: at_ms,
            },
            at_ms,
            change: LeaderChange::started(Vacancy::Untouched, None, None),
        }
    }

    /// Publishes all changes. Returns the time of each.
    fn tell_all(line: &mut Line) -> Vec<u64> {
        let mut told = Vec::new();
        while let Some(event) = line.tell() {
            told.push(event.at_ms);
            line.told();
        }
        told
    }

    #[test]
    fn each_of_thousands_of_simultaneous_wins_is_published() {
        let mut line = Line::default();
        let wins = 0..MOST as u64;
        for at in wins.clone() {
            line.join(event(&format!("role-{at}"), at));
        }
        assert_eq!(tell_all(&mut line), wins.collect::<Vec<_>>());
        assert!(line.is_empty());
    }

    #[test]
    fn a_full_line_drops_its_oldest_change_that_is_not_being_published() {
        let most = MOST as u64;
        for telling in [false, true] {
            let mut line = Line::default();
            for at in 0..most {
                line.join(event("r", at));
            }
            if telling {
                assert_eq!(line.tell().map(|event| event.at_ms), Some(0));
            }
            line.join(event("r", most));
            line.join(event("r", most + 1));
            assert_eq!(line.dropped, 2);
            let told = tell_all(&mut line);
            let (first, then) = if telling { (0, 3) } else { (2, 3) };
            assert_eq!((told[0], told[1]), (first, then));
            assert_eq!((told.len() as u64, told.last()), (most, Some(&(most + 1))));
            assert_eq!(line.dropped, 0, "it was said");
        }
    }
}
