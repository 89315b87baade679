//! What is explored: how many instances, which faults.

use std::time::Duration;

use nats_elect_core::config::{RoleConfig, RoleSettings, Takeover};
use nats_elect_core::heirs::TURN;

use crate::fault::Fault;
use crate::properties::Witness;

/// The unit of time. The drift margin of a short lease is just that long.
pub const TICK: Duration = Duration::from_millis(5);

/// One space to explore.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a question of its own"
)]
pub struct Configuration {
    pub name: &'static str,
    pub instances: usize,
    /// How many of them are up from the beginning; the others start at any time.
    pub started: usize,
    /// Whether each has a priority of its own.
    pub ranked: bool,
    /// Whether one of them leads already, elected without any delay.
    pub led: bool,
    pub faults: &'static [(Fault, u8)],
    /// Whether processes have companions.
    pub companions: bool,
    /// Whether there is a watch at all.
    pub watch: bool,
    /// Whether it shows a writer its own writes, too.
    pub echo: bool,
    /// Applications look at their deadlines before every event: one that has passed is seen.
    pub readers: bool,
    /// The ticks after which true time ends; nothing: it goes on for ever.
    pub horizon: Option<u16>,
    /// Ticks without a fault within which somebody leads.
    pub liveness: u8,
    /// What must be found possible.
    pub witnesses: &'static [Witness],
    pub settings: RoleSettings,
    /// Ticks until a request is given up.
    pub timeout: u8,
    /// Ticks for which a handler may run on after its lease was revoked.
    pub allowance: u8,
}

impl Configuration {
    pub fn new(name: &'static str, instances: usize) -> Self {
        let settings = settings();
        let allowance = crate::instance::allowance(&settings);
        Self {
            name,
            instances,
            started: instances,
            ranked: false,
            led: false,
            faults: &[],
            companions: false,
            watch: true,
            echo: false,
            readers: false,
            horizon: None,
            liveness: LIVENESS,
            witnesses: &[Witness::Promoted],
            timeout: ticks(settings.request_timeout),
            allowance: ticks(allowance),
            settings,
        }
    }

    pub const fn faults(mut self, faults: &'static [(Fault, u8)]) -> Self {
        self.faults = faults;
        self
    }

    pub const fn witnesses(mut self, witnesses: &'static [Witness]) -> Self {
        self.witnesses = witnesses;
        self
    }

    pub const fn with_companions(mut self) -> Self {
        self.companions = true;
        self
    }

    pub const fn started(mut self, started: usize) -> Self {
        self.started = started;
        self
    }

    pub const fn without_watch(mut self) -> Self {
        self.watch = false;
        self.liveness = LIVENESS_WITHOUT_WATCH;
        self
    }

    /// The faults may take a leader and the heir that it names. Without a watch, who comes after
    /// them leaves that heir its turn after each of the two leases, in place of a read: only a
    /// leader's record names heirs, and the fence record that is read with it vouches for it.
    pub fn with_heir_gone(mut self) -> Self {
        self.liveness += (ticks(TURN) - 1) * 2;
        self
    }

    pub const fn with_echo(mut self) -> Self {
        self.echo = true;
        self
    }

    pub const fn led(mut self) -> Self {
        self.led = true;
        self
    }

    /// A grace period that may end before the lease does: one of two heartbeats never would.
    pub fn with_grace(mut self) -> Self {
        self.settings.grace = Some(TICK * 2);
        self
    }

    /// Two ticks more: enough for a lost heartbeat to be made up for before the term must end.
    pub fn with_longer_lease(mut self) -> Self {
        self.settings.ttl = TICK * 9;
        self.liveness += 4;
        self
    }

    /// Each instance has a higher priority than those before it, and asks for the role.
    pub fn ranked(mut self) -> Self {
        self.ranked = true;
        self.settings.takeover = Takeover::Cooperative;
        self.settings.takeover_hysteresis = TICK * 2;
        self
    }

    /// The settings of one instance.
    pub fn settings_of(&self, index: usize) -> RoleSettings {
        let priority = i64::try_from(index).expect("a few");
        let mut settings = self.settings.clone();
        settings.priority = if self.ranked { priority } else { 0 };
        settings
    }

    pub const fn live_within(mut self, ticks: u8) -> Self {
        self.liveness = ticks;
        self
    }

    pub const fn with_readers(mut self) -> Self {
        self.readers = true;
        self
    }

    pub const fn until(mut self, horizon: u16) -> Self {
        self.horizon = Some(horizon);
        self
    }
}

/// Two leases: one that must be watched to its end, and time for what precedes and follows.
const LIVENESS: u8 = 14;

/// Without a watch another's renewal may be learnt of by a refused claim alone, and then its lease
/// counts anew: two leases, and eight steps of a tick at most. The keys are read, and after the
/// first lease once more where nothing vouches for the record. The claim is refused; after a pause
/// the keys are read, and after the second lease once more. The claim and the fence record follow.
const LIVENESS_WITHOUT_WATCH: u8 = 2 * 7 + 8;

fn ticks(time: Duration) -> u8 {
    let ticks = time.as_nanos() / TICK.as_nanos();
    u8::try_from(ticks).expect("a few")
}

/// The shortest lease that has room for everything: seven ticks, of which the last is the drift
/// margin and the two before it are the stop budget. What recurs beyond the lease is switched off.
fn settings() -> RoleSettings {
    let mut settings = RoleConfig::default().settings().expect("the defaults");
    let never = Duration::MAX;
    settings.ttl = TICK * 7;
    settings.heartbeat = TICK * 2;
    settings.request_timeout = TICK;
    settings.stop_budget = TICK * 2;
    settings.cooldown = TICK;
    settings.max_cooldown = TICK;
    settings.claim_delay = Duration::ZERO;
    settings.validation_interval = never;
    settings.health.interval = never;
    settings.health.timeout = never;
    settings.retry.initial_backoff = TICK;
    settings.retry.max_backoff = TICK;
    settings.retry.jitter = 0.0;
    settings
}
