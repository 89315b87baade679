//! How terms end, and what is freed when.

use std::time::Duration;

use crate::election::harness::{
    BUCKET, Fate, Kind, ModelBucket, OLD_FENCE, Solo, World, entry, ms, own, settings,
};
use crate::election::{
    Effect, HandlerEnd, Input, Link, Reply, RequestId, Snapshot, TermId, WriteKind,
};
use crate::model::event::{EndCause, Event};
use crate::model::status::RoleState;

const ASK: RequestId = RequestId(7);

fn ending(solo: &Solo) -> Option<EndCause> {
    solo.effects.iter().find_map(|effect| match effect {
        Effect::Event(Event::TermEnding { cause, .. }) => Some(*cause),
        _ => None,
    })
}

fn released(solo: &Solo) -> Option<bool> {
    solo.effects.iter().find_map(|effect| match effect {
        Effect::Event(Event::TermEnded { released, .. }) => Some(*released),
        _ => None,
    })
}

fn leading() -> (Solo, TermId) {
    let mut solo = Solo::leading(settings(|_| {}));
    let term = solo.started().expect("a term");
    solo.wait(ms(10));
    solo.take();
    (solo, term)
}

fn state(solo: &Solo) -> RoleState {
    solo.election.status().state
}

#[test]
fn a_step_down_cancels_waits_revokes_releases_and_answers_in_this_order() {
    let (mut solo, term) = leading();
    solo.feed(Input::StepDown { request: ASK });
    let effects = solo.take();
    let at = |what: &Effect| effects.iter().position(|effect| effect == what);
    assert!(at(&Effect::Resign { term }) < at(&Effect::Cancel { term }));
    assert!(
        !effects
            .iter()
            .any(|effect| matches!(effect, Effect::Revoke { .. }))
    );
    assert_eq!(state(&solo), RoleState::Draining);

    solo.wait(ms(50));
    solo.take();
    solo.feed(Input::HandlerEnded {
        term,
        end: HandlerEnd::Returned,
    });
    assert!(matches!(solo.effects[0], Effect::Revoke { .. }));
    let release = solo.write();
    assert!(matches!(release.kind, WriteKind::Release { over: 101 }));
    assert!(solo.reply(ASK).is_none());

    solo.ack(&release, 103);
    assert_eq!(
        solo.reply(ASK),
        Some(&Reply::SteppedDown { released: true })
    );
    assert_eq!(released(&solo), Some(true));
    assert_eq!(state(&solo), RoleState::Demoted);
}

#[test]
fn a_leader_that_winds_down_by_choice_keeps_its_lease_up() {
    let settings = settings(|config| config.stop_budget = Some(ms(450)));
    let mut world = World::new(1, 2, &settings);
    let leader = world.await_leader(ms(50));
    world.run(ms(300));
    world.nodes[leader].handler.winds_down_in = Some(ms(440));
    let term = world.term(leader);
    world.nodes[leader]
        .terms
        .get_mut(&term)
        .expect("a term")
        .handler
        .winds_down_in = Some(ms(440));
    let before = world.nodes[leader].sent.len();
    world.input(leader, Input::StepDown { request: ASK });
    world.run(ms(439));
    let renewals = world.nodes[leader].sent[before..]
        .iter()
        .filter(|(_, kind)| *kind == Kind::Renew)
        .count();
    assert_eq!(renewals, 2);
    assert!(world.leader().is_none(), "but leads no longer");
    let next = world.await_leader(ms(20));
    assert_ne!(next, leader);
}

#[test]
fn what_a_handler_spawned_winds_down_under_a_lease_that_is_kept_up() {
    let settings = settings(|config| config.stop_budget = Some(ms(450)));
    let mut world = World::unstarted(1, ModelBucket::new(), vec![settings; 2]);
    for node in 0..2 {
        world.nodes[node].handler.ends = Some((ms(300), HandlerEnd::Failed));
        world.nodes[node].handler.lingers = Some(ms(440));
        world.nodes[node].handler.winds_down_in = None;
        world.boot(node);
    }
    let leader = world.await_leader(ms(50));
    world.run_until(ms(400), |world| world.state(leader) == RoleState::Draining);
    let before = world.nodes[leader].sent.len();
    assert!(world.leader().is_none());
    world.run(ms(435));
    assert!(world.nodes[leader].runs_handler());
    let renewals = world.nodes[leader].sent[before..]
        .iter()
        .filter(|(_, kind)| *kind == Kind::Renew)
        .count();
    assert_eq!(renewals, 2);
    let next = world.await_leader(ms(20));
    assert_ne!(next, leader);
    assert!(world.told(leader, |event| matches!(
        event,
        Event::TermEnded {
            cause: EndCause::Failed,
            released: true,
            ..
        }
    )));
}

