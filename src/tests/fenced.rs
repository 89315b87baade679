//! State that only the newest term can change: each way to write, on real servers.

use async_nats::jetstream::kv;
use nats_elect::{EndCause, FencedEntry, FencedError, FencedStore};
use nats_elect_testing::{Direction, NatsServer, eventually};

use crate::support::bucket::Stranger;
use crate::support::instance::{Instance, ending, guest, instance, never, standing, step_down};
use crate::support::journal::{Journal, RecordedTerm};
use crate::support::{BUCKET, ROLE, SOON, leased_for, ms, proxied, served};

const BATCHES: (u64, u64, u64) = (2, 12, 0);

/// A leader `a`, and its term's store.
struct Scene {
    journal: Journal,
    first: RecordedTerm,
    store: FencedStore,
    a: Instance,
    stranger: Stranger,
    server: NatsServer,
}

impl Scene {
    async fn new() -> Self {
        let (server, journal) = served();
        let a = standing(
            "a",
            server.url(),
            &journal,
            leased_for(ms(10_000)).cooldown(ms(10)),
        )
        .await;
        let first = journal.started(ROLE, 0).await;
        let stranger = Stranger::connect(&server.url()).await;
        Self {
            store: first.term().store(),
            journal,
            first,
            a,
            stranger,
            server,
        }
    }

    fn is_at_least(&self, version: (u64, u64, u64)) -> bool {
        self.server.version() >= version
    }

    async fn data(&self) -> Vec<String> {
        let keys = self.stranger.store().await.keys().await.expect("keys");
        let all: Vec<_> = futures::TryStreamExt::try_collect(keys)
            .await
            .expect("keys");
        let mut data: Vec<String> = all;
        data.retain(|key| key.starts_with("_data") || key.starts_with("_guard"));
        data.sort();
        data
    }
}

fn is(entry: &FencedEntry, value: &[u8], revision: u64) {
    assert_eq!((&*entry.value, entry.revision), (value, revision));
}

fn unsupported<T: std::fmt::Debug>(written: Result<T, FencedError>, words: &str) {
    match written {
        Err(FencedError::Unsupported(why)) => assert!(why.contains(words), "{why}"),
        other => panic!("{other:?}"),
    }
}

/// It was refused for this fence, or a later one.
fn is_superseded<T: std::fmt::Debug>(written: Result<T, FencedError>, by: u64) {
    match written {
        Err(FencedError::Superseded { fence }) if fence >= by => {}
        other => panic!("{other:?}"),
    }
}

/// Every way to write fails with these words, and stores nothing.
async fn all_unsupported(store: &FencedStore, words: &str) {
    unsupported(store.put("a", "1").await, words);
    unsupported(store.delete("a").await, words);
    conditional_unsupported(store, words).await;
}

