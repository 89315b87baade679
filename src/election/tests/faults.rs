//! Random schedules of every fault there is: the checkers never fire, and once the faults end a leader appears.

use std::time::Duration;

use proptest::prelude::*;

use crate::election::harness::{
    Clock, Handler, ModelBucket, Weather, World, ms, settings, stranger,
};
use crate::election::{HandlerEnd, Input, RequestId};
use crate::model::config::RoleSettings;
use crate::model::record::Content;
use crate::model::status::RoleState;

const INSTANCES: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Fault {
    Crash,
    Restart,
    RestartActor,
    Pause,
    Resume,
    Disconnect,
    Connect,
    Cut,
    Deafen,
    StepDown,
    Stop,
    Abandon,
    Validate,
    Sicken,
    EndHandler(HandlerEnd),
    Handler {
        winds_down_in: Option<u64>,
        blocks: bool,
        lingers: Option<u64>,
    },
    Delete,
    Usurp {
        ttl: Option<u64>,
    },
    Opaque,
    Purge,
    Calm,
    Storm,
    LoseTail(usize),
    Recreate,
}

impl Fault {
    fn strike(self, world: &mut World, node: usize) {
        match self {
            Self::Crash => world.crash(node),
            Self::Restart => {
                if world.nodes[node].election.is_some() {
                    world.crash(node);
                }
                world.boot(node);
            }
            Self::RestartActor => {
                if world.nodes[node].election.is_some() {
                    world.restart_actor(node);
                }
            }
            Self::Pause => world.pause(node),
            Self::Resume => {
                if world.nodes[node].paused {
                    world.resume(node);
                }
            }
            Self::Disconnect => world.disconnect(node),
            Self::Connect => world.connect(node),
            Self::Cut => world.nodes[node].cut = true,
            Self::Deafen => world.nodes[node].watching = false,
            Self::StepDown => world.input(
                node,
                Input::StepDown {
                    request: RequestId(1),
                },
            ),
            Self::Stop => world.input(node, Input::Stop { release: true }),
            Self::Abandon => world.input(node, Input::Abandon),
            Self::Validate => world.input(
                node,
                Input::Validate {
                    request: RequestId(2),
                    term: None,
                },
            ),
            Self::Sicken => world.nodes[node].healthy = !world.nodes[node].healthy,
            Self::EndHandler(end) => {
                if let Some(term) = world.nodes[node].terms.keys().next_back().copied() {
                    world.end_handler(node, term, Duration::ZERO, end);
                }
            }
            Self::Handler {
                winds_down_in,
                blocks,
                lingers,
            } => {
                if !world.nodes[node].runs_handler() {
                    world.nodes[node].handler = Handler {
                        winds_down_in: winds_down_in.map(ms),
                        aborts_in: (!blocks).then_some(Duration::from_micros(100)),
                        ends: None,
                        lingers: lingers.map(ms),
                    };
                }
            }
            Self::Delete => world.put(Content::ForeignMarker),
            Self::Usurp { ttl } => world.put(stranger(ttl.map(ms))),
            Self::Opaque => world.put(Content::Opaque),
            Self::Purge => world.bucket.purge(),
            Self::Calm => world.weather = Weather::fair(),
            Self::Storm => world.weather = Weather::foul(),
            Self::LoseTail(writes) => world.bucket.lose_tail(writes),
            Self::Recreate => world.recreate(),
        }
    }
}

