//! Groups: each shard has one owner at a time, whatever becomes of the instances and of the bucket.

use async_nats::HeaderMap;
use async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
use nats_elect::{BoxError, FencedError, Group, GroupHandle, RoleManager, Term};
use nats_elect_testing::{NatsServer, TcpProxy, eventually};

use crate::support::bucket::Stranger;
use crate::support::instance::Recorded;
use crate::support::journal::Journal;
use crate::support::member::{
    GROUP, LEASE, all_owned, epoch_of, evenly_owned, group, member, member_with, stop,
};
use crate::support::{BUCKET, SOON, comes_true, ms, served};

/// The key of a unit of the first generation.
fn unit(shard: u32) -> String {
    format!("$KV.{BUCKET}._group.u.{GROUP}.1.{shard}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_shard_has_one_owner_and_a_member_that_stops_leaves_none_behind() {
    let (server, journal) = served();
    let shards = 24;
    let a = member(&server.url(), "a", shards, &journal).await;
    let b = member(&server.url(), "b", shards, &journal).await;
    all_owned(&[&a, &b], shards).await;
    stop(a).await;
    let owned = all_owned(&[&b], shards).await;
    assert_eq!(owned["b"], shards as usize);
    stop(b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shards_of_a_member_that_is_cut_off_are_owned_again_after_its_lease() {
    let server = NatsServer::start().expect("start");
    let proxy = TcpProxy::start(format!("127.0.0.1:{}", server.port())).expect("proxy");
    let journal = Journal::default();
    let shards = 16;
    let a = member(&proxy.url(), "a", shards, &journal).await;
    let b = member(&server.url(), "b", shards, &journal).await;
    all_owned(&[&a, &b], shards).await;
    proxy.black_hole();
    // The journal checks that no handler of `a` runs any more when one of `b` starts.
    all_owned(&[&b], shards).await;
    proxy.restore();
    stop(b).await;
    all_owned(&[&a], shards).await;
    stop(a).await;
}

/// Otherwise it would be counted among the members for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_cut_off_without_a_shard_is_deposed() {
    let server = NatsServer::start().expect("start");
    let proxy = TcpProxy::start(format!("127.0.0.1:{}", server.port())).expect("proxy");
    let journal = Journal::default();
    let a = member(&server.url(), "a", 1, &journal).await;
    all_owned(&[&a], 1).await;
    let b = member(&proxy.url(), "b", 1, &journal).await;
    let stranger = Stranger::connect(&server.url()).await;
    let gone = epoch_of(&stranger, "b").await;
    proxy.black_hole();
    let tombstone = eventually(SOON, "a tombstone", async || {
        let stands = stranger.find(&format!("_group.m.{gone}")).await;
        stands.filter(|it| it.payload.is_empty())
    })
    .await;
    let identity = tombstone.headers.get("Nats-Elect-Identity");
    assert!(identity.is_some(), "it tells the lease to those who join");
    proxy.restore();
    comes_true("another epoch", async || {
        epoch_of(&stranger, "b").await != gone
    })
    .await;
    stop(b).await;
    stop(a).await;
}

/// However often its members looked for a watch meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_outlived_an_outage_of_several_leases_has_owners_at_once() {
    let (mut server, journal) = served();
    let shards = 8;
    let a = member(&server.url(), "a", shards, &journal).await;
    all_owned(&[&a], shards).await;
    server.kill();
    comes_true("the end of all terms", async || group(&a).mine().is_empty()).await;
    tokio::time::sleep(LEASE * 3).await;
    server.restart().expect("restart");
    all_owned(&[&a], shards).await;
    stop(a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_of_everything_makes_no_second_owner() {
    let (server, journal) = served();
    let shards = 4;
    let a = member(&server.url(), "a", shards, &journal).await;
    let b = member(&server.url(), "b", shards, &journal).await;
    all_owned(&[&a, &b], shards).await;
    let stranger = Stranger::connect(&server.url()).await;
    stranger.allow_purges().await;
    stranger.stream().await.purge().await.expect("purge");
    // Their leases are gone. They claim new ones, and what they own has to come of age.
    eventually(SOON, "the end of all terms", async || {
        let ended = |term: &crate::support::journal::RecordedTerm| term.end.is_some();
        let all = (0..shards).all(|shard| {
            let terms = journal.terms(&format!("{GROUP}/{shard}"));
            !terms.is_empty() && terms.iter().all(ended)
        });
        all.then_some(())
    })
    .await;
    let count = || -> usize {
        let shards = (0..shards).map(|shard| journal.terms(&format!("{GROUP}/{shard}")).len());
        shards.sum()
    };
    let before = count();
    tokio::time::sleep(LEASE + ms(500)).await;
    assert_eq!(count(), before, "they knew the group, so it is not new");
    stop(a).await;
    stop(b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_record_ends_the_owners_term_and_gives_nobody_one_before_its_age() {
    let (server, journal) = served();
    let a = member(&server.url(), "a", 2, &journal).await;
    let b = member(&server.url(), "b", 2, &journal).await;
    let role = format!("{GROUP}/0");
    // Nothing is to move any more for the sake of balance.
    let owner = eventually(SOON, "a shard on each", async || {
        let one = |it: &RoleManager| group(it).mine().len() == 1;
        journal.running(&role).filter(|_| one(&a) && one(&b))
    })
    .await;
    let terms = journal.terms(&role).len();
    let other = if owner.instance == "a" { "b" } else { "a" };
    let stranger = Stranger::connect(&server.url()).await;
    let epoch = epoch_of(&stranger, other).await;
    let forged = format!(r#"{{"v":1,"o":"{epoch}"}}"#);
    let jetstream = &stranger.jetstream;
    let stored = jetstream
        .publish(unit(0), forged.into())
        .await
        .expect("publish");
    stored.await.expect("stored");
    journal.ended(&role, terms - 1).await;
    // It would have to stand for a minute. So nobody leads it within a lease.
    tokio::time::sleep(LEASE + ms(500)).await;
    assert_eq!(journal.terms(&role).len(), terms);
    stop(a).await;
    stop(b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_keeps_data_that_only_its_newest_term_can_change() {
    let (server, journal) = served();
    let counting = |id: &str| {
        let count = |term: Term| async move {
            let store = term.store();
            let before = store.get("count").await?;
            let count: u64 = before.map_or(0, |entry| {
                String::from_utf8_lossy(&entry.value)
                    .parse()
                    .expect("a number")
            });
            store.put("count", (count + 1).to_string()).await?;
            term.cancelled().await;
            Ok::<(), BoxError>(())
        };
        Group::sharded(GROUP, 3, Recorded::working(id, &journal, count))
    };
    let a = member_with(&server.url(), "a", counting("a")).await;
    let stranger = Stranger::connect(&server.url()).await;
    let all = |n: &'static str| {
        let stranger = &stranger;
        async move {
            eventually(SOON, "the counters", async || {
                for shard in 0..3 {
                    let key = format!("_gdata.{GROUP}.1.{shard}.count");
                    let found = stranger.find(&key).await?;
                    if found.payload.as_ref() != n.as_bytes() {
                        return None;
                    }
                }
                Some(())
            })
            .await;
        }
    };
    all("1").await;
    let old = journal.started(&format!("{GROUP}/0"), 0).await;
    let b = member_with(&server.url(), "b", counting("b")).await;
    group(&b).wait_until(GroupHandle::has_joined).await;
    let left = group(&a);
    stop(a).await;
    let waited = tokio::time::timeout(SOON, left.wait_until(|_| false)).await;
    waited.expect("nothing more happens to who has left");
    all("2").await;
    // A term that is over writes nothing, here or on the server.
    let late = old.term().store().put("count", "9").await;
    assert!(matches!(late, Err(FencedError::NotLeader)), "{late:?}");
    let mut headers = HeaderMap::new();
    let token = old.fencing_token.sequence;
    headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, token.to_string());
    let subject = "Nats-Expected-Last-Subject-Sequence-Subject";
    headers.insert(subject, unit(0));
    let key = format!("$KV.{BUCKET}._gdata.{GROUP}.1.0.count");
    let request = async_nats::Request::new()
        .headers(headers)
        .payload("9".into());
    let client = stranger.jetstream.client();
    let answer = client.send_request(key, request).await.expect("an answer");
    let answer = String::from_utf8_lossy(&answer.payload).into_owned();
    assert!(answer.contains("wrong last sequence"), "{answer}");
    all("2").await;
    stop(b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_joins_gets_its_share_and_one_that_leaves_hands_it_over_evenly() {
    let (server, journal) = served();
    let shards = 30;
    let a = member(&server.url(), "a", shards, &journal).await;
    all_owned(&[&a], shards).await;
    let b = member(&server.url(), "b", shards, &journal).await;
    let c = member(&server.url(), "c", shards, &journal).await;
    evenly_owned(&[&a, &b, &c], shards).await;
    stop(b).await;
    // It gives most of them to the first one, if the third had only just settled.
    eventually(SOON, "fifteen shards on each", async || {
        let owned = all_owned(&[&a, &c], shards).await;
        (owned["a"] == 15).then_some(())
    })
    .await;
    let moves: usize = (0..shards)
        .map(|shard| journal.terms(&format!("{GROUP}/{shard}")).len() - 1)
        .sum();
    // Fifteen to the first that joined, five from each to the next, ten from the one that left.
    assert!(moves <= 35 + 5, "{moves} moves");
    stop(a).await;
    stop(c).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_units_of_a_cordoned_instance_move_away_and_come_back_when_it_is_resumed() {
    let (server, journal) = served();
    let shards = 12;
    let a = member(&server.url(), "a", shards, &journal).await;
    let b = member(&server.url(), "b", shards, &journal).await;
    let owned_by_a = async |count: usize| {
        eventually(SOON, "as many units as it should have", async || {
            let owned = all_owned(&[&a, &b], shards).await;
            (owned["a"] == count).then_some(())
        })
        .await;
    };
    owned_by_a(6).await;
    a.cordon().await.expect("cordon");
    owned_by_a(0).await;
    a.resume().await.expect("resume");
    owned_by_a(6).await;
    stop(a).await;
    stop(b).await;
}
