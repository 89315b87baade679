//! Leaf nodes: with a `JetStream` domain of their own, and without `JetStream`. What
//! `docs/operations.md` says of them.

use async_nats::jetstream::kv;
use nats_elect::{FailureKind, Observer};
use nats_elect_testing::{NatsServer, TcpProxy, eventually};

use crate::support::bucket::Stranger;
use crate::support::instance::{failure, guest, instance, never, standing};
use crate::support::journal::Journal;
use crate::support::operator::{Operator, SEARCH};
use crate::support::{BUCKET, ROLE, SOON, leased_for, ms};

/// The address of a hub, behind a network that can fail.
fn line_to(hub: &NatsServer) -> (TcpProxy, String) {
    let line = TcpProxy::start(hub.leaf_address().expect("a hub")).expect("a proxy");
    let address = format!("127.0.0.1:{}", line.port());
    (line, address)
}

/// A hub, and a leaf node with a domain of its own behind a network that can fail.
fn two_domains() -> (NatsServer, TcpProxy, NatsServer) {
    let hub = NatsServer::builder().hub().domain("hub").start();
    let hub = hub.expect("a hub");
    let (line, address) = line_to(&hub);
    let leaf = NatsServer::builder()
        .leaf_of(&address)
        .domain("leaf")
        .start();
    let leaf = leaf.expect("a leaf");
    (hub, line, leaf)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn buckets_of_one_name_in_two_domains_are_two_elections() {
    let (hub, line, leaf) = two_domains();
    let (at_hub, at_leaf) = (Journal::default(), Journal::default());
    let settings = || leased_for(ms(6000));
    let a = instance("a", hub.url(), &at_hub).standing(settings());
    let a = a.start().await;
    let b = instance("b", leaf.url(), &at_leaf).standing(settings());
    let b = b.start().await;
    a.wait_until_leader().await;
    b.wait_until_leader().await;
    let strangers = [
        Stranger::connect(&hub.url()).await,
        Stranger::connect(&leaf.url()).await,
    ];
    for (stranger, id) in strangers.iter().zip(["a", "b"]) {
        assert_eq!(stranger.record().await["id"], id);
    }
    line.black_hole();
    never("the end of a term", ms(7000), || {
        !a.is_leader() || !b.is_leader()
    })
    .await;
    line.restore();
    for (role, journal) in [(a.role(ROLE), &at_hub), (b.role(ROLE), &at_leaf)] {
        eventually(SOON, "a proof", async || role.validate().await.ok()).await;
        assert_eq!(journal.terms(ROLE).len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_at_a_leaf_node_without_jetstream_loses_its_lease_with_the_link() {
    let hub = NatsServer::builder().hub().domain("hub").start();
    let hub = hub.expect("a hub");
    let (line, address) = line_to(&hub);
    let leaf = NatsServer::builder()
        .leaf_of(&address)
        .without_jetstream()
        .config("default_js_domain: { \"$G\": hub }");
    let leaf = leaf.start().expect("a leaf");
    let client = async_nats::connect(leaf.url()).await.expect("connect");
    eventually(SOON, "JetStream of the hub", async || {
        client.request("$JS.API.INFO", "".into()).await.ok()
    })
    .await;
    // Both stand for one role. The journal refuses terms that overlap.
    let journal = Journal::default();
    let a = standing("a", leaf.url(), &journal, leased_for(ms(3000))).await;
    a.wait_until_leader().await;
    let b = standing("b", hub.url(), &journal, leased_for(ms(3000))).await;
    b.wait_until_following("a").await;
    line.black_hole();
    b.wait_until_leader().await;
    assert!(!a.is_leader());
    line.restore();
    a.wait_until_following("b").await;
}

/// Before, it had forgotten its bucket, and counted as an instance of the hub's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_bucket_is_gone_is_none_of_the_bucket_of_another_domain() {
    let (hub, _line, leaf) = two_domains();
    let at_leaf = Stranger::connect(&leaf.url()).await;
    at_leaf.make_bucket(kv::Config::default()).await;
    let (journal, journal_at_leaf) = (Journal::default(), Journal::default());
    let settings = || leased_for(ms(6000));
    let a = standing("a", hub.url(), &journal, settings()).await;
    let b = guest("b", leaf.url(), &journal_at_leaf).standing(settings());
    let b = b.start().await;
    a.wait_until_leader().await;
    b.wait_until_leader().await;
    at_leaf.delete_bucket().await;
    let gone = failure(FailureKind::BucketMissing);
    b.log().wait_for("that its bucket is gone", gone).await;

    let observer = Observer::builder().servers(hub.url()).bucket(BUCKET);
    let observer = observer.start().await.expect("start");
    let id = observer.bucket_id().expect("it is in reach");
    let operator = Operator::of(&hub).await;
    let both = operator.find(2).await;
    assert_eq!(both[1].instance_id, "b");
    let of_hub = operator.admin.of_bucket(&id);
    let found = of_hub.instances(SEARCH).await.expect("found");
    assert_eq!(found, both[..1]);
}
