//! What a seed stands for: a fleet, and what befalls it when.

use std::fmt;
use std::time::Duration;

use nats_elect_core::HandlerEnd;
use nats_elect_core::config::{RoleConfig, RoleSettings, Takeover};

use crate::bucket::ModelBucket;
use crate::chance::Chance;
use crate::clock::Clock;
use crate::faults::{Fault, Kinds, LATEST, Refusals, RequestFault, Retirement, Scale, WIPED};
use crate::fenced::Writers;
use crate::liars::Liars;
use crate::monitor::Monitor;
use crate::world::{World, ms};

/// The bucket of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// As we make them.
    Ours,
    /// As others make them: sequences begin with 1.
    Plain,
    /// Keys expire.
    Aging { max_age: Duration, markers: bool },
}

/// One instance of a fleet.
#[derive(Clone, Debug)]
pub struct Member {
    pub settings: RoleSettings,
    pub clock: Clock,
}

/// A fault, so long after the one before, on this instance where it is for one.
#[derive(Clone, Debug)]
pub struct Blow {
    pub after: Duration,
    pub node: usize,
    pub fault: Fault,
}

/// All that a seed decides, but for the chance within the run.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Plan {
    pub seed: u64,
    pub kind: Kind,
    pub members: Vec<Member>,
    /// All instances have one id.
    pub twins: bool,
    /// No instance hears another: they may not ask one another, or are of versions that don't. So
    /// nobody is named to lead next.
    pub deaf: bool,
    pub liars: bool,
    pub readers: bool,
    pub timer_lag: Duration,
    pub traffic: u32,
    /// Late renewals that an expiry wipes, in permille.
    pub wiped: u32,
    pub expiry_late: Duration,
    /// An instance that can't lead.
    pub broken: Option<(usize, Broken)>,
    /// A slow network: how long each message is on its way.
    pub slow: Option<Duration>,
    pub blows: Vec<Blow>,
}

impl Plan {
    /// Each seed meets some kinds of fault and is spared the others: rare combinations come up only
    /// where the common ones are away now and then.
    pub fn of_seed(seed: u64, allowed: &[String]) -> Self {
        let mut chance = Chance::new(seed ^ 0x5eed_0000_0000_0000);
        let kinds = Kinds::of(|kind| {
            let often = if kind == "history" { 200 } else { 600 };
            let drawn = chance.permille(often);
            drawn && (allowed.is_empty() || allowed.iter().any(|allowed| allowed == kind))
        });
        let mut plan = Self::fleet(seed, &kinds, &mut chance);
        plan.slow_down();
        let scale = plan.scale();
        let count = chance.below(17);
        for _ in 0..count {
            let gaps = [scale.ttl / 100, scale.ttl / 4, scale.ttl * 3 / 2];
            let longest = chance.pick(&gaps);
            let after = chance.upto(longest);
            let node = usize::try_from(chance.below(plan.members.len() as u64)).expect("a few");
            if let Some(fault) = Fault::draw(&kinds, &scale, &mut chance) {
                plan.blows.push(Blow { after, node, fault });
            }
        }
        if kinds.has("requests") {
            plan.add_orders();
        }
        // Where NATS loses writes, a sequence proves nothing.
        if !kinds.has("history")
            && (allowed.is_empty() || allowed.iter().any(|it| it == "retiring"))
        {
            plan.add_retirements();
        }
        if kinds.has("stream") {
            plan.add_refusals();
        }
        plan
    }

    /// In some fleets operators retire the role amid the faults, mostly in vain. Drawn apart from
    /// all else, and so that the seeds in `found` stay what they were.
    fn add_retirements(&mut self) {
        let mut chance = Chance::new(self.seed ^ 0x4e71_4e03_0000_0000);
        if !chance.permille(400) {
            return;
        }
        for _ in 0..=chance.below(4) {
            self.insert(Fault::Retirement(Retirement), &mut chance);
        }
    }

