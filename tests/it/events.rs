//! Leader changes for other programs: published, and kept.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::jetstream::{self, stream};
use async_nats::{Client, Subscriber};
use futures::StreamExt;
use nats_elect::{Error, EventsConfig, History, LeaderChange, LeaderEvent, StepDown, StopOptions};
use nats_elect_testing::{NatsCluster, NatsServer, TcpProxy, eventually};

use crate::support::clock::Stamp;
use crate::support::instance::{Instance, hand_over, instance, replicated};
use crate::support::journal::Journal;
use crate::support::{BUCKET, ROLE, SOON, arrived, configured, leased_for, ms};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn kept() -> EventsConfig {
    EventsConfig::default().keep(DAY)
}

async fn start(id: &str, url: impl AsRef<str>, events: EventsConfig) -> Instance {
    let journal = Journal::default();
    instance(id, url, &journal)
        .with(|builder| builder.events(events))
        .role(ROLE, leased_for(ms(3000)))
        .start()
        .await
}

async fn client(server: &NatsServer) -> Client {
    async_nats::connect(server.url()).await.expect("connected")
}

/// Hears what is published from now on.
async fn listen(client: &Client) -> Subscriber {
    let heard = client.subscribe("nats-elect-events.>").await;
    arrived(client).await;
    heard.expect("subscribed")
}

/// What stands in the history, once there is so much.
async fn history(server: &NatsServer, events: usize) -> Vec<LeaderEvent> {
    let client = client(server).await;
    eventually(SOON, "the history", async || {
        let history = History::open(client.clone(), BUCKET).await.ok()?;
        let told = history.of_role(ROLE, 100).await.ok()?;
        (told.len() >= events).then_some(told)
    })
    .await
}

