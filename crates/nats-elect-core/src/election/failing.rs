//! Instances whose terms keep failing. Such an instance does not ask a leader for the role, is no
//! heir, and claims last. It gets another chance after a pause that grows. Alone it leads all the
//! same: these rules order candidates, and keep nobody out.
//!
//! An instance counts the failures of its own terms. A process that dies forgets them. So others
//! count as well: the processes of one id that led for a short time only, one after the other. They
//! count what they saw from its beginning to its end. A term that was released ended in good order.

use std::time::Duration;

use uuid::Uuid;

use super::scene::Scene;
use super::streak::{Led, OtherId, Streak, pause_after, short};
use crate::event::{EndCause, Event};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::record::Content;
use crate::status::LeaderInfo;

/// So many other ids are remembered.
const MOST_IDS: usize = 16;

impl Scene {
    /// Until when this instance counts as one whose terms keep failing, if it does.
    pub fn failing_until(&self) -> Option<Moment> {
        let until = self.failing.own.until;
        (self.now < until).then_some(until)
    }

    /// Counts a term of this instance that has ended.
    pub fn count_own_term(&mut self, cause: EndCause, lasted: Duration) {
        mutated!(ForgetOwnFailures => return);
        let own = &mut self.failing.own;
        if lasted >= short(&self.settings) {
            *own = Streak::default();
        }
        if cause.is_failure() {
            own.add(self.now, &self.settings);
        }
    }

    /// A leader told that processes of this id kept failing: this one goes on with their count.
    pub fn told_to_be_failing(&mut self) {
        let own = &mut self.failing.own;
        own.terms = own.terms.max(2);
        let until = self.now + pause_after(2, &self.settings);
        own.until = own.until.max(until);
    }

    /// An operator says that this instance can lead.
    pub fn forgive(&mut self) {
        self.failing.own = Streak::default();
    }

    /// Reports that this instance keeps failing, or gets another chance.
    pub fn relabel_failing(&mut self) {
        let until = self.failing_until();
        if self.failing.told == until {
            return;
        }
        self.failing.told = until;
        let terms = self.failing.own.terms;
        self.tell(match until {
            Some(until) => Event::Failing {
                terms,
                pause: until.since(self.now),
            },
            None => Event::FailingOver,
        });
    }

    /// Whether processes of this id kept dying soon after they had come to lead.
    pub fn keeps_failing(&self, id: &str) -> bool {
        mutated!(ForgetShortTerms => return false);
        let known = self.failing.others.get(id);
        known.is_some_and(|known| self.now < known.streak.until)
    }

    /// Notes that the role's keys were seen.
    pub fn in_touch(&mut self) {
        self.failing.in_touch.get_or_insert(self.now);
    }

    /// Notes that the role's keys can't be seen. What leads now may end, and another begin.
    pub fn out_of_touch(&mut self) {
        self.failing.in_touch = None;
        self.failing.led = None;
    }

    /// Notes that another leader is known now, or none.
    pub fn leader_seen(&mut self, leader: Option<&LeaderInfo>) {
        let now = self.now;
        let Some(leader) = leader else {
            if self.was_released() {
                if let Some(led) = self.failing.led.take()
                    && now.since(led.since) >= short(&self.settings)
                {
                    self.failing.others.remove(&led.id);
                }
            } else if let Some(led) = &mut self.failing.led {
                led.until.get_or_insert(now);
            }
            return;
        };
        match &mut self.failing.led {
            Some(led) if Some(led.incarnation) == leader.incarnation => led.until = None,
            led => {
                if let Some(led) = led.take() {
                    self.count_term_of(led);
                }
                let begins = self.failing.in_touch.is_some_and(|since| since < now);
                let incarnation = leader.incarnation.filter(|_| begins && !leader.is_self);
                self.failing.led = incarnation.map(|incarnation| Led {
                    id: leader.instance_id.clone(),
                    incarnation,
                    since: now,
                    until: None,
                });
            }
        }
    }

    /// Whether the role is released, by a release that is believed.
    fn was_released(&self) -> bool {
        let seen = self.observed_role.seen().map(|entry| &entry.content);
        matches!(seen, Some(Content::Release(_))) && self.observed_role.is_vouched()
    }

    /// Counts the term of another instance that has ended.
    fn count_term_of(&mut self, led: Led) {
        let ended = led.until.unwrap_or(self.now);
        let others = &mut self.failing.others;
        if ended.since(led.since) >= short(&self.settings) {
            others.remove(&led.id);
            return;
        }
        if others.len() >= MOST_IDS && !others.contains_key(&led.id) {
            let first = others.iter().min_by_key(|(_, it)| it.streak.until);
            let first = first.map(|(id, _)| id.clone());
            first.and_then(|id| others.remove(&id));
        }
        let known = others.entry(led.id).or_insert(OtherId {
            incarnation: Uuid::nil(),
            streak: Streak::default(),
        });
        if known.incarnation != led.incarnation {
            known.incarnation = led.incarnation;
            known.streak.add(ended, &self.settings);
        }
    }
}