    /// In some fleets no write is taken for a while, and reads are answered. Drawn apart from all
    /// else, and so that the seeds in `found` stay what they were.
    fn add_refusals(&mut self) {
        let mut chance = Chance::new(self.seed ^ 0x4ef5_5a17_0000_0000);
        if !chance.permille(300) {
            return;
        }
        for _ in 0..=chance.below(2) {
            let refusals = Refusals::draw(self.scale().ttl * 4, &mut chance);
            self.insert(Fault::Refusals(refusals), &mut chance);
        }
    }

    /// Puts a fault among the others. What was there before keeps its time.
    fn insert(&mut self, fault: Fault, chance: &mut Chance) {
        let longest = self.scale().ttl;
        let node = usize::try_from(chance.below(self.members.len() as u64)).expect("a few");
        let at = usize::try_from(chance.below(self.blows.len() as u64 + 1)).expect("a few");
        let gap = self.blows.get(at).map_or(longest, |blow| blow.after);
        let after = chance.upto(gap);
        if let Some(next) = self.blows.get_mut(at) {
            next.after -= after;
        }
        self.blows.insert(at, Blow { after, node, fault });
    }

    /// In some fleets instances are paused, cordoned and resumed amid the faults. Drawn apart from
    /// all else, and so that the seeds in `found` stay what they were.
    fn add_orders(&mut self) {
        let mut chance = Chance::new(self.seed ^ 0x0bde_0009_0000_0000);
        if !chance.permille(400) {
            return;
        }
        for _ in 0..=chance.below(6) {
            let fault = Fault::Request(RequestFault::draw_order(&mut chance));
            self.insert(fault, &mut chance);
        }
    }

    fn fleet(seed: u64, kinds: &Kinds, chance: &mut Chance) -> Self {
        let base = match chance.below(20) {
            0..12 => ms(200 + chance.below(250)),
            12..18 => ms(1000 + chance.below(2000)),
            _ => ms(15_000),
        };
        let mixed = chance.permille(300);
        // Sixteenfold at most.
        let widest = chance
            .pick(&[ms(1250), ms(1250), ms(4000), ms(15_000)])
            .as_millis();
        let count = 2 + chance.pick(&[0, 0, 1, 1, 1, 2, 3]);
        let members: Vec<_> = (0..count)
            .map(|_| {
                let ttl = if mixed {
                    let widest = u32::try_from(widest).expect("small");
                    base + chance.upto((base * widest / 1000).min(ms(30_000)))
                } else {
                    base
                };
                let ttl = ms(u64::try_from(ttl.as_millis()).expect("short"));
                Member {
                    settings: settings(ttl, chance),
                    clock: Clock {
                        offset: ms(1 + chance.below(1_000_000)),
                        ppm: i64::try_from(chance.below(20_001)).expect("small") - 10_000,
                    },
                }
            })
            .collect();
        let longest = members.iter().map(|member| member.settings.ttl).max();
        let longest = longest.expect("somebody");
        let kind = match chance.below(20) {
            0..10 => Kind::Ours,
            10..15 => Kind::Plain,
            _ => Kind::Aging {
                max_age: longest + chance.upto(longest),
                markers: chance.permille(500),
            },
        };
        let expires = kinds.has("expiry");
        Self {
            seed,
            kind,
            members: with_priorities(members, seed),
            twins: chance.permille(150),
            deaf: Chance::new(seed ^ 0xdeaf_0000_0000_0000).permille(400),
            liars: Liars::are_in(seed),
            readers: chance.permille(500),
            timer_lag: chance.upto(ms(3)),
            traffic: if chance.permille(500) { 300 } else { 0 },
            wiped: if expires { WIPED } else { 0 },
            expiry_late: if expires { LATEST } else { ms(1) },
            broken: broken(seed, count),
            slow: None,
            blows: Vec::new(),
        }
    }

