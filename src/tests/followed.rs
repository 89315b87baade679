//! Groups whose keys are purged while they are followed.

use nats_elect_testing::{NatsServer, eventually};

use crate::support::bucket::Stranger;
use crate::support::member::{GROUP, all_owned, group, member_with, stop, waits};
use crate::support::{BUCKET, SOON, ms};
use nats_elect::{FollowedGroups, Group, Observer, UnitStanding};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_purged_is_gone_with_the_next_watch_and_nobody_seems_dead_meanwhile() {
    let server = NatsServer::start().expect("start");
    let a = member_with(&server.url(), "a", Group::sharded(GROUP, 4, waits())).await;
    all_owned(&[&a], 4).await;
    let stranger = Stranger::connect(&server.url()).await;
    let store = stranger.store().await;
    for key in ["_group.g.old", "_group.u.old.1.0", "_group.u.old.1.1"] {
        let record = if key.contains(".g.") {
            r#"{"v":1,"kind":"sharded","n":2,"gen":1}"#
        } else {
            r#"{"v":1}"#
        };
        store.create(key, record.into()).await.expect("created");
    }
    let observer = Observer::builder().servers(server.url()).bucket(BUCKET);
    let observer = observer.start().await.expect("start");
    let followed = FollowedGroups::begin(observer, ms(100));
    let lives = |it: &FollowedGroups| {
        let owned = it.unit(GROUP, "0").and_then(|(_, member)| member);
        owned.is_some_and(|member| member.confirmed)
    };
    followed
        .wait_until(|it| lives(it) && it.unit("old", "1").is_some())
        .await;

    let stream = stranger.stream().await;
    let purge = async |key: &str| {
        let purged = stream.purge().filter(format!("$KV.{BUCKET}.{key}")).await;
        assert!(purged.expect("purged").success);
    };
    purge("_group.u.old.1.1").await;
    eventually(SOON, "a unit without a key", async || {
        let groups = followed.groups().expect("they were read");
        assert!(lives(&followed) && followed.connection().is_current());
        (groups.groups["old"].count(UnitStanding::Missing) == 1).then_some(())
    })
    .await;
    for key in ["_group.g.old", "_group.u.old.1.0"] {
        purge(key).await;
    }
    eventually(SOON, "no such group", async || {
        let groups = followed.groups().expect("they were read");
        assert!(lives(&followed) && followed.connection().is_current());
        (!groups.groups.contains_key("old")).then_some(())
    })
    .await;
    assert_eq!(group(&a).mine().len(), 4);
    stop(a).await;
}