#[test]
fn step_down_stop_health_and_the_handlers_own_end_each_free_the_role() {
    for end in [
        HandlerEnd::Returned,
        HandlerEnd::Failed,
        HandlerEnd::Panicked,
    ] {
        let (mut solo, term) = leading();
        solo.feed(Input::HandlerEnded { term, end });
        let expected = match end {
            HandlerEnd::Returned => EndCause::Returned,
            HandlerEnd::Panicked => EndCause::Panicked,
            _ => EndCause::Failed,
        };
        assert_eq!(ending(&solo), Some(expected));
        assert!(matches!(
            solo.write().kind,
            WriteKind::Release { over: 101 }
        ));
    }
    let inputs: [fn(TermId) -> Vec<Input>; 3] = [
        |_| vec![Input::StepDown { request: ASK }],
        |_| vec![Input::Stop { release: true }],
        |_| Vec::new(),
    ];
    for (i, input) in inputs.into_iter().enumerate() {
        let mut world = World::new(
            1,
            2,
            &settings(|config| {
                config.health.interval = Some(ms(50));
            }),
        );
        let leader = world.await_leader(ms(50));
        world.run(ms(100));
        for input in input(world.term(leader)) {
            world.input(leader, input);
        }
        world.nodes[leader].healthy = i < 2;
        let took = world
            .run_until(ms(400), |world| {
                world.leader().is_some_and(|next| next != leader)
            })
            .unwrap_or_else(|| panic!("{i}"));
        assert!(took < ms(200), "{took:?}");
    }
}

#[test]
fn a_handler_that_ignores_its_cancellation_is_aborted_within_the_stop_budget() {
    let (mut solo, term) = leading();
    solo.feed(Input::StepDown { request: ASK });
    solo.wait(solo.settings.stop_budget - ms(1));
    assert!(!solo.has(|effect| matches!(effect, Effect::Abort { .. })));
    solo.wait(ms(1));
    assert!(solo.has(|effect| *effect == Effect::Abort { term }));
    solo.feed(Input::HandlerEnded {
        term,
        end: HandlerEnd::Aborted,
    });
    assert!(solo.has(|effect| matches!(effect, Effect::Revoke { .. })));
}

#[test]
fn a_handler_without_a_fresh_heartbeat_is_aborted_before_its_lease_ends() {
    let (mut solo, term) = leading();
    let until = solo.election.status().lease_until.expect("a lease");
    solo.feed(Input::Link(Link::Down));
    let budget = solo.settings.stop_budget;
    let allowance = solo.settings.abort_allowance();
    solo.wait((until - budget).since(solo.now) - ms(1));
    assert!(!solo.has(|effect| matches!(effect, Effect::Cancel { .. })));
    solo.wait(ms(1));
    assert!(solo.has(|effect| *effect == Effect::Cancel { term }));
    solo.wait(budget - allowance - ms(1));
    assert!(!solo.has(|effect| matches!(effect, Effect::Abort { .. })));
    solo.wait(ms(1));
    assert!(solo.has(|effect| *effect == Effect::Abort { term }));
}

#[test]
fn a_handler_that_blocks_is_told_of_frees_nothing_and_is_not_started_again() {
    let mut world = World::new(1, 2, &settings(|_| {}));
    for node in 0..2 {
        world.nodes[node].handler.winds_down_in = None;
        world.nodes[node].handler.aborts_in = None;
    }
    let leader = world.await_leader(ms(50));
    world.run(ms(300));
    world.input(leader, Input::StepDown { request: ASK });
    world.run(ms(1300));
    assert!(world.told(leader, |event| matches!(
        event,
        Event::HandlerOverrun { .. }
    )));
    assert!(
        !world.nodes[leader]
            .sent
            .iter()
            .any(|(_, kind)| *kind == Kind::Release)
    );
    assert_eq!(world.state(leader), RoleState::Draining);
    let next = world.leader().expect("the lease ran out");
    assert_ne!(next, leader);
    world.run(ms(5000));
    assert_eq!(world.state(leader), RoleState::Draining);
    let term = world.term(leader);
    world.end_handler(leader, term, Duration::ZERO, HandlerEnd::Returned);
    world.run(ms(10));
    assert_eq!(world.state(leader), RoleState::Demoted);
    assert!(
        world.nodes[leader]
            .replies
            .contains(&(ASK, Reply::SteppedDown { released: false }))
    );
}