fn told(events: &[LeaderEvent]) -> Vec<String> {
    let tell = |event: &LeaderEvent| match &event.change {
        LeaderChange::TermStarted {
            vacancy, previous, ..
        } => {
            let previous = previous.as_deref().unwrap_or("nobody");
            format!("{} {vacancy} after {previous}", event.instance_id)
        }
        LeaderChange::TermEnded {
            cause, released, ..
        } => format!("{} {cause} {released}", event.instance_id),
        other => panic!("{other:?}"),
    };
    events.iter().map(tell).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changes_hands_is_published_and_kept_to_the_last() {
    let server = NatsServer::start().expect("start");
    let mut heard = listen(&client(&server).await).await;
    let a = start("a", server.url(), kept()).await;
    a.wait_until_leader().await;
    let term = a.role(ROLE).status();
    let b = start("b", server.url(), kept()).await;
    b.wait_until_following("a").await;
    let asked = Stamp::now();
    hand_over(&a.role(ROLE), "b").await;
    b.wait_until_leader().await;
    let handed_over = Stamp::now().since(asked);
    b.stop().await;

    let events = history(&server, 4).await;
    assert_eq!(
        told(&events)[..3],
        [
            "a untouched after nobody",
            "a stepped_down true",
            "b handed_over after a"
        ]
    );
    assert!(
        told(&events).contains(&"b stopped true".to_owned()),
        "a stop waits until its end is told: {events:?}"
    );
    assert_eq!(
        Some(&events[0].correlation_id),
        term.correlation_id.as_ref()
    );
    assert_eq!(Some(events[0].fencing_token), term.fencing_token);
    assert_eq!(events[0].correlation_id, events[1].correlation_id);
    assert!(events[2].fencing_token > events[1].fencing_token);
    assert_eq!(silence_of(&events[0]), None, "nobody led before");
    let silence = silence_of(&events[2]).expect("it saw the release");
    assert!(
        silence < handed_over,
        "since the release alone: {silence:?}"
    );
    // Whoever listens hears the same.
    let first = heard.next().await.expect("a message");
    assert_eq!(
        LeaderEvent::parse(&first.payload).as_ref(),
        Some(&events[0])
    );
    a.wait_until_leader().await;
    a.stop().await;
    let client = client(&server).await;
    let kept = History::open(client.clone(), BUCKET).await.expect("kept");
    let last = kept.of_all(1).await.expect("read");
    assert_eq!(told(&last), ["a stopped true"]);

    let stream = format!("nats-elect-events-{BUCKET}");
    let deleted = jetstream::new(client).delete_stream(stream).await;
    deleted.expect("deleted");
    let last = kept.of_all(1).await;
    assert!(matches!(last, Err(Error::Unavailable { .. })), "{last:?}");
    assert_eq!(kept.of_all(0).await, Ok(vec![]), "nothing is asked");
}

/// For how long the new leader had no sign of the one before.
fn silence_of(event: &LeaderEvent) -> Option<Duration> {
    let LeaderChange::TermStarted { silence, .. } = event.change else {
        panic!("{event:?}");
    };
    silence
}

/// Nobody reports the end of a leader that died. Its follower saw the last heartbeat.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_leader_tells_for_how_long_it_saw_no_sign_of_a_dead_one() {
    let server = NatsServer::start().expect("start");
    let proxy = TcpProxy::start(server.url()).expect("a proxy");
    let a = start("a", proxy.url(), kept()).await;
    a.wait_until_leader().await;
    let b = start("b", server.url(), kept()).await;
    b.wait_until_following("a").await;
    // The first record may have stood there before. Two heartbeats later b has seen one come.
    let beats = async |past: u64| {
        let seen = b.role(ROLE).status().revision.unwrap_or(0);
        (seen > past).then_some(seen)
    };
    let first = eventually(SOON, "a record", async || beats(0).await).await;
    let second = eventually(SOON, "a heartbeat", async || beats(first).await).await;
    eventually(SOON, "a heartbeat", async || beats(second).await).await;
    proxy.cut();
    b.wait_until_leader().await;
    let events = history(&server, 2).await;
    assert_eq!(told(&events)[1], "b expired after a");
    let silence = silence_of(&events[1]).expect("it saw the heartbeats");
    assert!(silence >= ms(3000), "a lease had to run out: {silence:?}");
    proxy.restore();
    a.stop().await;

    // Who comes later, and finds a record of a leader that has died before, can't tell.
    b.stop().await;
    let c = start("c", proxy.url(), kept()).await;
    c.wait_until_leader().await;
    proxy.cut();
    let d = start("d", server.url(), kept()).await;
    d.wait_until_leader().await;
    let by_d = eventually(SOON, "a term of d", async || {
        let mut events = history(&server, 0).await;
        events.pop().filter(|event| event.instance_id == "d")
    })
    .await;
    assert_eq!(told(std::slice::from_ref(&by_d)), ["d expired after c"]);
    assert_eq!(silence_of(&by_d), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_cut_off_tells_of_its_end_when_it_is_back() {
    let server = NatsServer::start().expect("start");
    let proxy = TcpProxy::start(server.url()).expect("a proxy");
    let a = start("a", proxy.url(), kept()).await;
    a.wait_until_leader().await;
    let b = start("b", server.url(), kept()).await;
    b.wait_until_following("a").await;
    // Before it is cut off it has told of its beginning.
    history(&server, 1).await;
    proxy.cut();
    b.wait_until_leader().await;
    let events = history(&server, 2).await;
    assert_eq!(
        told(&events),
        ["a untouched after nobody", "b expired after a"]
    );
    proxy.restore();
    let events = history(&server, 3).await;
    let LeaderChange::TermEnded { released, .. } = events[1].change else {
        panic!("{events:?}");
    };
    assert!(!released, "its lease ran out");
    assert_eq!(events[1].correlation_id, events[0].correlation_id);
    assert!(
        events[1].at_ms <= events[2].at_ms,
        "it ended before the next began: {events:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_is_made_with_the_bucket_for_a_week_unless_events_are_off() {
    let server = NatsServer::start().expect("start");
    let observer = client(&server).await;
    let mut all = listen(&observer).await;
    let silent = start("silent", server.url(), EventsConfig::off()).await;
    silent.wait_until_leader().await;
    silent.stop().await;
    let history = History::open(observer.clone(), BUCKET).await;
    let history = history.map(drop).expect_err("nothing is kept");
    assert!(
        matches!(history, Error::HistoryNotKept { .. }),
        "{history:?}"
    );

    let usual = start("usual", server.url(), EventsConfig::default()).await;
    usual.wait_until_leader().await;
    let first = all.next().await.expect("a message");
    let first = LeaderEvent::parse(&first.payload).expect("an event");
    let expected = ["usual released after nobody", "usual stopped true"];
    assert_eq!(told(&[first]), expected[..1]);
    usual.stop().await;
    assert_eq!(told(&self::history(&server, 2).await), expected);
    let stream = format!("nats-elect-events-{BUCKET}");
    let stream = jetstream::new(observer).get_stream(stream).await;
    let config = &stream.as_ref().expect("it").cached_info().config;
    assert_eq!(config.max_age, 7 * DAY);
    assert!(config.max_messages > 0);
    assert_eq!(config.max_bytes, -1, "nothing is reserved");
}

/// A cluster counts what a stream may need for each of its replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_is_created_anew_beside_its_history_in_a_small_account() {
    let limits = "accounts { A { jetstream: { max_file: 48MB }, users: [ { user: a, password: a } ] } }\n\
        no_auth_user: a";
    let cluster = NatsCluster::builder(3).config(limits).start();
    let cluster = cluster.expect("start");
    let journal = Journal::default();
    let a = replicated("a", cluster.urls(), &journal, leased_for(ms(3000))).await;
    a.wait_until_leader().await;
    let context = jetstream::new(client(cluster.node(0)).await);
    let history = format!("nats-elect-events-{BUCKET}");
    eventually(SOON, "a history", async || {
        context.get_stream(&history).await.ok()
    })
    .await;
    context.delete_key_value(BUCKET).await.expect("deleted");
    eventually(SOON, "another bucket", async || {
        context.get_key_value(BUCKET).await.ok()
    })
    .await;
    a.stop().await;
}

/// The history needs a second stream, and nothing else does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_with_room_for_the_bucket_alone_elects_without_a_history() {
    let limits = "accounts { A { jetstream: { max_streams: 1 }, users: [ { user: a, password: a } ] } }\n\
        no_auth_user: a";
    let server = configured(limits);
    let mut heard = listen(&client(&server).await).await;
    for _ in 0..2 {
        let a = start("a", server.url(), EventsConfig::default()).await;
        a.wait_until_leader().await;
        a.stop().await;
        for _ in 0..2 {
            // The listener hears each once, and confirms nothing.
            let event = tokio::time::timeout(SOON, heard.next()).await;
            let event = event.expect("in time").expect("a message");
            assert!(LeaderEvent::parse(&event.payload).is_some());
        }
    }
    let kept = History::open(client(&server).await, BUCKET).await;
    assert!(kept.is_err(), "{kept:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subjects_can_begin_otherwise_and_what_is_no_event_is_not_read() {
    let server = NatsServer::start().expect("start");
    let events = kept().subject_prefix("control.elections");
    let a = start("a", server.url(), events).await;
    a.wait_until_leader().await;
    assert_eq!(history(&server, 1).await.len(), 1);
    let client = client(&server).await;
    let context = async_nats::jetstream::new(client.clone());
    let subject = format!("control.elections.{BUCKET}.{ROLE}");
    let written = context.publish(subject, "no event".into()).await;
    written.expect("sent").await.expect("kept");
    a.stop().await;
    assert_eq!(
        told(&history(&server, 2).await),
        ["a untouched after nobody", "a stopped true"]
    );
}

/// A stream may have kept the changes of years.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_events_are_read_without_those_before_them() {
    let server = NatsServer::start().expect("start");
    let client = client(&server).await;
    let context = jetstream::new(client.clone());
    let config = stream::Config {
        name: format!("nats-elect-events-{BUCKET}"),
        subjects: vec![format!("nats-elect-events.{BUCKET}.*")],
        max_messages_per_subject: 1500,
        ..stream::Config::default()
    };
    let stream = context.create_stream(config).await.expect("made");
    let publish = async |role: &str, number: u64| {
        let event = format!(
            r#"{{"v":1,"event":"term_started","bucket":"{BUCKET}","role":"{role}","instance_id":"a",
                "incarnation":"00000000-0000-0000-0000-000000000001","correlation_id":"c",
                "fencing_token":"{number:032x}","at_ms":{number},"vacancy":"released"}}"#
        );
        let subject = format!("nats-elect-events.{BUCKET}.{role}");
        context.publish(subject, event.into()).await.expect("sent")
    };
    for number in 1..=3 {
        publish("rare", number).await.await.expect("kept");
    }
    // The stream drops the first half of them.
    for number in 4..3000 {
        let sent = publish("busy", number).await;
        if number % 500 == 0 || number == 2999 {
            sent.await.expect("kept");
        }
    }
    publish("rare", 3000).await.await.expect("kept");
    assert_eq!(stream.get_info().await.expect("it").state.messages, 1504);

    let kept = History::open(client.clone(), BUCKET).await.expect("kept");
    let received = || client.statistics().in_messages.load(Ordering::Relaxed);
    let times =
        |events: Vec<LeaderEvent>| -> Vec<u64> { events.iter().map(|event| event.at_ms).collect() };
    let before = received();
    let last = kept.of_all(5).await.expect("read");
    assert_eq!(times(last), [2996, 2997, 2998, 2999, 3000]);
    let of_busy = kept.of_role("busy", 3).await.expect("read");
    assert_eq!(times(of_busy), [2997, 2998, 2999]);
    assert!(received() - before < 500, "{}", received() - before);
    // However far back they are.
    let of_rare = kept.of_role("rare", 3).await.expect("read");
    assert_eq!(times(of_rare), [2, 3, 3000]);
    let of_rare = kept.of_role("rare", 9).await.expect("read");
    assert_eq!(times(of_rare), [1, 2, 3, 3000]);
    assert_eq!(kept.of_all(9999).await.expect("read").len(), 1504);
    assert_eq!(kept.of_role("absent", 5).await, Ok(vec![]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_listens_hears_the_end_of_an_instance_that_stops() {
    let server = NatsServer::start().expect("start");
    let mut heard = listen(&client(&server).await).await;
    for n in 0..20 {
        let a = start("a", server.url(), EventsConfig::default()).await;
        a.wait_until_leader().await;
        a.stop().await;
        for _ in 0..2 {
            let told = tokio::time::timeout(SOON, heard.next()).await;
            told.unwrap_or_else(|_| panic!("round {n}: nothing more is heard"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_in_the_time_that_it_has_although_its_news_cant_be_kept() {
    let server = NatsServer::start().expect("start");
    let context = jetstream::new(client(&server).await);
    // Somebody else's stream has these subjects, and is full.
    let full = stream::Config {
        name: "full".into(),
        subjects: vec!["nats-elect-events.>".into()],
        max_bytes: 1,
        discard: stream::DiscardPolicy::New,
        ..stream::Config::default()
    };
    context.create_stream(full).await.expect("made");
    let a = start("a", server.url(), kept()).await;
    a.wait_until_leader().await;
    let options = StopOptions::default().timeout(ms(3000));
    // Its handler has ended and its role is free.
    a.stop_with(options).await.expect("nothing is amiss");
    let b = start("b", server.url(), EventsConfig::off()).await;
    b.wait_until_leader().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_somebody_made_is_used_and_read_as_it_is() {
    let server = NatsServer::start().expect("start");
    let context = jetstream::new(client(&server).await);
    let theirs = stream::Config {
        name: format!("nats-elect-events-{BUCKET}"),
        subjects: vec!["theirs".into(), format!("nats-elect-events.{BUCKET}.>")],
        max_messages: 3,
        ..stream::Config::default()
    };
    context.create_stream(theirs).await.expect("made");
    for _ in 0..2 {
        let a = start("a", server.url(), kept()).await;
        a.wait_until_leader().await;
        a.stop().await;
    }
    let last = [
        "a stopped true",
        "a released after nobody",
        "a stopped true",
    ];
    assert_eq!(told(&history(&server, 3).await), last);
}

/// Before, an event was dropped that came while the stream could not confirm it, as while it elects
/// its leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_waits_for_a_stream_that_was_seen_and_is_away() {
    let server = NatsServer::start().expect("start");
    let a = start("a", server.url(), EventsConfig::default()).await;
    a.wait_until_leader().await;
    history(&server, 1).await;
    let context = jetstream::new(client(&server).await);
    let stream = format!("nats-elect-events-{BUCKET}");
    context.delete_stream(stream).await.expect("deleted");
    a.role(ROLE).step_down(StepDown::any()).await.expect("led");
    let kept = history(&server, 1).await;
    assert!(
        matches!(kept[0].change, LeaderChange::TermEnded { .. }),
        "{kept:?}"
    );
}
