//! An observer of elections: what it tells of them, and what it costs.

use futures::StreamExt;
use nats_elect::{AuthConfig, Change, ChangeCause, Error, Observer, RoleConfig, Standing};
use nats_elect_testing::{Direction, NatsServer, TcpProxy, eventually};

use crate::privileges::server as deployed;
use crate::support::bucket::Stranger;
use crate::support::child::{ChildInstance, Orders};
use crate::support::clock::Stamp;
use crate::support::instance::{guest, hand_over, instance, make_bucket, never, standing};
use crate::support::journal::Journal;
use crate::support::onlooker::{Onlooker, looking_at};
use crate::support::user::User;
use crate::support::{BUCKET, ROLE, SOON, comes_true, leased_for, ms, served};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_follows_a_role_through_a_claim_a_step_down_by_name_and_a_stop() {
    let (server, journal) = served();
    let config = leased_for(ms(4000)).priority(3).meta("region", "eu");
    let a = standing("a", server.url(), &journal, config.clone()).await;
    let first = journal.started(ROLE, 0).await;
    let on = Onlooker::start(looking_at(server.url())).await;
    let leader = on.observer.wait_for_leader(ROLE).await.expect("a leader");
    assert_eq!((&*leader.instance_id, leader.priority), ("a", 3));
    assert_eq!(leader.meta["region"], "eu");
    let seen = on.follows("a").await;
    assert_eq!(seen.fencing_token, Some(first.fencing_token));
    assert_eq!(seen.ttl, Some(ms(4000)));
    let stranger = Stranger::connect(&server.url()).await;
    assert!(seen.revision <= Some(stranger.message().await.sequence));

    let proxy = TcpProxy::start(server.url()).expect("a proxy");
    let b = standing("b", proxy.url(), &journal, config).await;
    b.wait_until_following("a").await;
    // No watch shows a release that is written over before its turn.
    proxy.delay(Direction::ToServer, ms(200));
    hand_over(&a.role(ROLE), "b").await;
    let second = journal.started(ROLE, 1).await;
    let freed = on.told(0, "", ChangeCause::Released).await;
    assert_eq!(freed.standing, Standing::HandedOver);
    assert_eq!(freed.from.expect("a").instance_id, "a");
    on.told(1, "b", ChangeCause::HandedOver).await;
    proxy.restore();
    let seen = on
        .sees("the new token", |role| {
            role.fencing_token == Some(second.fencing_token)
        })
        .await;
    assert!(seen.confirmed, "its claim was seen");

    a.stop().await;
    b.stop().await;
    on.told(2, "", ChangeCause::Released).await;
    let seen = on.sees("freedom", |role| role.standing.is_free()).await;
    assert_eq!(seen.last_leader.expect("b").instance_id, "b");
    assert_eq!(on.of(ROLE).len(), 3, "{:?}", on.of(ROLE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_looks_late_knows_the_tokens_of_old_terms_too() {
    let (server, journal) = served();
    let lease = || leased_for(ms(3000)).heartbeat_interval(ms(50));
    let roles = ["one", "two", "three"];
    let mut a = instance("a", server.url(), &journal);
    for role in roles {
        a = a.role(role, lease());
    }
    let a = a.start().await;
    let stranger = Stranger::connect(&server.url()).await;
    let last = async || stranger.stream().await.cached_info().state.last_sequence;
    let begun = last().await;
    comes_true("a hundred heartbeats", async || last().await > begun + 100).await;
    let on = Onlooker::start(looking_at(server.url())).await;
    for role in roles {
        eventually(SOON, "its token", async || {
            let term = a.role(role).status().fencing_token?;
            let seen = on.observer.role(role)?;
            (seen.fencing_token == Some(term)).then_some(())
        })
        .await;
    }
    // And of terms that begin while it looks on.
    let b = instance("b", server.url(), &journal);
    let b = roles.iter().fold(b, |b, role| b.role(role, lease()));
    let b = b.start().await;
    a.stop().await;
    for role in roles {
        eventually(SOON, "its next token", async || {
            let term = b.role(role).status().fencing_token?;
            let seen = on.observer.role(role)?;
            (seen.fencing_token == Some(term)).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_killed_is_told_as_gone_after_its_lease_and_not_before() {
    let (server, journal) = served();
    let ttl = ms(2000);
    let mut child = ChildInstance::start(&Orders::new("child", server.url(), ttl), &journal);
    journal.started(ROLE, 0).await;
    let on = Onlooker::start(looking_at(server.url())).await;
    on.follows("child").await;
    let killed = child.kill();
    never("a word of its end", ms(500), || !on.of(ROLE).is_empty()).await;
    let gone = on.told(0, "", ChangeCause::Expired).await;
    assert_eq!(gone.from.expect("the child").instance_id, "child");
    let after = Stamp::now().since(killed);
    // The last heartbeat was some time before.
    assert!(after >= ttl / 2, "{after:?}");

    // Who comes now finds a record that is dead, and says so only after its lease.
    let late = Onlooker::start(looking_at(server.url())).await;
    let seen = late.observer.role(ROLE).expect("the role");
    assert_eq!((seen.standing, seen.confirmed), (Standing::Led, false));
    let waited = tokio::time::timeout(ttl / 2, late.observer.wait_for_leader(ROLE)).await;
    assert!(waited.is_err(), "{waited:?}");
    late.told(0, "", ChangeCause::Expired).await;

    let _a = standing("a", server.url(), &journal, leased_for(ttl)).await;
    let leader = late.observer.wait_for_leader(ROLE).await.expect("one");
    assert_eq!(leader.instance_id, "a");
    on.told(1, "a", ChangeCause::Claimed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_roles_are_watched_by_two_consumers() {
    const ROLES: usize = 200;
    let server = NatsServer::start().expect("start");
    let (stranger, store) = Stranger::with_bucket(&server.url()).await;
    let renew = async || {
        for i in 0..ROLES {
            let value = format!(r#"{{"id":"n{i}","token":"t","ttl_ms":60000}}"#);
            let put = store.put(format!("role-{i}"), value.into()).await;
            put.expect("put");
        }
    };
    renew().await;
    let on = Onlooker::start(looking_at(server.url())).await;
    assert_eq!(on.observer.roles().len(), ROLES);
    renew().await;
    eventually(SOON, "two hundred leaders", async || {
        let roles = on.observer.roles();
        roles.values().all(|role| role.confirmed).then_some(())
    })
    .await;
    let stream = stranger.stream().await;
    let names: Vec<_> = stream.consumer_names().collect().await;
    assert_eq!(names.len(), 2, "one for each kind of keys: {names:?}");
    // One that asked for two of them sees those alone.
    let some = looking_at(server.url()).roles(["role-7", "role-x"]);
    let some = Onlooker::start(some).await;
    let roles = some.observer.roles();
    let stands: Vec<_> = roles
        .iter()
        .map(|(name, role)| (&**name, role.standing))
        .collect();
    assert_eq!(
        stands,
        [("role-7", Standing::Led), ("role-x", Standing::Unclaimed)]
    );
    let unknown = some.observer.wait_for_leader("role-8").await;
    assert_eq!(unknown, Err(Error::UnknownRole("role-8".into())));
    drop(on);
    eventually(SOON, "the end of its consumers", async || {
        let names: Vec<_> = stream.consumer_names().collect().await;
        (names.len() == 2).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_permissions_of_an_observer_are_enough() {
    let server = deployed();
    let journal = Journal::default();
    let ttl = ms(1500);
    make_bucket(&server).await;
    let a = guest("a", server.url(), &journal)
        .user("candidate", "change-me")
        .standing(leased_for(ttl));
    let a = a.start().await;
    let first = journal.started(ROLE, 0).await;
    // A client that hears what it may not do.
    let user = User::connect(&server.url(), "observer", "change-me").await;
    let builder = Observer::builder().client(user.client.clone());
    let on = Onlooker::start(builder.bucket(BUCKET)).await;
    let seen = on.follows("a").await;
    assert_eq!(seen.fencing_token, Some(first.fencing_token));
    // Without a release: the end of the lease is looked up.
    drop(a);
    on.told(0, "", ChangeCause::Expired).await;
    assert_eq!(user.denied(), [""; 0]);
    let refused =
        looking_at(server.url()).auth(AuthConfig::default().user_and_password("observer", "wrong"));
    let refused = refused.start().await.expect_err("refused");
    assert!(matches!(refused, Error::Authentication(_)), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_strangers_write_is_told_as_far_as_it_can_be_read_and_stops_nothing() {
    let server = NatsServer::start().expect("start");
    let (stranger, store) = Stranger::with_bucket(&server.url()).await;
    let builder = looking_at(server.url()).default_ttl(ms(1000));
    let on = Onlooker::start(builder).await;
    store.put(ROLE, "\u{1}{ no json".into()).await.expect("put");
    let seen = on.sees("a leader", |role| role.leader.is_some()).await;
    assert!(seen.opaque && seen.confirmed);
    assert_eq!(
        (&*seen.leader.expect("one").instance_id, seen.ttl),
        ("", Some(ms(1000)))
    );
    on.told(1, "", ChangeCause::Expired).await;

    // A flood of garbage under this and other keys, and not a word is lost after it.
    for i in 0..3000_u32 {
        let key = match i % 4 {
            0 => ROLE.to_owned(),
            1 => format!("_fence.{ROLE}"),
            2 => format!("_fence.x{}", i % 16),
            _ => format!("y{}", i % 16),
        };
        let value = vec![u8::try_from(i % 256).expect("a byte"); (i % 300) as usize];
        let subject = format!("$KV.{BUCKET}.{key}");
        let publish = stranger.jetstream.publish(subject, value.into()).await;
        if i % 100 == 0 {
            publish.expect("sent").await.expect("stored");
        }
    }
    let value = br#"{"id":"go","token":"t","priority":2}"#.as_slice();
    store.put(ROLE, value.into()).await.expect("put");
    let seen = on.follows("go").await;
    assert!(!seen.opaque);
    assert_eq!(seen.fencing_token, None, "it writes none");
    store.delete(ROLE).await.expect("delete");
    on.told(0, "", ChangeCause::Deleted).await;
    store.put(ROLE, value.into()).await.expect("put");
    on.follows("go").await;
    // Gone without a trace: nobody is told of that, but it is looked up when the lease has passed.
    let purged = stranger.stream().await;
    let subject = format!("$KV.{BUCKET}.{ROLE}");
    purged.purge().filter(subject).await.expect("purged");
    let seen = on
        .sees("nothing", |role| role.standing == Standing::Unclaimed)
        .await;
    assert_eq!(seen.revision, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_whom_a_trusted_key_signed_for_is_told_as_a_leader() {
    use nats_elect::Distrust;
    use nats_elect_signing::{SigningBuilder, SigningKey, TrustedKeys, TrustingBuilder};
    use std::time::Duration;

    let pair = nkeys::KeyPair::new_user();
    let key = SigningKey::from_seed(&pair.seed().expect("a seed")).expect("a key");
    let trusted: TrustedKeys = [key.public_key().clone()].into_iter().collect();
    let (server, journal) = served();
    let config = leased_for(ms(3000)).meta("address", "10.0.0.1:80");
    let a = instance("a", server.url(), &journal)
        .with(|it| it.signing_key(key.clone()))
        .standing(config);
    let a = a.start().await;
    let first = journal.started(ROLE, 0).await;
    let builder = looking_at(server.url()).trusted_keys(trusted, Duration::ZERO);
    let on = Onlooker::start(builder).await;
    let seen = on.follows("a").await;
    let leader = seen.leader.expect("a leader");
    assert_eq!(leader.signer.as_deref(), Some(key.public_key().as_str()));
    assert_eq!(leader.meta["address"], "10.0.0.1:80");
    assert_eq!(seen.fencing_token, Some(first.fencing_token));

    a.stop().await;
    on.told(0, "", ChangeCause::Released).await;
    let forger = guest("forger", server.url(), &journal).standing(leased_for(ms(3000)));
    let _forger = forger.start().await;
    let second = journal.started(ROLE, 1).await;
    let seen = on
        .sees("distrust", |role| role.standing == Standing::Untrusted)
        .await;
    assert_eq!((seen.leader, seen.fencing_token), (None, None));
    assert_eq!(seen.distrust, Some(Distrust::Unsigned));
    never("trust", ms(1500), || on.observer.leader(ROLE).is_some()).await;
    assert!(second.term().is_valid());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_bucket_is_waited_for_and_then_said_to_be_missing() {
    let (server, journal) = served();
    let missing = looking_at(server.url())
        .start_timeout(ms(2500))
        .start()
        .await;
    let missing = missing.expect_err("no bucket");
    assert_eq!(missing, Error::BucketMissing(BUCKET.into()));

    let starting = tokio::spawn(looking_at(server.url()).start());
    never("a start without a bucket", ms(300), || {
        starting.is_finished()
    })
    .await;
    let _a = standing("a", server.url(), &journal, RoleConfig::default()).await;
    let observer = starting.await.expect("no panic").expect("an observer");
    let leader = observer.wait_for_leader(ROLE).await.expect("a leader");
    assert_eq!(leader.instance_id, "a");

    // Whoever waits is told when the observer ends; and a clone keeps it.
    let (clone, mut changes) = (observer.clone(), observer.changes());
    drop(observer);
    assert!(clone.connection().is_current());
    drop(clone);
    assert_eq!(changes.next().await, None);

    let nowhere = Observer::builder().servers("nats://127.0.0.1:1");
    let nowhere = nowhere.start_timeout(ms(300)).start().await;
    let nowhere = nowhere.expect_err("nobody there");
    assert!(matches!(nowhere, Error::Unavailable { .. }), "{nowhere}");
    let wrong = Observer::builder().default_ttl(ms(1)).start().await;
    assert!(matches!(wrong, Err(Error::Config(_))), "{wrong:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_of_changes_that_is_too_slow_is_told_how_many_it_missed() {
    let server = NatsServer::start().expect("start");
    let (_, store) = Stranger::with_bucket(&server.url()).await;
    // Nobody's lease runs out meanwhile.
    let observer = looking_at(server.url()).default_ttl(ms(600_000));
    let observer = observer.start().await.expect("an observer");
    let mut slow = observer.changes();
    // Roles that appear are told, and stay.
    for i in 0..1100 {
        let put = store.put(format!("role-{i}"), "x".into()).await;
        put.expect("put");
    }
    comes_true("all roles", async || observer.roles().len() == 1100).await;
    let missed = match slow.next().await {
        Some(Change::Lagged { missed }) => missed,
        other => panic!("not told: {other:?}"),
    };
    assert_eq!(missed, 1100 - 1024);
    let next = slow.next().await;
    assert!(
        matches!(&next, Some(Change::Role(change)) if change.role == "role-76"),
        "{next:?}"
    );
}