#[test]
fn the_cool_down_doubles_with_each_failure_in_a_row_up_to_its_limit() {
    let settings = settings(|config| {
        config.cooldown = Some(ms(100));
        config.max_cooldown = Some(ms(700));
    });
    let mut world = World::new(1, 1, &settings);
    world.nodes[0].handler.ends = Some((ms(5), HandlerEnd::Failed));
    let mut pauses = Vec::new();
    for _ in 0..6 {
        world.await_leader(ms(1000));
        world.run_until(ms(100), |world| world.state(0) == RoleState::Demoted);
        let pause = world
            .run_until(ms(1000), |world| world.state(0) != RoleState::Demoted)
            .expect("it stands again");
        pauses.push(pause.as_millis());
    }
    assert_eq!(pauses, [100, 200, 400, 700, 700, 700]);
}

#[test]
fn a_good_end_makes_the_cool_down_short_again() {
    let settings = settings(|config| {
        config.cooldown = Some(ms(100));
        config.max_cooldown = Some(ms(700));
    });
    let mut world = World::new(1, 1, &settings);
    for end in [
        HandlerEnd::Panicked,
        HandlerEnd::Failed,
        HandlerEnd::Returned,
        HandlerEnd::Failed,
    ] {
        world.nodes[0].handler.ends = Some((ms(5), end));
        world.await_leader(ms(1000));
        world.run_until(ms(100), |world| world.state(0) == RoleState::Demoted);
        let pause = world
            .run_until(ms(1000), |world| world.state(0) != RoleState::Demoted)
            .expect("it stands again");
        let expected = match end {
            HandlerEnd::Failed if world.nodes[0].terms.len() == 2 => 200,
            _ => 100,
        };
        assert_eq!(pause.as_millis(), expected, "{end:?}");
    }
}

#[test]
fn only_failed_checks_in_a_row_make_a_leader_unhealthy() {
    let (mut solo, term) = leading();
    let check = |solo: &mut Solo, healthy| {
        for _ in 0..2000 {
            let effects = solo.take();
            let mut asked = false;
            for effect in effects {
                match effect {
                    Effect::Write(write) => {
                        let WriteKind::Renew { over, .. } = write.kind else {
                            panic!("a heartbeat");
                        };
                        solo.ack(&write, over + 10);
                    }
                    Effect::Read { op, .. } => solo.feed(Input::ReadEnded {
                        op,
                        outcome: Ok(Snapshot {
                            role: None,
                            fence: None,
                            epoch: Some(BUCKET.epoch),
                        }),
                    }),
                    Effect::CheckHealth { .. } => asked = true,
                    _ => {}
                }
            }
            if asked {
                solo.feed(Input::Health { term, healthy });
                return;
            }
            solo.wait(ms(1));
        }
        panic!("no check");
    };
    for healthy in [false, false, true, false, false] {
        check(&mut solo, healthy);
        assert_eq!(ending(&solo), None);
    }
    check(&mut solo, false);
    assert_eq!(ending(&solo), Some(EndCause::Unhealthy));
}

#[test]
fn a_lost_release_is_looked_after() {
    for fate in [Fate::Lost, Fate::AckLost] {
        for seed in 0..10 {
            let mut world = World::new(seed, 2, &settings(|_| {}));
            let leader = world.await_leader(ms(50));
            world.run(ms(300));
            world.nodes[leader].plans.push((Kind::Release, fate));
            world.input(leader, Input::StepDown { request: ASK });
            let next = world
                .run_until(ms(400), |world| {
                    world.leader().is_some_and(|next| next != leader)
                })
                .expect("the other leads soon");
            assert!(next < ms(300), "{next:?}");
        }
    }
}