async fn conditional_unsupported(store: &FencedStore, words: &str) {
    unsupported(store.create("a", "1").await, words);
    unsupported(store.update("a", "1", 7).await, words);
    unsupported(
        store.batch().put("a", "1").put("b", "2").commit().await,
        words,
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_leader_puts_and_deletes_is_read_and_listed() {
    let scene = Scene::new().await;
    let store = &scene.store;
    assert_eq!(store.get("cursor").await, Ok(None));
    let one = store.put("cursor", "1").await.expect("written");
    let two = store.put("cursor", "2").await.expect("written");
    assert!(two > one && one > scene.first.fencing_token.sequence);
    let entry = store.get("cursor").await.expect("read").expect("a value");
    is(&entry, b"2", two);
    store.put("empty", "").await.expect("written");
    assert!(store.delete("cursor").await.expect("deleted") > two);
    assert_eq!(store.get("cursor").await, Ok(None));
    store.delete("cursor").await.expect("deleted again");
    store.put("jobs.1", "x").await.expect("written");
    assert_eq!(store.list().await.expect("keys"), ["empty", "jobs.1"]);
    if !scene.is_at_least(BATCHES) {
        conditional_unsupported(store, "allow_atomic").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conditional_write_or_batch_is_stored_only_where_all_of_it_holds() {
    let scene = Scene::new().await;
    let store = &scene.store;
    if !scene.is_at_least(BATCHES) {
        return;
    }
    for key in ["cursor", "empty", "jobs.1"] {
        store.put(key, "").await.expect("written");
    }
    store.delete("cursor").await.expect("deleted");
    // Over a delete marker, then over what stands.
    let created = store.create("cursor", "3").await.expect("created");
    let again = store.create("cursor", "4").await;
    let Err(FencedError::Conflict { key, current }) = again else {
        panic!("{again:?}");
    };
    assert_eq!(
        (key.as_str(), current.expect("a value").revision),
        ("cursor", created)
    );
    let updated = store.update("cursor", "5", created).await.expect("updated");
    let stale = store.update("cursor", "6", created).await;
    assert!(
        matches!(stale, Err(FencedError::Conflict { .. })),
        "{stale:?}"
    );
    let missing = store.update("nothing", "6", created).await;
    let none = FencedError::Conflict {
        key: "nothing".into(),
        current: None,
    };
    assert_eq!(missing, Err(none));

    let batch = store
        .batch()
        .update("cursor", "7", updated)
        .create("new", "8")
        .delete("empty")
        .put("jobs.1", "y");
    let revisions = batch.commit().await.expect("all of it");
    assert_eq!(revisions.len(), 4);
    assert!(revisions.is_sorted());
    assert_eq!(
        store.list().await.expect("keys"),
        ["cursor", "jobs.1", "new"]
    );
    let refused = store
        .batch()
        .put("jobs.2", "z")
        .create("new", "9")
        .put("cursor", "z");
    let refused = refused.commit().await;
    assert!(
        matches!(&refused, Err(FencedError::Conflict { key, .. }) if key == "new"),
        "{refused:?}"
    );
    assert_eq!(
        store.list().await.expect("keys"),
        ["cursor", "jobs.1", "new"]
    );
    let cursor = store.get("cursor").await.expect("read").expect("a value");
    is(&cursor, b"7", revisions[0]);
    // The guard is no key for anybody.
    let keys = [
        "_data.scheduler.cursor",
        "_data.scheduler.jobs.1",
        "_data.scheduler.new",
    ];
    assert_eq!(scene.data().await, keys);
    assert!(scene.a.is_leader(), "a conflict ends no term");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_term_finds_what_was_written_and_the_last_one_writes_no_more() {
    let scene = Scene::new().await;
    let store = &scene.store;
    if !scene.is_at_least(BATCHES) {
        return;
    }
    store.put("cursor", "7").await.expect("written");
    let cursor = store.get("cursor").await.expect("read").expect("a value");
    step_down(&scene.a.role(ROLE)).await;
    let second = scene.journal.started(ROLE, 1).await;
    assert_eq!(store.put("cursor", "x").await, Err(FencedError::NotLeader));
    let unchecked = store.clone().unchecked();
    let fence = second.fencing_token.sequence;
    let superseded = Err(FencedError::Superseded { fence });
    assert_eq!(unchecked.put("cursor", "x").await, superseded);
    assert_eq!(
        unchecked.update("cursor", "x", cursor.revision).await,
        superseded
    );
    assert!(
        second.term().is_valid(),
        "an old term's refusal is not its successor's"
    );
    let next = second.term().store();
    assert_eq!(next.get("cursor").await, Ok(Some(cursor.clone())));
    next.update("cursor", "10", cursor.revision)
        .await
        .expect("updated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_be_no_key_and_no_batch_is_refused_before_anything_is_sent() {
    let scene = Scene::new().await;
    let store = &scene.store;
    let before = scene
        .stranger
        .stream()
        .await
        .cached_info()
        .state
        .last_sequence;
    let dots = "it begins or ends with '.', or has two in a row";
    for (key, problem) in [
        ("", "it is empty"),
        (".a", dots),
        ("a.", dots),
        ("a..b", dots),
        ("a.*", "it has '*' at byte 2"),
        (">", "it has '>' at byte 0"),
        ("a b", "it has ' ' at byte 1"),
    ] {
        let refused = store.put(key, "x").await;
        let Err(FencedError::Key(error)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(error.problem, problem);
        assert!(matches!(store.get(key).await, Err(FencedError::Key(_))));
        let refused = store.batch().put("fine", "x").delete(key).commit().await;
        assert!(matches!(refused, Err(FencedError::Key(_))));
    }
    let refused = |problem: &str| Err(FencedError::Batch(problem.into()));
    assert_eq!(store.batch().commit().await, refused("it is empty"));
    let twice = store.batch().put("a", "1").delete("a").commit().await;
    assert_eq!(twice, refused("it writes `a` more than once"));
    let fill =
        |count: usize| (0..count).fold(store.batch(), |batch, n| batch.put(&format!("k.{n}"), "x"));
    let too_many = fill(1000).commit().await;
    let most = "1000 writes are more than the 999 that one batch can have; split it";
    assert_eq!(too_many, refused(most));
    let large = store.put("large", vec![0; 2 << 20]).await;
    assert!(
        matches!(large, Err(FencedError::TooLarge { .. })),
        "{large:?}"
    );
    if scene.is_at_least(BATCHES) {
        assert_eq!(fill(999).commit().await.expect("all of it").len(), 999);
    } else {
        let stands = eventually(SOON, "an idle moment", async || {
            scene
                .stranger
                .find("_data.scheduler.fine")
                .await
                .map_or(Some(before), |_| None)
        });
        assert_eq!(stands.await, before);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_cannot_says_what_to_do_and_is_never_written_without_the_fence() {
    for (max_age, words) in [(ms(60_000), "max age"), (ms(0), "allow_atomic")] {
        let server = NatsServer::start().expect("start");
        let stranger = Stranger::connect(&server.url()).await;
        let config = kv::Config {
            max_age,
            ..Default::default()
        };
        stranger.make_bucket(config).await;
        let journal = Journal::default();
        let a = guest("a", server.url(), &journal)
            .standing(leased_for(ms(10_000)))
            .start()
            .await;
        let first = journal.started(ROLE, 0).await;
        let store = first.term().store();
        if max_age.is_zero() {
            conditional_unsupported(&store, words).await;
            store.put("a", "1").await.expect("one message");
            store.delete("a").await.expect("one message");
            assert_eq!(store.list().await.expect("keys"), [""; 0]);
        } else {
            all_unsupported(&store, words).await;
        }
        assert_eq!(store.list().await.expect("keys"), [""; 0]);
        assert!(stranger.find("_guard.scheduler").await.is_none());
        assert!(a.is_leader());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_do_not_see_one_anothers_data() {
    let (server, journal) = served();
    let config = leased_for(ms(10_000));
    let a = instance("a", server.url(), &journal)
        .standing(config.clone())
        .role("data", config.clone())
        .role("scheduler2", config)
        .start()
        .await;
    let mut stores = Vec::new();
    for role in [ROLE, "data", "scheduler2"] {
        let recorded = journal.started(role, 0).await;
        let store = recorded.term().store();
        store.put("key", role).await.expect("written");
        stores.push((role, store));
    }
    for (role, store) in &stores {
        let entry = store.get("key").await.expect("read").expect("a value");
        assert_eq!(entry.value, role.as_bytes());
        assert_eq!(store.list().await.expect("keys"), ["key"]);
    }
    // No watch takes them for roles, and no election stirs.
    assert_eq!(a.manager().status().len(), 3);
    let tokens: Vec<_> = [ROLE, "data", "scheduler2"]
        .map(|role| journal.terms(role).len())
        .into();
    assert_eq!(tokens, [1, 1, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_deletes_a_fence_record_ends_its_term_and_gets_no_write_through() {
    let scene = Scene::new().await;
    if !scene.is_at_least(BATCHES) {
        return;
    }
    let unchecked = scene.store.clone().unchecked();
    let revision = scene.store.put("a", "1").await.expect("written");
    let fence = format!("_fence.{ROLE}");
    let kv = scene.stranger.store().await;
    let log = scene.a.log();

    // A delete marker, as an operator leaves it.
    kv.delete(&fence).await.expect("deleted");
    let marker = scene
        .stranger
        .find(&fence)
        .await
        .expect("a marker")
        .sequence;
    // The watch may have ended the term by now, and the next one may have its own fence there.
    let refused = scene.store.put("a", "2").await;
    if refused != Err(FencedError::NotLeader) {
        is_superseded(refused, marker);
    }
    is_superseded(unchecked.update("a", "2", revision).await, marker);
    is_superseded(unchecked.create("b", "2").await, marker);
    is_superseded(unchecked.delete("a").await, marker);
    let batch = unchecked.batch().put("a", "2").put("b", "2").commit().await;
    is_superseded(batch, marker);
    let superseded = ending(EndCause::Superseded);
    log.wait_for("the end of the term", superseded).await;
    assert!(!scene.first.term().is_valid());
    assert_eq!(scene.store.put("a", "2").await, Err(FencedError::NotLeader));

    // The next term has a fence of its own. Purged without a trace it is missing, which is no
    // sequence of anybody.
    let second = scene.journal.started(ROLE, 1).await;
    let store = second.term().store();
    let entry = store.get("a").await.expect("read").expect("a value");
    is(&entry, b"1", revision);
    store.put("a", "3").await.expect("written");
    let stream = scene.stranger.stream().await;
    let purged = stream.purge().filter(format!("$KV.{BUCKET}.{fence}")).await;
    assert!(purged.expect("purged").success);
    let refused = store.put("a", "4").await;
    assert_eq!(refused, Err(FencedError::Superseded { fence: 0 }));
    is_superseded(store.unchecked().create("c", "4").await, 0);
    let third = scene.journal.started(ROLE, 2).await;
    assert_eq!(third.term().store().list().await.expect("keys"), ["a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_without_an_answer_is_unconfirmed_and_not_sent_again() {
    let (server, proxy, journal) = proxied();
    if server.version() < BATCHES {
        return;
    }
    let _a = standing(
        "a",
        proxy.url(),
        &journal,
        leased_for(ms(10_000)).heartbeat_interval(ms(1000)),
    )
    .await;
    let first = journal.started(ROLE, 0).await;
    let store = first.term().store();
    store.put("a", "0").await.expect("written");
    let store = store.timeout(ms(300));
    let stranger = Stranger::connect(&server.url()).await;
    let tape = stranger.tape("_data.scheduler.a").await;
    assert_eq!(tape.last().await.value, 0);

    proxy.drop_acks();
    let lost = store.put("a", "1").await;
    assert!(
        matches!(&lost, Err(error) if error.may_have_been_written()),
        "{lost:?}"
    );
    tape.wait_for("the write that landed", |piece| piece.value == 1)
        .await;
    proxy.restore();
    // What is not sent needs no doubt.
    proxy.cut();
    let refused = eventually(SOON, "a word of the disconnect", async || {
        let refused = store.put("a", "2").await;
        matches!(refused, Err(FencedError::Unavailable { .. })).then_some(refused)
    });
    assert!(refused.await.is_err_and(|error| error.is_transient()));
    proxy.restore();
    eventually(SOON, "a write after the reconnect", async || {
        store.put("a", "3").await.ok()
    })
    .await;
    never("a second copy", ms(200), || {
        tape.all().iter().filter(|piece| piece.value == 1).count() != 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_nobody_waits_for_any_more_leave_room_for_others() {
    let (server, proxy, journal) = proxied();
    if server.version() < BATCHES {
        return;
    }
    let _a = standing("a", proxy.url(), &journal, leased_for(ms(10_000))).await;
    let store = journal.started(ROLE, 0).await.term().store();
    proxy.delay(Direction::ToClient, ms(50));
    // More than the server keeps open for one stream.
    let mut given_up = 0;
    for n in 0.. {
        let key = format!("jobs.{n}");
        let creating = tokio::time::timeout(ms(20), store.create(&key, "x"));
        // Where this process stood still for a moment there may be an answer.
        given_up += usize::from(creating.await.is_err());
        if given_up == 60 {
            break;
        }
    }
    proxy.restore();
    store.create("a", "x").await.expect("there is room");
    let keys = store.list().await.expect("keys");
    assert!(keys.contains(&"a".to_owned()), "{keys:?}");
}
