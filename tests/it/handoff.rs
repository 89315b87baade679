//! A role is given to a named instance, or to whoever is ready, and no two act at any moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_nats::Request;
use async_nats::jetstream;
use async_nats::jetstream::stream::Stream;
use futures::future::join_all;
use futures::{StreamExt, TryStreamExt};
use nats_elect::{BoxError, Error, Handoff, Refusal, RoleConfig, RoleHandler, StepDown, Term};
use nats_elect_testing::{NatsServer, TcpProxy};
use serde_json::json;

use crate::support::clock::Stamp;
use crate::support::instance::{Instance, Recorded, hand_over, instance, never, standing};
use crate::support::journal::Journal;
use crate::support::raw::RawHandoffs;
use crate::support::{BUCKET, ROLE, SOON, arrived, leased_for, ms, patient, served};

const HANDOFF_ROLES: usize = 8;
const ROUNDS: usize = 10;

/// Three instances, of which the first leads.
async fn three(server: &NatsServer, journal: &Journal, config: &RoleConfig) -> [Instance; 3] {
    let join = |id| instance(id, server.url(), journal).standing(config.clone());
    let a = join("a").start().await;
    a.wait_until_leader().await;
    let (b, c) = (join("b").start().await, join("c").start().await);
    b.wait_until_following("a").await;
    c.wait_until_following("a").await;
    [a, b, c]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_go_around_by_name_without_a_moment_in_which_two_act() {
    let (server, journal) = served();
    let roles: Vec<String> = (0..HANDOFF_ROLES).map(|i| format!("r{i}")).collect();
    let mut instances = Vec::new();
    for id in ["a", "b", "c"] {
        let mut joining = instance(id, server.url(), &journal);
        for role in &roles {
            joining = joining.role(role, patient());
        }
        instances.push(joining.start().await);
    }
    let mut raw = RawHandoffs::start(&server.url()).await;
    let going = roles.iter().map(async |role| {
        let first = journal.started(role, 0).await.instance;
        for one in &instances {
            // By then it listens to questions, too.
            one.role(role).wait_for_leader().await.expect("a leader");
        }
        let mut at = instances.iter().position(|one| one.id == first);
        let mut accepted = 0;
        for round in 0..ROUNDS {
            let leader = at.expect("a known leader");
            let next = (leader + 1) % instances.len();
            let handle = instances[leader].role(role);
            let down = hand_over(&handle, &instances[next].id).await;
            assert_eq!(
                down.handoff,
                Some(Handoff::Accepted),
                "{role}, round {round}"
            );
            let recorded = journal.started(role, round + 1).await;
            assert_eq!(
                recorded.instance, instances[next].id,
                "{role}, round {round}"
            );
            accepted += 1;
            at = Some(next);
        }
        accepted
    });
    let accepted: usize = join_all(going).await.into_iter().sum();
    let mut gaps = Vec::new();
    for role in &roles {
        for pair in journal.terms(role).windows(2) {
            // The journal itself checks that none overlap.
            gaps.push(pair[1].start.since(pair[0].end()));
        }
    }
    gaps.sort();
    let mut floor = Vec::new();
    for _ in 0..50 {
        floor.push(raw.hand_off().await);
    }
    floor.sort();
    let (gap, raw) = (gaps[gaps.len() / 2], floor[floor.len() / 2]);
    eprintln!(
        "HANDOFFS {accepted} accepted of {}, 0 overlaps; from the old handler's end to the new one's start, median {gap:?}, \
         {:.1} times the raw delete, watch and create ({raw:?})",
        HANDOFF_ROLES * ROUNDS,
        gap.as_secs_f64() / raw.as_secs_f64()
    );
    assert_eq!(accepted, HANDOFF_ROLES * ROUNDS);
}

/// Its watch was dead during a handoff: it has not seen how the term before the present one ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_is_given_to_a_successor_only_when_it_would_believe_the_release() {
    let ttl = ms(5000);
    let (server, journal) = served();
    let join = |id| instance(id, server.url(), &journal).standing(leased_for(ttl));
    let a = join("a").start().await;
    a.wait_until_leader().await;
    let c = join("c").start().await;
    c.wait_until_following("a").await;
    let stream = stream(&server).await;
    let others: Vec<String> = consumers(&stream).await;
    let b = join("b").start().await;
    b.wait_until_following("a").await;
    for watch in consumers(&stream).await {
        if !others.contains(&watch) {
            stream.delete_consumer(&watch).await.expect("deleted");
        }
    }
    let down = hand_over(&a.role(ROLE), "c").await;
    assert_eq!(down.handoff, Some(Handoff::Accepted));
    c.wait_until_leader().await;
    let down = hand_over(&c.role(ROLE), "b").await;
    assert_eq!(down.handoff, Some(Handoff::Accepted));
    let third = journal.started(ROLE, 2).await;
    let second = &journal.terms(ROLE)[1];
    let gap = third.start.since(second.end());
    assert!(gap < ttl / 2, "it waited for a lease: {gap:?}");
}

