//! Units by the thousand on one member.

use nats_elect::{Group, MemberConfig};
use nats_elect_testing::NatsServer;

use crate::MACHINE;
use crate::support::bucket::Stranger;
use crate::support::member::{GROUP, all_owned, epoch_of, group, joining, stop, waits};

/// Before, each of so many ends was compared with all others, which took longer than a lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_growth_ends_ten_thousand_handlers_of_one_member_and_costs_no_lease() {
    const SHARDS: u32 = 10_000;
    let _machine = MACHINE.lock().await;
    let server = NatsServer::start().expect("start");
    let a = joining(&server.url(), "a", Group::sharded(GROUP, SHARDS, waits()));
    let a = a.member(MemberConfig::default()).start().await;
    let a = a.expect("start");
    all_owned(&[&a], SHARDS).await;
    let stranger = Stranger::connect(&server.url()).await;
    let before = epoch_of(&stranger, "a").await;
    group(&a).resize(SHARDS + 1).await.expect("resized");
    all_owned(&[&a], SHARDS + 1).await;
    assert_eq!(epoch_of(&stranger, "a").await, before);
    stop(a).await;
}