fn outages() -> impl Strategy<Value = Fault> {
    let end = prop_oneof![
        Just(HandlerEnd::Returned),
        Just(HandlerEnd::Failed),
        Just(HandlerEnd::Panicked)
    ];
    prop_oneof![
        3 => Just(Fault::Crash),
        3 => Just(Fault::Restart),
        1 => Just(Fault::RestartActor),
        3 => Just(Fault::Pause),
        4 => Just(Fault::Resume),
        3 => Just(Fault::Disconnect),
        4 => Just(Fault::Connect),
        3 => Just(Fault::Cut),
        2 => Just(Fault::Deafen),
        3 => Just(Fault::StepDown),
        1 => Just(Fault::Stop),
        1 => Just(Fault::Abandon),
        1 => Just(Fault::Validate),
        1 => Just(Fault::Sicken),
        2 => end.prop_map(Fault::EndHandler),
        2 => (proptest::option::of(0..100u64), any::<bool>(), proptest::option::of(0..100u64))
            .prop_map(|(winds_down_in, blocks, lingers)| Fault::Handler { winds_down_in, blocks, lingers }),
        1 => Just(Fault::Calm),
        2 => Just(Fault::Storm),
    ]
}

/// What others do to the role's key: harmless as long as no lease there is shorter than the leader's.
fn meddling() -> impl Strategy<Value = Fault> {
    prop_oneof![
        2 => Just(Fault::Delete),
        1 => proptest::option::of(SHORTEST..400).prop_map(|ttl| Fault::Usurp { ttl }),
        1 => Just(Fault::Opaque),
    ]
}

#[derive(Clone, Debug)]
struct Blow {
    after: Duration,
    node: usize,
    fault: Fault,
}

fn blows(fault: impl Strategy<Value = Fault>) -> impl Strategy<Value = Vec<Blow>> {
    let after =
        prop_oneof![0..2_000u64, 0..60_000u64, 0..400_000u64].prop_map(Duration::from_micros);
    let blow =
        (after, 0..INSTANCES, fault).prop_map(|(after, node, fault)| Blow { after, node, fault });
    proptest::collection::vec(blow, 0..16)
}

#[derive(Clone, Copy, Debug)]
enum Server {
    New,
    Plain,
    Old,
    Aging { markers: bool },
}

impl Server {
    fn bucket(self) -> ModelBucket {
        match self {
            Self::New => ModelBucket::new(),
            Self::Plain => ModelBucket::new().plain(),
            Self::Old => ModelBucket::new().old_server(),
            Self::Aging { markers } => {
                let mut bucket = ModelBucket::new().max_age(ms(450));
                bucket.expiry_markers = markers;
                bucket
            }
        }
    }
}

fn server() -> impl Strategy<Value = Server> {
    prop_oneof![
        3 => Just(Server::New),
        1 => Just(Server::Plain),
        2 => Just(Server::Old),
        1 => any::<bool>().prop_map(|markers| Server::Aging { markers }),
    ]
}

/// A lease and a grace period, in milliseconds.
type Lease = (u64, Option<u64>);

const SHORTEST: u64 = 300;

fn leases(ttl: impl Strategy<Value = u64>) -> impl Strategy<Value = Vec<Lease>> {
    let lease = (ttl, proptest::option::of(150..400u64));
    proptest::collection::vec(lease, INSTANCES)
}

fn settings_of(&(ttl, grace): &Lease) -> RoleSettings {
    settings(|config| {
        config.ttl = ms(ttl);
        config.heartbeat_interval = Some(ms(60));
        config.request_timeout = Some(ms(30));
        config.stop_budget = Some(ms(60));
        config.disconnect_grace_period = grace.map(ms);
        config.max_cooldown = Some(ms(240));
        config.retry.max_backoff = ms(200);
    })
}

/// The longest of [`leases`] and of strangers, in true time of the slowest clock.
const LONGEST: Duration = ms(455);

fn world(server: Server, leases: &[Lease], seed: u64) -> World {
    let leases = leases.iter().map(settings_of).collect();
    let mut world = World::unstarted(seed, server.bucket(), leases);
    for node in 0..world.nodes.len() {
        let offset = Duration::from_millis(1 + world.chance.below(1_000_000));
        let ppm = i64::try_from(world.chance.below(20_001)).unwrap_or(0) - 10_000;
        world.nodes[node].clock = Clock { offset, ppm };
    }
    world.readers = world.chance.permille(500);
    for node in 0..world.nodes.len() {
        world.boot(node);
    }
    world
}

