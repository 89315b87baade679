//! Groups by one map: each shard has one owner at a time, whatever becomes of the instances and of the
//! map.

use nats_elect::{Group, MoveError, RoleManager};
use nats_elect_testing::{NatsServer, TcpProxy};

use crate::support::bucket::Stranger;
use crate::support::instance::Recorded;
use crate::support::journal::Journal;
use crate::support::member::{GROUP, LEASE, all_owned, group, member_with, stop};
use crate::support::{comes_true, served};
use crate::{group_policy, group_units, metrics};

async fn member(url: &str, id: &str, shards: u32, journal: &Journal) -> RoleManager {
    let handler = Recorded::obedient(id, journal);
    member_with(url, id, Group::sharded(GROUP, shards, handler).by_one_map()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_share_shards_and_take_over_from_who_stops() {
    let (server, journal) = served();
    let a = member(&server.url(), "a", 24, &journal).await;
    all_owned(&[&a], 24).await;
    let b = member(&server.url(), "b", 24, &journal).await;
    let c = member(&server.url(), "c", 24, &journal).await;
    comes_true("as many shards on each", async || {
        [&a, &b, &c].iter().all(|it| group(it).mine().len() == 8)
    })
    .await;
    stop(a).await;
    all_owned(&[&b, &c], 24).await;
    stop(b).await;
    let owned = all_owned(&[&c], 24).await;
    assert_eq!(owned["c"], 24);
    stop(c).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shards_of_a_member_that_is_cut_off_are_owned_again_after_its_lease() {
    let server = NatsServer::start().expect("start");
    let proxy = TcpProxy::start(format!("127.0.0.1:{}", server.port())).expect("proxy");
    let journal = Journal::default();
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

/// The handlers run on meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_map_that_is_overwritten_and_deleted_by_hand_is_collected() {
    let (server, journal) = served();
    let a = member(&server.url(), "a", 8, &journal).await;
    all_owned(&[&a], 8).await;
    let stranger = Stranger::connect(&server.url()).await;
    let store = stranger.store().await;
    let key = format!("_groups.{GROUP}.map");
    for rubbish in ["rubbish", "{}"] {
        store.put(&key, rubbish.into()).await.expect("put");
        comes_true("another map", async || {
            let stands = stranger.find(&key).await.expect("a value");
            stands.payload != rubbish
        })
        .await;
    }
    store.delete(&key).await.expect("delete");
    let b = member(&server.url(), "b", 8, &journal).await;
    comes_true("as many shards on each", async || {
        [&a, &b].iter().all(|it| group(it).mine().len() == 4)
    })
    .await;
    for shard in 0..8 {
        let terms = journal.terms(&format!("{GROUP}/{shard}"));
        assert!(terms.len() <= 2, "shard {shard}: {terms:?}");
    }
    stop(b).await;
    stop(a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_moves_on_demand_and_a_group_grows_and_shrinks() {
    let (server, journal) = served();
    let a = member(&server.url(), "a", 4, &journal).await;
    let b = member(&server.url(), "b", 4, &journal).await;
    let even = async |shards: usize| {
        comes_true("as many shards on each", async || {
            [&a, &b]
                .iter()
                .all(|it| group(it).mine().len() == shards / 2)
        })
        .await;
    };
    even(4).await;
    let shard = group(&a).mine().remove(0);
    let moved = group(&a).move_unit(&shard, "b").await.expect("moved");
    assert_eq!(moved.instance_id, "b");
    let nobody = group(&a).move_unit(&shard, "c").await.expect_err("nobody");
    assert!(matches!(nobody, MoveError::NotAMember { .. }), "{nobody}");
    let unknown = group(&a).move_unit("4", "a").await.expect_err("no unit");
    assert!(
        matches!(unknown, MoveError::UnknownUnit { .. }),
        "{unknown}"
    );
    for shards in [16, 6] {
        assert!(group(&b).resize(shards, LEASE).await);
        even(shards as usize).await;
        assert_eq!(group(&a).shards(), Some(shards));
    }
    stop(b).await;
    stop(a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_whose_handler_keeps_failing_moves_to_another_instance() {
    group_units::a_failing_unit_moves(Group::by_one_map).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_that_fails_its_health_check_moves_alone() {
    group_units::an_unhealthy_unit_moves(Group::by_one_map).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_are_spread_by_the_load_that_their_handlers_report() {
    group_units::units_are_spread_by_load(Group::by_one_map).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_and_limits_decide_what_an_instance_owns() {
    let server = NatsServer::start().expect("start");
    let a = group_units::labels_and_limits_decide(&server, Group::by_one_map).await;
    stop(a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_that_are_to_be_apart_or_in_all_zones_or_near_something_are() {
    group_policy::units_go_where_the_group_wishes(Group::by_one_map).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_metrics_of_a_group_tell_who_owns_its_units_and_which_nobody_owns() {
    metrics::metrics_of_a_group("one-map", Group::by_one_map).await;
}