    /// In some fleets the network is slow at all times: a round trip takes up to a quarter of the
    /// shortest ttl, and all but that is as defaults have it. Drawn apart from all else.
    fn slow_down(&mut self) {
        let mut chance = Chance::new(self.seed ^ 0x510_3000_0000_0000);
        if !chance.permille(100) {
            return;
        }
        let ttls = self.members.iter().map(|member| member.settings.ttl);
        let shortest = ttls.min().expect("somebody");
        for member in &mut self.members {
            let mut config = RoleConfig::default();
            config.ttl = member.settings.ttl;
            let max_cooldown = member.settings.max_cooldown;
            member.settings = config.settings().expect("the defaults obey the rules");
            member.settings.max_cooldown = max_cooldown;
            member.settings.retry.max_backoff = member.settings.ttl;
        }
        // Whether a claim stands in the bucket that was looked at takes another look where
        // sequences are used again.
        let most = match self.kind {
            Kind::Plain => shortest / 16,
            _ => shortest * 23 / 200,
        };
        self.slow = Some(chance.upto(most));
        self.timer_lag = self.timer_lag.min(shortest / 200);
    }

    /// The measures of the first instance's settings.
    pub fn scale(&self) -> Scale {
        let settings = &self.members[0].settings;
        Scale {
            ttl: settings.ttl,
            timeout: settings.request_timeout,
            stop_budget: settings.stop_budget,
            // Where fence records expire nothing else tells of the lease that a stranger writes
            // over.
            foreign: match self.kind {
                Kind::Aging { max_age, .. } => max_age,
                _ => Duration::ZERO,
            },
        }
    }

    pub fn world(&self) -> World {
        let mut bucket = match self.kind {
            Kind::Ours => ModelBucket::new(),
            Kind::Plain => ModelBucket::new().plain(),
            Kind::Aging { max_age, markers } => {
                let mut bucket = ModelBucket::new().max_age(max_age);
                bucket.expiry_markers = markers;
                bucket
            }
        };
        bucket.traffic = self.traffic;
        let settings = self.members.iter().map(|member| member.settings.clone());
        let mut world = World::unstarted(self.seed, bucket, settings.collect());
        for (node, member) in self.members.iter().enumerate() {
            world.nodes[node].clock = member.clock;
            if self.twins {
                "twin".clone_into(&mut world.nodes[node].candidate.instance_id);
            }
        }
        match self.broken {
            Some((node, Broken::Fails(after))) => {
                let ends = Some((after, HandlerEnd::Failed));
                world.nodes[node].handler.ends = ends;
            }
            Some((node, Broken::Dies(after))) => world.nodes[node].dies_after = Some(after),
            None => {}
        }
        world.companions.draw(self.seed);
        world.monitor = Monitor::of_seed(self.seed, self.scale().ttl);
        world.writers = Writers::of_seed(self.seed, self.kind);
        world.patient = true;
        world.readers = self.readers;
        world.deaf = self.deaf;
        world.liars = self.liars.then(|| Liars::of_seed(self.seed));
        world.fences_watched = !self.seed.is_multiple_of(5);
        world.timer_lag = Duration::ZERO..self.timer_lag;
        world.climate.wiped = self.wiped;
        world.climate.expiry_late = Duration::ZERO..self.expiry_late;
        if let Some(slow) = self.slow {
            world.climate.latency = slow..slow + ms(1) / 1000;
            world.climate.watch_delay = world.climate.latency.clone();
        }
        world.weather = world.climate.clone();
        for node in 0..world.nodes.len() {
            world.boot(node);
        }
        world
    }
}

/// Why an instance can't lead, until all faults end.
#[derive(Clone, Copy, Debug)]
pub enum Broken {
    /// Its handler fails after so long.
    Fails(Duration),
    /// Its processes die so long after they have come to lead.
    Dies(Duration),
}

/// In some fleets one instance can't lead. Drawn apart from all else.
fn broken(seed: u64, count: u64) -> Option<(usize, Broken)> {
    let mut chance = Chance::new(seed ^ 0xb20_4e00_0000_0000);
    if !chance.permille(150) {
        return None;
    }
    let node = usize::try_from(chance.below(count)).expect("a few");
    let after = chance.upto(ms(60));
    let broken = if chance.permille(500) {
        Broken::Fails(after)
    } else {
        Broken::Dies(after)
    };
    Some((node, broken))
}

