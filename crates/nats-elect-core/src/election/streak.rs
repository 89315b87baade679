//! How often the terms of an instance were short, one after the other, and for how long it counts then as
//! one that keeps failing.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use crate::config::RoleSettings;
use crate::moment::Moment;

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
    pub own: Streak,
    /// The end of the pause that was last told.
    pub told: Option<Moment>,
    pub others: BTreeMap<String, OtherId>,
    /// The other instance that was last seen to lead, if the beginning of its term was seen.
    pub led: Option<Led>,
    /// Since when the role's keys have been seen without a gap.
    pub in_touch: Option<Moment>,
}

/// Short terms, one after the other.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(super) struct Streak {
    pub terms: u32,
    /// The end of the pause.
    pub until: Moment,
}

#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct OtherId {
    /// The last process of this id whose term was short. Each counts once.
    pub incarnation: Uuid,
    pub streak: Streak,
}

/// A term of another instance.
#[derive(Clone, Debug, Hash)]
pub(super) struct Led {
    pub id: String,
    pub incarnation: Uuid,
    pub since: Moment,
    /// Its end, if no other leader is known since.
    pub until: Option<Moment>,
}

impl Streak {
    pub fn add(&mut self, now: Moment, settings: &RoleSettings) {
        self.terms = self.terms.saturating_add(1);
        self.until = now + pause_after(self.terms, settings);
    }
}

/// A term that lasted as long shows that its instance can lead.
pub(super) fn short(settings: &RoleSettings) -> Duration {
    settings.max_cooldown.saturating_mul(SHORT)
}

/// The pause after so many short terms in a row. One alone is none of them.
pub(super) fn pause_after(terms: u32, settings: &RoleSettings) -> Duration {
    let Some(more) = terms.checked_sub(2) else {
        return Duration::ZERO;
    };
    let times = FIRST_PAUSE.saturating_mul(4_u32.saturating_pow(more));
    settings
        .max_cooldown
        .saturating_mul(times.min(LONGEST_PAUSE))
}
