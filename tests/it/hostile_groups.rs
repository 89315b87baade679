//! What a stranger writes under the keys of groups costs time, and no more of it than the protocol
//! says.

use std::time::Duration;

use nats_elect::{Group, MemberConfig, RoleManager};
use nats_elect_testing::{NatsServer, eventually};

use crate::support::bucket::{Stranger, publish_headers};
use crate::support::clock::Stamp;
use crate::support::instance::Recorded;
use crate::support::journal::Journal;
use crate::support::member::{
    GROUP, LEASE, all_owned, epoch_of, evenly_owned, group, member, stop,
};
use crate::support::{BUCKET, SOON, comes_true, logs, served};

/// The longest lease of a member.
const LONGEST: Duration = Duration::from_secs(60);
/// Heartbeats, turns and a busy machine.
const SLACK: Duration = Duration::from_secs(15);

const SHARDS: u32 = 8;
/// A group whose record is one of a later version.
const LATER: &str = "later";

async fn member_of_both(server: &NatsServer, id: &str, journal: &Journal) -> RoleManager {
    let handler = || Recorded::obedient(id, journal);
    RoleManager::builder()
        .servers(server.url())
        .bucket(BUCKET)
        .bucket_auto_create()
        .instance_id(id)
        // A busy machine must not lose it: nobody would take units of `LATER` again.
        .member(MemberConfig::default().ttl(LEASE * 3))
        .group(Group::sharded(GROUP, SHARDS, handler()))
        .group(Group::sharded(LATER, 4, handler()))
        .start()
        .await
        .expect("start")
}

fn role(shard: u32) -> String {
    format!("{GROUP}/{shard}")
}

/// The terms that shards of a group had so far.
fn count(journal: &Journal, group: &str, shards: u32) -> Vec<usize> {
    let roles = (0..shards).map(|shard| format!("{group}/{shard}"));
    roles.map(|role| journal.terms(&role).len()).collect()
}