/// In some fleets instances have priorities, and mind them. Drawn apart from all else.
fn with_priorities(mut members: Vec<Member>, seed: u64) -> Vec<Member> {
    let mut chance = Chance::new(seed ^ 0x9410_4171_0000_0000);
    let minded = chance.permille(300);
    for Member { settings, .. } in members.iter_mut().filter(|_| minded) {
        settings.priority = i64::try_from(chance.below(3)).expect("small");
        settings.takeover_hysteresis = settings.heartbeat + chance.upto(settings.ttl);
        // It only keeps what is drawn after it as it was.
        chance.upto(settings.ttl);
        settings.takeover = match chance.below(4) {
            0 => Takeover::Never,
            _ => Takeover::Cooperative,
        };
    }
    members
}

/// Settings around this lease that obey the rules; the defaults, where a draw does not.
fn settings(ttl: Duration, chance: &mut Chance) -> RoleSettings {
    let mut config = RoleConfig::default();
    config.ttl = ttl;
    let claim_delay = chance.pick(&[Duration::ZERO, ms(2), ttl / 50]);
    let validation_interval = chance.permille(500).then(|| ttl / 3 + chance.upto(ttl));
    let failures = 1 + u32::from(chance.permille(500));
    let mut varied = config.clone();
    let beats = u32::try_from(3 + chance.below(8)).expect("a few");
    let heartbeat = ttl / beats;
    varied.heartbeat_interval = Some(heartbeat);
    let request_timeout = heartbeat / 4 + chance.upto(heartbeat * 3 / 4);
    varied.stop_budget = Some(ms(10) + chance.upto(ttl / 3));
    varied.disconnect_grace_period = chance
        .permille(400)
        .then(|| heartbeat * 2 + chance.upto(ttl));
    let cooldown = ms(1) + chance.upto(heartbeat * 3);
    varied.cooldown = Some(cooldown);
    let fits = request_timeout < heartbeat && cooldown <= ttl;
    let varied = varied.settings().ok().filter(|_| fits);
    let request_timeout = varied.as_ref().map(|_| request_timeout);
    let mut settings =
        varied.unwrap_or_else(|| config.settings().expect("the defaults obey the rules"));
    settings.request_timeout = request_timeout.unwrap_or(settings.request_timeout);
    settings.claim_delay = claim_delay;
    settings.max_cooldown = ttl;
    settings.retry.max_backoff = ttl;
    settings.validation_interval = validation_interval.unwrap_or(settings.validation_interval);
    settings.health.max_consecutive_failures = failures;
    settings
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let twins = if self.twins { ", all of one id" } else { "" };
        let Self {
            kind,
            traffic,
            slow,
            broken,
            ..
        } = self;
        let deaf = if self.deaf {
            ", deaf to one another"
        } else {
            ""
        };
        let broken = broken.map_or(String::new(), |(node, why)| {
            format!(", node-{node} {why:?}")
        });
        let liars = if self.liars { ", lied to" } else { "" };
        let slow = slow.map_or(String::new(), |slow| format!(", {slow:?} each way"));
        writeln!(
            f,
            "  bucket {kind:?}, other traffic {traffic}{twins}{deaf}{liars}{slow}{broken}"
        )?;
        for (i, Member { settings, clock }) in self.members.iter().enumerate() {
            writeln!(
                f,
                "  node-{i}: ttl {:?}, heartbeat {:?}, request timeout {:?}, stop budget {:?}, grace {:?}, clock {:+} ppm, priority {} {:?}",
                settings.ttl,
                settings.heartbeat,
                settings.request_timeout,
                settings.stop_budget,
                settings.grace,
                clock.ppm,
                settings.priority,
                settings.takeover
            )?;
        }
        let mut at = Duration::ZERO;
        for (i, Blow { after, node, fault }) in self.blows.iter().enumerate() {
            at += *after;
            writeln!(f, "  {i:>3}. {at:?} node-{node} {fault:?}")?;
        }
        Ok(())
    }
}