async fn stream(server: &NatsServer) -> Stream {
    let client = async_nats::connect(server.url()).await.expect("connect");
    let context = jetstream::new(client);
    let stream = context.get_stream(format!("KV_{BUCKET}")).await;
    stream.expect("the bucket")
}

async fn consumers(stream: &Stream) -> Vec<String> {
    let names = stream.consumer_names().try_collect().await;
    names.expect("a list")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_that_is_not_there_is_known_at_once_and_the_leader_leads_on() {
    let (server, journal) = served();
    let config = patient();
    let [a, _b, _c] = three(&server, &journal, &config).await;
    // The server says that nobody is there: no need to wait for an answer. And some names nobody
    // can have.
    let patience = config.settings().expect("legal").request_timeout;
    for successor in ["nobody".to_owned(), String::new(), "x".repeat(5000)] {
        let began = Stamp::now();
        let absent = a.role(ROLE).step_down(StepDown::to(&successor)).await;
        assert!(Stamp::now().since(began) < patience, "it waited");
        assert_eq!(absent, Err(Error::SuccessorAbsent { successor }));
        assert!(a.is_leader());
    }
    let log = server.log();
    assert!(!log.contains("maximum control line exceeded"), "{log}");
    assert_eq!(journal.terms(ROLE).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_that_is_cut_off_is_not_waited_for_for_ever() {
    let (server, journal) = served();
    let a = standing("a", server.url(), &journal, patient()).await;
    a.wait_until_leader().await;
    let proxy = TcpProxy::start(server.url()).expect("a proxy");
    let b = standing("b", proxy.url(), &journal, patient()).await;
    b.wait_until_following("a").await;
    proxy.black_hole();
    let absent = a.role(ROLE).step_down(StepDown::to("b")).await;
    assert!(
        matches!(absent, Err(Error::SuccessorAbsent { .. })),
        "{absent:?}"
    );
    assert!(a.is_leader());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_that_is_not_fit_says_why_and_the_leader_leads_on() {
    let (server, journal) = served();
    let a = standing("a", server.url(), &journal, patient()).await;
    a.wait_until_leader().await;
    let ill = Recorded::obedient("b", &journal);
    ill.set_healthy(false);
    let b = instance("b", server.url(), &journal).handler(ROLE, patient(), ill.clone());
    let b = b.start().await;
    b.wait_until_following("a").await;
    let c = instance("c", server.url(), &journal).role("metrics", patient());
    let _c = c.start().await;
    // By then it has said what it listens to, on the same connection.
    journal.started("metrics", 0).await;
    for (successor, reason) in [("b", Refusal::Unhealthy), ("c", Refusal::NotStanding)] {
        let refused = a.role(ROLE).step_down(StepDown::to(successor)).await;
        let successor = successor.to_owned();
        assert_eq!(refused, Err(Error::SuccessorRefused { successor, reason }));
        assert!(a.is_leader());
    }
    ill.set_healthy(true);
    let how = StepDown::to("b").hold_off(ms(60_000));
    let down = a.role(ROLE).step_down(how).await;
    assert_eq!(
        down.expect("it is well now").handoff,
        Some(Handoff::Accepted)
    );
    b.wait_until_leader().await;
    // The old leader has just led.
    let refused = b.role(ROLE).step_down(StepDown::to("a")).await;
    let (successor, reason) = ("a".to_owned(), Refusal::CoolingDown);
    assert_eq!(refused, Err(Error::SuccessorRefused { successor, reason }));
    let not_leading = a.role(ROLE).step_down(StepDown::to("b")).await;
    assert_eq!(not_leading, Err(Error::NotLeader));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_of_a_similar_name_does_not_answer_for_the_successor() {
    let (server, journal) = served();
    let config = patient();
    let a = standing("a", server.url(), &journal, config.clone()).await;
    a.wait_until_leader().await;
    let other = instance("b_1", server.url(), &journal).role("metrics", config.clone());
    let _other = other.start().await;
    // It takes its time to answer.
    let b = instance("b.1", server.url(), &journal).handler(ROLE, config, Slow::default());
    let b = b.start().await;
    b.wait_until_following("a").await;
    let down = hand_over(&a.role(ROLE), "b.1").await;
    assert_eq!(down.handoff, Some(Handoff::Accepted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_that_is_lost_on_the_way_leaves_the_role_to_the_others() {
    let (server, journal) = served();
    let [a, _b, _c] = three(&server, &journal, &patient()).await;
    // Somebody says that it is ready, and is never heard of again.
    let client = async_nats::connect(server.url()).await.expect("connect");
    let subject = format!("nats-elect.{BUCKET}.{ROLE}.ghost");
    let mut letters = client.subscribe(subject).await.expect("subscribe");
    arrived(&client).await;
    let ghost = tokio::spawn(async move {
        let letter = letters.next().await.expect("a question");
        let contender = json!({
            "id": "ghost", "incarnation": "00000000-0000-0000-0000-00000000dead", "priority": 0,
        });
        let answer = json!({ "answer": "ready", "contender": contender }).to_string();
        let reply = letter.reply.expect("somebody waits");
        client.publish(reply, answer.into()).await.expect("publish");
        client.flush().await.expect("published");
    });
    let down = a.role(ROLE).step_down(StepDown::to("ghost")).await;
    ghost.await.expect("asked");
    let down = down.expect("it seemed to be there");
    assert!(down.released);
    // By then another may have claimed the role, or not yet.
    let free = [Some(Handoff::TimedOut), Some(Handoff::TakenByAnother)];
    assert!(free.contains(&down.handoff), "{down:?}");
    let next = journal.started(ROLE, 1).await;
    assert_ne!(next.instance, "a", "the old leader holds off");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_old_leader_does_not_stand_before_its_hold_off_is_over() {
    let (server, journal) = served();
    let a = standing("a", server.url(), &journal, leased_for(ms(1000))).await;
    a.wait_until_leader().await;
    let hold_off = ms(2500);
    let began = Stamp::now();
    let role = a.role(ROLE);
    let down = role.step_down(StepDown::any().hold_off(hold_off)).await;
    assert!(down.expect("a leader").released);
    let again = journal.started(ROLE, 1).await;
    assert!(again.start.since(began) >= hold_off, "nobody else stands");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stops_hands_over_to_the_healthy_candidate_of_the_highest_priority() {
    let (server, journal) = served();
    let config = |priority| patient().priority(priority);
    // It takes its time to wind down: the candidates answer meanwhile.
    let a = instance("a", server.url(), &journal).working(ROLE, config(0), |term| async move {
        term.cancelled().await;
        tokio::time::sleep(ms(1000)).await;
        Ok(())
    });
    let a = a.start().await;
    a.wait_until_leader().await;
    let mut others = Vec::new();
    for (id, priority, healthy) in [
        ("b", 1, true),
        ("c", 7, false),
        ("d", 3, true),
        ("e", 2, true),
    ] {
        let handler = Recorded::obedient(id, &journal);
        handler.set_healthy(healthy);
        let joining = instance(id, server.url(), &journal).handler(ROLE, config(priority), handler);
        let other = joining.start().await;
        other.wait_until_following("a").await;
        others.push(other);
    }
    a.stop().await;
    assert_eq!(journal.started(ROLE, 1).await.instance, "d");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_comes_late_or_from_below_hits_nobody() {
    let (server, journal) = served();
    let [a, b, _c] = three(&server, &journal, &patient().priority(5)).await;
    let client = async_nats::connect(server.url()).await.expect("connect");
    let incarnation = |leader: &Instance| {
        let leading = leader.role(ROLE).leader().expect("somebody leads");
        leading.incarnation.expect("one of ours")
    };
    let ask = async |who: uuid::Uuid, beat: u64, priority: i64| {
        let by = json!({ "id": "x", "incarnation": uuid::Uuid::nil(), "priority": priority });
        let question = json!({ "ask": "yield", "incarnation": who, "beat": beat, "by": by });
        let subject = format!("nats-elect.{BUCKET}.{ROLE}.{who}");
        let inbox = format!("nats-elect.{BUCKET}._answer.x");
        let request = Request::new().inbox(inbox);
        let request = request.payload(question.to_string().into());
        let answer = client.send_request(subject, request).await;
        let answer = answer.expect("an answer").payload;
        serde_json::from_slice::<serde_json::Value>(&answer).expect("JSON")["why"].clone()
    };
    let old = incarnation(&a);
    assert_eq!(ask(old, 0, 5).await, "priority_not_higher");
    assert_eq!(
        ask(old, 1_000_000, 9).await,
        "not_leader",
        "a beat that never was"
    );
    assert!(a.is_leader());
    let down = hand_over(&a.role(ROLE), "b").await;
    assert_eq!(down.handoff, Some(Handoff::Accepted));
    journal.started(ROLE, 1).await;
    assert_eq!(ask(old, 0, 9).await, "not_leader", "its term is over");
    for rubbish in [&b""[..], b"{}", b"{\"ask\":\"yield\"}", &[0xff; 5000]] {
        let subject = format!("nats-elect.{BUCKET}.{ROLE}");
        let sent = client.publish(subject, rubbish.to_vec().into()).await;
        sent.expect("publish");
    }
    client.flush().await.expect("published");
    never("a third term", ms(300), || journal.terms(ROLE).len() != 2).await;
    assert!(b.is_leader());
}

/// Takes its time to say that it is well, and notes how often it was asked, and how often at once.
#[derive(Clone, Default)]
struct Slow {
    asked: Arc<AtomicUsize>,
    at_once: Arc<AtomicUsize>,
    most_at_once: Arc<AtomicUsize>,
}

impl RoleHandler for Slow {
    async fn lead(&self, term: Term) -> Result<(), BoxError> {
        term.cancelled().await;
        Ok(())
    }

    async fn healthy(&self) -> bool {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let at_once = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(at_once, Ordering::SeqCst);
        tokio::time::sleep(ms(200)).await;
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_many_ask_the_handler_says_how_it_is_once_at_a_time() {
    const ASKING: usize = 150;
    let (server, journal) = served();
    let config = leased_for(ms(10_000));
    let a = standing("a", server.url(), &journal, config.clone()).await;
    a.wait_until_leader().await;
    let slow = Slow::default();
    let b = instance("b", server.url(), &journal).handler(ROLE, config, slow.clone());
    let b = b.start().await;
    b.wait_until_following("a").await;
    let client = async_nats::connect(server.url()).await.expect("connect");
    let inbox = format!("nats-elect.{BUCKET}._answer.x");
    let answers = client.subscribe(inbox.clone()).await.expect("subscribe");
    for _ in 0..ASKING {
        let subject = format!("nats-elect.{BUCKET}.{ROLE}");
        let question = br#"{"ask":"ready","to":null}"#.as_slice();
        let asked = client.publish_with_reply(subject, inbox.clone(), question.into());
        asked.await.expect("published");
    }
    let answered = answers.take(ASKING).collect::<Vec<_>>();
    let answered = tokio::time::timeout(SOON, answered).await;
    assert!(answered.is_ok(), "not all were answered");
    let [asked, most] = [&slow.asked, &slow.most_at_once].map(|it| it.load(Ordering::SeqCst));
    assert!(most == 1 && asked < ASKING / 10, "{asked}, {most} at once");
}
