//! Instances whose terms keep failing. Such an instance does not ask a leader for the role, is no
//! heir, and claims last. It gets another chance after a pause that grows. Alone it leads all the
//! same: these rules order candidates, and keep nobody out.
//!
//! An instance counts the failures of its own terms. A process that dies forgets them. So others
//! count as well: the processes of one id that led for a short time only, one after the other. They
//! count what they saw from its beginning to its end. A term that was released ended in good order.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use uuid::Uuid;

use super::scene::Scene;
use crate::config::RoleSettings;
use crate::event::{EndCause, Event};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::record::Content;
use crate::status::LeaderInfo;

/// So many other ids are remembered.
const MOST_IDS: usize = 16;

/// A term was short if it lasted for less than so many times the longest cool-down: by default ten
/// minutes.
const SHORT: u32 = 20;

/// The pause after the second short term in a row, in longest cool-downs: by default four minutes.
/// Each further one makes it four times as long.
const FIRST_PAUSE: u32 = 8;

/// By default the longest pause is about an hour.
const LONGEST_PAUSE: u32 = 128;

/// The instances whose terms fail, as far as this one knows.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Failing {
    own: Streak,
    /// The end of the pause that was last told.
    told: Option<Moment>,
    others: BTreeMap<String, OtherId>,
    /// The other instance that was last seen to lead, if the beginning of its term was seen.
    led: Option<Led>,
    /// Since when the role's keys have been seen without a gap.
    in_touch: Option<Moment>,
}

/// Short terms, one after the other.
#[derive(Clone, Copy, Debug, Default, Hash)]
struct Streak {
    terms: u32,
    /// The end of the pause.
    until: Moment,
}

#[derive(Clone, Copy, Debug, Hash)]
struct OtherId {
    /// The last process of this id whose term was short. Each counts once.
    incarnation: Uuid,
    streak: Streak,
}

/// A term of another instance.
#[derive(Clone, Debug, Hash)]
struct Led {
    id: String,
    incarnation: Uuid,
    since: Moment,
    /// Its end, if no other leader is known since.
    until: Option<Moment>,
}

impl Failing {
    /// Feeds a hasher with the state that still matters at `now`, for model checkers.
    pub fn hash_state(&self, now: Moment, settings: &RoleSettings, hasher: &mut impl Hasher) {
        let mut it = self.clone();
        let in_touch = it.in_touch.take().map(|since| since < now);
        // It does not matter by how much a term is longer than a short one.
        let lasted = it.led.as_mut().map(|led| {
            let since = std::mem::take(&mut led.since);
            led.until.unwrap_or(now).since(since).min(short(settings))
        });
        (it, in_touch, lasted).hash(hasher);
    }
}

impl Streak {
    fn add(&mut self, now: Moment, settings: &RoleSettings) {
        self.terms = self.terms.saturating_add(1);
        self.until = now + pause_after(self.terms, settings);
    }
}

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

/// A term that lasted as long shows that its instance can lead.
fn short(settings: &RoleSettings) -> Duration {
    settings.max_cooldown.saturating_mul(SHORT)
}

/// The pause after so many short terms in a row. One alone is none of them.
fn pause_after(terms: u32, settings: &RoleSettings) -> Duration {
    let Some(more) = terms.checked_sub(2) else {
        return Duration::ZERO;
    };
    let times = FIRST_PAUSE.saturating_mul(4_u32.saturating_pow(more));
    settings
        .max_cooldown
        .saturating_mul(times.min(LONGEST_PAUSE))
}
