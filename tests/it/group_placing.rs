//! Where units go by the wishes of a group, and who is told.

use std::collections::BTreeMap;

use futures::StreamExt;
use nats_elect::{Group, GroupEvent, MemberConfig, RoleManager, UnitOwner};
use nats_elect_testing::{NatsServer, eventually};
use tokio::time::timeout;

use crate::support::member::{GROUP, LEASE, all_owned, group, joining, member_with, stop, waits};
use crate::support::{SOON, comes_true};

/// An instance in this zone, which is its label, too.
async fn start(server: &NatsServer, id: &str, zone: &str, group: Group) -> RoleManager {
    let labelled = MemberConfig::default().ttl(LEASE).label(zone);
    let joining = joining(&server.url(), id, group);
    let joining = joining.meta("zone", zone).member(labelled);
    joining.start().await.expect("start")
}

/// The instances of these shards, if each has one.
fn owners(member: &RoleManager, shards: [u32; 2]) -> Option<[String; 2]> {
    let owner = |shard: u32| Some(group(member).owner(&shard.to_string())?.instance_id);
    Some([owner(shards[0])?, owner(shards[1])?])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_that_are_to_be_apart_or_in_all_zones_or_near_something_are() {
    let server = NatsServer::start().expect("start");
    let make = || {
        let group = Group::sharded(GROUP, 8, waits()).apart(["0", "1"]);
        group.across_zones(["2", "3"]).prefers(["4", "5"], "west")
    };
    let a = start(&server, "a", "east", make()).await;
    all_owned(&[&a], 8).await;
    let b = start(&server, "b", "east", make()).await;
    comes_true("a share for the second", async || {
        !group(&b).mine().is_empty()
    })
    .await;
    let c = start(&server, "c", "west", make()).await;
    eventually(SOON, "what the group wishes", async || {
        all_owned(&[&a, &b, &c], 8).await;
        let [apart, zones, near] = [[0, 1], [2, 3], [4, 5]].map(|it| owners(&a, it));
        let (apart, zones, near) = (apart?, zones?, near?);
        let west = zones.iter().filter(|it| *it == "c").count();
        (apart[0] != apart[1] && west == 1 && near == ["c", "c"]).then_some(())
    })
    .await;
    for member in [a, b, c] {
        stop(member).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listeners_are_told_of_each_move() {
    let server = NatsServer::start().expect("start");
    let make = || Group::sharded(GROUP, 6, waits());
    let a = member_with(&server.url(), "a", make()).await;
    all_owned(&[&a], 6).await;
    let mut events = group(&a).events();
    let b = member_with(&server.url(), "b", make()).await;
    a.cordon().await.expect("cordon");
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    let all_move = async {
        while owners.len() < 6 || owners.values().any(|it| it != "b") {
            match events.next().await.expect("it is a member") {
                GroupEvent::OwnerChanged { unit, owner } => {
                    owners.insert(unit, owner.map(|it| it.instance_id).unwrap_or_default());
                }
                other => panic!("{other:?}"),
            }
        }
    };
    timeout(SOON, all_move).await.expect("told of each move");
    let owned = all_owned(&[&a, &b], 6).await;
    assert_eq!((owned["a"], owned["b"]), (0, 6));
    a.resume().await.expect("resume");
    stop(b).await;
    let back = async {
        loop {
            let event = events.next().await.expect("it is a member");
            let back = |it: &UnitOwner| it.instance_id == "a" && it.acts_here;
            if matches!(event, GroupEvent::OwnerChanged { unit, owner } if unit == "5" && owner.as_ref().is_some_and(back))
            {
                break;
            }
        }
    };
    timeout(SOON, back).await.expect("told that it acts here");
    stop(a).await;
    let end = async { while events.next().await.is_some() {} };
    timeout(SOON, end)
        .await
        .expect("no events of a group that it has left");
}
