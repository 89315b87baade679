//! All there is at one moment.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use nats_elect_core::token::FencingToken;
use nats_elect_core::{Bequest, Write};

use crate::bucket::ModelBucket;
use crate::fault::Faults;
use crate::fingerprint;
use crate::instance::Instance;
use crate::properties::{Broken, Witnessed};

/// All there is. What is large and seldom changes is shared between states.
#[derive(Clone, Debug)]
pub struct State {
    pub bucket: Arc<ModelBucket>,
    pub instances: Vec<Arc<Instance>>,
    /// Writes that were given up by their senders and may still arrive.
    pub ghosts: Vec<Write>,
    /// Terms of processes that died, whose companions have not read yet what stands there.
    pub wills: Vec<Bequest>,
    pub faults: Faults,
    /// The fencing token of the last promotion.
    pub last_token: Option<FencingToken>,
    /// For how many ticks nothing has gone wrong and nobody has led.
    pub leaderless: u8,
    /// Further back, in nanoseconds, only the order of moments matters: a lease and a tick. The
    /// same throughout.
    pub look_back: u64,
    /// Whether each instance has a priority of its own. The same throughout.
    pub ranked: bool,
    /// True time, where it is bounded.
    pub time: u16,
    /// The promise that was broken on the way here.
    pub broken: Option<Broken>,
    /// What the last event was an example of; no part of the situation.
    pub witnessed: Witnessed,
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(fingerprint::of(self));
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        fingerprint::of(self) == fingerprint::of(other)
    }
}