/// Waits until a handler runs for each shard; a unit is told as one's own a moment before its
/// handler begins. Returns the terms that they had so far.
async fn all_run(journal: &Journal, group: &str, shards: u32) -> Vec<usize> {
    let runs = |shard| journal.running(&format!("{group}/{shard}")).is_some();
    comes_true("a handler for each shard", async || (0..shards).all(runs)).await;
    count(journal, group, shards)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_by_hand_costs_a_unit_its_owner_for_as_long_as_the_protocol_says() {
    let (server, journal) = served();
    let a = member_of_both(&server, "a", &journal).await;
    let b = member_of_both(&server, "b", &journal).await;
    let later = |it: &RoleManager| it.group(LATER).expect("it").mine().len();
    eventually(SOON, "half of all units on each", async || {
        let half = |it: &RoleManager| group(it).mine().len() == 4 && later(it) == 2;
        (half(&a) && half(&b)).then_some(())
    })
    .await;
    let before = all_run(&journal, GROUP, SHARDS).await;
    let later_before = all_run(&journal, LATER, 4).await;
    let owner = journal.terms(&role(3)).pop().expect("a term").instance;
    let other = if owner == "a" { "b" } else { "a" };
    let stranger = Stranger::connect(&server.url()).await;
    let living = epoch_of(&stranger, other).await;
    let store = stranger.store().await;
    let put = async |key: String, value: String| {
        let put = store.put(key, value.into()).await;
        put.expect("put")
    };

    let made = stranger.find(&format!("_group.g.{LATER}")).await;
    let made = String::from_utf8(made.expect("a record").payload.to_vec()).expect("JSON");
    let of_later = put(
        format!("_group.g.{LATER}"),
        r#"{"v":99,"kind":"rings"}"#.into(),
    )
    .await;
    let mut members = Vec::new();
    for (letter, value) in [
        ("B", "rubbish"),
        ("C", r#"{"v":99,"id":"c","ttl_ms":3000}"#),
    ] {
        let key = format!("_group.m.{}A", letter.repeat(21));
        let sequence = put(key.clone(), value.into()).await;
        members.push((key, sequence));
    }
    let written = Stamp::now();
    let unit = |shard: usize| format!("_group.u.{GROUP}.1.{shard}");
    let of_nobody = format!(r#"{{"v":1,"o":"{}A"}}"#, "D".repeat(21));
    let forged = [
        ("rubbish".to_owned(), 2),
        (of_nobody, 1),
        (r#"{"v":99,"o":[1]}"#.to_owned(), 2),
        // Nobody but its owner gives a unit away.
        (format!(r#"{{"v":1,"o":"{living}"}}"#), 1),
        (r#"{"v":1,"c":1}"#.to_owned(), 2),
    ];
    // Of what is not understood, and of what says *closed*, nobody knows who may act on it. What is
    // written over it has to age, too.
    let mut leases: Vec<u32> = forged.iter().map(|(_, leases)| *leases).collect();
    for (shard, (value, _)) in forged.into_iter().enumerate() {
        put(unit(shard), value).await;
    }
    store.delete(unit(leases.len())).await.expect("deleted");
    leases.push(2);
    let all_written = Stamp::now();

    let again = leases.iter().enumerate().map(async |(shard, leases)| {
        let role = format!("{GROUP}/{shard}");
        let ended = journal.ended(&role, before[shard] - 1).await;
        let took = ended.end().since(written);
        assert!(
            took < LEASE,
            "{role} ended {took:?} after it was written over"
        );
        let most = LONGEST * *leases + SLACK;
        let next = eventually(most, &role, async || {
            journal.terms(&role).into_iter().nth(before[shard])
        });
        let after = next.await.start.since(all_written);
        // The last of them was written a moment later than the first.
        let least = LONGEST * 59 / 60;
        assert!(least < after, "{role} began {after:?} after that");
    });
    futures::future::join_all(again).await;
    all_owned(&[&a, &b], SHARDS).await;

    // Records that are not understood, and which no unit depends on, stay as they are.
    for (key, sequence) in members {
        assert_eq!(stranger.find(&key).await.expect("it").sequence, sequence);
    }
    assert_eq!(
        count(&journal, LATER, 4),
        later_before,
        "their owners act on"
    );
    assert_eq!((later(&a), later(&b)), (2, 2));
    stop(a).await;
    all_owned(&[&b], SHARDS).await;
    tokio::time::sleep(LEASE).await;
    assert_eq!(later(&b), 2, "nobody takes a unit of such a group");
    let stands = stranger
        .find(&format!("_group.g.{LATER}"))
        .await
        .expect("it");
    assert_eq!(stands.sequence, of_later);
    put(format!("_group.g.{LATER}"), made).await;
    comes_true("all units of it", async || later(&b) == 4).await;
    stop(b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rubbish_over_a_members_lease_costs_it_what_it_owns_until_a_lease_is_over() {
    let (server, journal) = served();
    let a = member(&server.url(), "a", SHARDS, &journal).await;
    let b = member(&server.url(), "b", SHARDS, &journal).await;
    evenly_owned(&[&a, &b], SHARDS).await;
    let before = all_run(&journal, GROUP, SHARDS).await;
    let mine = group(&a).mine();
    let stranger = Stranger::connect(&server.url()).await;
    let epoch = epoch_of(&stranger, "a").await;
    let store = stranger.store().await;
    let key = format!("_group.m.{epoch}");
    store.put(&*key, "rubbish".into()).await.expect("put");
    for shard in mine {
        let role = format!("{GROUP}/{shard}");
        let shard: usize = shard.parse().expect("a number");
        journal.ended(&role, before[shard] - 1).await;
    }
    // The journal checks that no two handlers of a shard run at one time.
    all_owned(&[&a, &b], SHARDS).await;
    let next = epoch_of(&stranger, "a").await;
    assert_ne!(next, epoch, "an epoch is claimed once");
    stop(a).await;
    all_owned(&[&b], SHARDS).await;
    stop(b).await;
}

/// It costs each instance that starts a minute, until somebody purges it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_joins_says_which_key_it_waits_for() {
    let logs = logs::install();
    let (server, journal) = served();
    let a = member(&server.url(), "a", SHARDS, &journal).await;
    all_owned(&[&a], SHARDS).await;
    let key = format!("_group.m.{}A", "W".repeat(21));
    let store = Stranger::connect(&server.url()).await.store().await;
    store.put(&*key, "rubbish".into()).await.expect("put");
    let b = member(&server.url(), "b", SHARDS, &journal).await;
    eventually(SOON, "a warning", async || {
        let text = logs.text();
        let mut warnings = text.lines().filter(|it| it.contains(" WARN "));
        let says = |it: &str| it.contains(&key) && it.contains("Purge") && it.contains("wait=1m");
        warnings.any(says).then_some(())
    })
    .await;
    stop(b).await;
    stop(a).await;
}

/// The first headers break the connection of each client that reads them, the others end the client.
const UNREADABLE: [&[u8]; 2] = [
    b"NATS/1.0\r\nno colon\r\n\r\n",
    b"NATS/1.0\r\nA: b\rc\r\n\r\n",
];

/// Each watch on groups would receive them again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_no_client_can_read_is_written_over_and_costs_its_unit_a_lease() {
    let (server, journal) = served();
    let a = member(&server.url(), "a", SHARDS, &journal).await;
    all_run(&journal, GROUP, SHARDS).await;
    let stranger = Stranger::connect(&server.url()).await;
    let stream = stranger.stream().await;
    let publish = async |key: &str, headers, after: &str| {
        let subject = format!("$KV.{BUCKET}.{key}");
        let before = stream.get_last_raw_message_by_subject(&subject).await;
        let before = before.map_or(0, |message| message.sequence);
        publish_headers(&server.url(), &subject, headers);
        eventually(SOON, "that the message is written over", async || {
            let message = stream.get_last_raw_message_by_subject(&subject).await;
            let message = message.ok().filter(|it| it.sequence > before)?;
            assert_eq!(message.payload, after.as_bytes());
            Some(())
        })
        .await;
    };
    for headers in UNREADABLE {
        publish("_group.x", headers, "").await;
    }
    // A busy machine may have lost its lease by that.
    let before = all_run(&journal, GROUP, SHARDS).await;
    publish(
        &format!("_group.u.{GROUP}.1.3"),
        UNREADABLE[0],
        r#"{"v":1}"#,
    )
    .await;
    let last = journal.ended(&role(3), before[3] - 1).await;
    // One that comes meanwhile finds such a message when it begins.
    let subject = format!("$KV.{BUCKET}._group.x");
    publish_headers(&server.url(), &subject, UNREADABLE[0]);
    let b = member(&server.url(), "b", SHARDS, &journal).await;
    // Twice that, if a busy machine ends the lease of `a` meanwhile: it waits anew.
    let next = eventually(LONGEST * 2 + SLACK, "the next term", async || {
        journal.terms(&role(3)).into_iter().nth(before[3])
    })
    .await;
    assert!(next.fencing_token > last.fencing_token);
    let waited = next.start.since(last.end());
    assert!(waited > LONGEST * 59 / 60, "only {waited:?}");
    // The journal checks that no two handlers of a shard run at one time.
    evenly_owned(&[&a, &b], SHARDS).await;
    stop(a).await;
    stop(b).await;
}