/// All faults end: processes run, messages arrive, handlers listen.
fn heal(world: &mut World) {
    world.weather = Weather::fair();
    for node in 0..world.nodes.len() {
        world.nodes[node].healthy = true;
        world.nodes[node].watching = true;
        world.nodes[node].plans.clear();
        world.nodes[node].handler = Handler::default();
        if world.nodes[node].paused {
            world.resume(node);
        }
        if world.state(node) == RoleState::Draining {
            let term = world.term(node);
            world.end_handler(node, term, Duration::ZERO, HandlerEnd::Returned);
        }
        if world.nodes[node].election.is_none() || world.state(node) == RoleState::Stopped {
            world.boot(node);
        } else {
            world.disconnect(node);
            world.connect(node);
        }
    }
}

/// A leader that stays. A record that nobody renews is waited for twice at most: the second time when a refused claim
/// shows that it was an older one that was seen; a term that the last fault has ended comes before, a cool-down between.
fn a_leader_appears(world: &mut World) {
    heal(world);
    // Where keys expire, the wait on the expired key comes on top.
    let expiring = world.bucket.made.max_age.map_or(0, |_| 1);
    let end = world.now + LONGEST * (3 + expiring) + ms(240) + ms(220);
    loop {
        let left = end.saturating_sub(world.now);
        let leader = world.await_leader(left);
        world.run(ms(150));
        if world.leader() == Some(leader) {
            return;
        }
    }
}

fn strike(world: &mut World, blows: &[Blow]) {
    for blow in blows {
        world.run(blow.after);
        blow.fault.strike(world, blow.node);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(600),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_fails_there_is_one_leader_at_most_and_soon_again_one(
        server in server(),
        leases in leases(Just(SHORTEST)),
        blows in blows(prop_oneof![4 => outages(), 1 => meddling()]),
        seed in any::<u64>(),
    ) {
        let mut world = world(server, &leases, seed);
        strike(&mut world, &blows);
        a_leader_appears(&mut world);
    }

    #[test]
    fn leases_of_different_lengths_are_as_safe(
        server in server(),
        leases in leases(200..450u64),
        blows in blows(outages()),
        seed in any::<u64>(),
    ) {
        let mut world = world(server, &leases, seed);
        strike(&mut world, &blows);
        a_leader_appears(&mut world);
    }

    #[test]
    fn a_recreated_bucket_makes_no_two_leaders_of_those_who_knew_the_old_one(
        server in Just(Server::New),
        leases in leases(Just(SHORTEST)),
        blows in blows(prop_oneof![
            2 => Just(Fault::Recreate),
            1 => Just(Fault::Disconnect),
            2 => Just(Fault::Connect),
            1 => Just(Fault::Pause),
            1 => Just(Fault::Resume),
            1 => Just(Fault::Cut),
            1 => Just(Fault::Storm),
            1 => Just(Fault::StepDown),
        ]),
        seed in any::<u64>(),
    ) {
        let mut world = world(server, &leases, seed);
        world.run(ms(20));
        strike(&mut world, &blows);
        a_leader_appears(&mut world);
    }

    #[test]
    fn lost_writes_and_foreign_recreations_never_leave_a_role_without_a_leader(
        server in server(),
        leases in leases(200..450u64),
        blows in blows(prop_oneof![
            4 => outages(),
            1 => meddling(),
            1 => Just(Fault::Purge),
            1 => (1..6usize).prop_map(Fault::LoseTail),
            1 => Just(Fault::Recreate),
        ]),
        seed in any::<u64>(),
    ) {
        let mut world = world(server, &leases, seed);
        world.allowed.two_leaders = true;
        world.allowed.token_order = true;
        strike(&mut world, &blows);
        a_leader_appears(&mut world);
    }
}

/// `ELECTION_CASES=100000` for a longer look.
fn cases(usual: u32) -> u32 {
    std::env::var("ELECTION_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(usual)
}
