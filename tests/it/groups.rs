//! Groups: each shard has one owner at a time, whatever becomes of the instances.

use nats_elect::GroupHandle;
use nats_elect_testing::eventually;

use crate::support::bucket::Stranger;
use crate::support::clock::Stamp;
use crate::support::member::{
    GROUP, LEASE, all_owned, epoch_of, evenly_owned, group, member, stop,
};
use crate::support::{SOON, comes_true, proxied, served};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shards_of_a_member_that_is_cut_off_are_owned_again_after_its_lease() {
    let (server, proxy, journal) = proxied();
    let a = member(&proxy.url(), "a", 16, &journal).await;
    let b = member(&server.url(), "b", 16, &journal).await;
    all_owned(&[&a, &b], 16).await;
    proxy.black_hole();
    // The journal checks that no handler of `a` runs any more when one of `b` starts.
    all_owned(&[&b], 16).await;
    proxy.restore();
    stop(b).await;
    all_owned(&[&a], 16).await;
    stop(a).await;
}

/// A handle that names a unit as its own names its owner too, at any moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whose_handler_acts_is_the_owner_from_the_handlers_start() {
    const SHARDS: u32 = 64;
    let (server, journal) = served();
    let a = member(&server.url(), "a", SHARDS, &journal).await;
    let handle = group(&a);
    let all_act = async {
        loop {
            let mine = handle.mine();
            for unit in &mine {
                let owner = handle.owner(unit).expect("an owner");
                assert!(owner.acts_here && owner.instance_id == "a", "{owner:?}");
            }
            if mine.len() == SHARDS as usize {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    let all_act = tokio::time::timeout(SOON, all_act).await;
    all_act.expect("all shards act");
    stop(a).await;
}

/// Otherwise it would be counted among the members for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_of_a_member_that_is_cut_off_without_a_shard_is_ended() {
    let (server, proxy, journal) = proxied();
    let a = member(&server.url(), "a", 1, &journal).await;
    all_owned(&[&a], 1).await;
    let b = member(&proxy.url(), "b", 1, &journal).await;
    let stranger = Stranger::connect(&server.url()).await;
    let gone = epoch_of(&stranger, "b").await;
    proxy.black_hole();
    comes_true("that its key shows the end", async || {
        let stands = stranger
            .find(&format!("_groups.{GROUP}.member.{gone}"))
            .await;
        let text = stands.map(|it| String::from_utf8_lossy(&it.payload).into_owned());
        text.is_some_and(|it| it.contains(r#""ended""#))
    })
    .await;
    proxy.restore();
    comes_true("another epoch", async || {
        epoch_of(&stranger, "b").await != gone
    })
    .await;
    stop(b).await;
    stop(a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_outlived_an_outage_of_several_leases_has_owners_at_once() {
    let (mut server, journal) = served();
    let a = member(&server.url(), "a", 8, &journal).await;
    all_owned(&[&a], 8).await;
    server.kill();
    comes_true("the end of all terms", async || group(&a).mine().is_empty()).await;
    tokio::time::sleep(LEASE * 3).await;
    server.restart().expect("restart");
    all_owned(&[&a], 8).await;
    stop(a).await;
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
    evenly_owned(&[&a, &c], shards).await;
    let moves: usize = (0..shards)
        .map(|shard| journal.terms(&format!("{GROUP}/{shard}")).len() - 1)
        .sum();
    // Fifteen to the first that joined, five from each to the next, ten from the one that left.
    assert!(moves <= 35 + 5, "{moves} moves");
    let left = group(&a);
    stop(a).await;
    let waited = tokio::time::timeout(SOON, left.wait_until(|_| false)).await;
    waited.expect("nothing more happens to who has left");
    all_owned(&[&c], shards).await;
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
    assert!(GroupHandle::has_joined(&group(&a)));
    a.resume().await.expect("resume");
    owned_by_a(6).await;
    stop(a).await;
    stop(b).await;
}

/// A user who watches what a group costs relies on that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_is_restarted_owns_units_again_at_once() {
    let (server, journal) = served();
    let a = member(&server.url(), "a", 4, &journal).await;
    all_owned(&[&a], 4).await;
    stop(a).await;
    let begun = Stamp::now();
    let a = member(&server.url(), "a", 4, &journal).await;
    all_owned(&[&a], 4).await;
    let took = Stamp::now().since(begun);
    assert!(took < LEASE, "{took:?}");
    stop(a).await;
}