#[test]
fn a_release_that_finds_an_own_late_heartbeat_frees_that() {
    let (mut solo, term) = leading();
    solo.wait(ms(189));
    let renewal = solo.write();
    solo.wait(ms(80));
    solo.time_out(&renewal);
    solo.feed(Input::HandlerEnded {
        term,
        end: HandlerEnd::Returned,
    });
    solo.wait(ms(60));
    solo.read(Some(entry(103, own(&renewal, ms(1000)))), None);
    assert!(matches!(
        solo.write().kind,
        WriteKind::Release { over: 103 }
    ));
}

#[test]
fn a_release_that_lost_against_an_own_late_heartbeat_frees_that() {
    let (mut solo, term) = leading();
    solo.wait(ms(189));
    let renewal = solo.write();
    solo.feed(Input::HandlerEnded {
        term,
        end: HandlerEnd::Returned,
    });
    solo.wait(ms(80));
    solo.time_out(&renewal);
    solo.wait(ms(60));
    let release = solo.write();
    assert!(matches!(release.kind, WriteKind::Release { over: 101 }));
    solo.refuse(&release, 103);
    solo.read(Some(entry(103, own(&renewal, ms(1000)))), None);
    assert!(matches!(
        solo.write().kind,
        WriteKind::Release { over: 103 }
    ));
}

#[test]
fn nothing_is_freed_after_an_overrun() {
    let (mut solo, term) = leading();
    solo.feed(Input::Link(Link::Down));
    solo.wait(ms(1200));
    assert!(solo.told(|event| matches!(event, Event::HandlerOverrun { .. })));
    solo.feed(Input::Link(Link::Up(BUCKET)));
    solo.take();
    solo.feed(Input::HandlerEnded {
        term,
        end: HandlerEnd::Returned,
    });
    assert!(!solo.has(|effect| matches!(effect, Effect::Write(_))));
    assert_eq!(released(&solo), Some(false));
}

/// Review item 6: what was released is never led again.
#[test]
fn a_release_that_failed_restores_nothing() {
    let (mut solo, term) = leading();
    solo.feed(Input::HandlerEnded {
        term,
        end: HandlerEnd::Returned,
    });
    let release = solo.write();
    solo.wait(ms(80));
    solo.time_out(&release);
    solo.wait(ms(60));
    solo.read(
        Some(entry(101, own(&previous(&release), ms(1000)))),
        Some(OLD_FENCE),
    );
    assert!(!solo.has(|effect| matches!(effect, Effect::Extend { .. } | Effect::StartTerm(_))));
    assert!(solo.election.status().lease_until.is_none());
    assert!(matches!(
        solo.write().kind,
        WriteKind::Release { over: 101 }
    ));
}

fn previous(write: &crate::election::Write) -> crate::election::Write {
    let mut write = write.clone();
    write.nonce.beat -= 1;
    write
}

#[test]
fn a_follower_that_is_asked_to_step_down_is_no_leader() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.feed(Input::StepDown { request: ASK });
    assert_eq!(solo.reply(ASK), Some(&Reply::NotLeader));
}

#[test]
fn what_an_old_term_says_means_nothing_to_the_next() {
    let (mut solo, term) = leading();
    let old = TermId(term.0 + 40);
    solo.take();
    solo.feed(Input::HandlerEnded {
        term: old,
        end: HandlerEnd::Failed,
    });
    solo.feed(Input::LeaseOver { term: old });
    solo.feed(Input::Health {
        term: old,
        healthy: false,
    });
    assert_eq!(ending(&solo), None);
    assert_eq!(state(&solo), RoleState::Leader);
}

#[test]
fn a_term_that_winds_down_is_not_revived_by_a_late_ack() {
    let (mut solo, term) = leading();
    solo.wait(ms(189));
    let renewal = solo.write();
    solo.wait(ms(600));
    assert_eq!(ending(&solo), Some(EndCause::LeaseExpired));
    solo.take();
    solo.ack(&renewal, 103);
    assert!(!solo.has(|effect| matches!(effect, Effect::Extend { .. })));
    assert_eq!(state(&solo), RoleState::Draining);
    solo.feed(Input::HandlerEnded {
        term,
        end: HandlerEnd::Returned,
    });
    assert!(
        matches!(solo.write().kind, WriteKind::Release { over: 103 }),
        "only its revision is learnt"
    );
}
