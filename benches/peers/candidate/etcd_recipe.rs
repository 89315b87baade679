//! A candidate as etcd's concurrency package has them in Go: a key under a lease, and a watch on
//! the key that was created just before it.

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tonic::Streaming;

use super::etcd_api::{
    BY_CREATION, CREATION, Compare, DELETION, DESCENDING, DeleteRequest, Etcd, Operation,
    PutRequest, RangeRequest, RangeResponse, TxnRequest, TxnResponse, WatchCreateRequest,
    WatchRequest, WatchResponse, next, stream_of,
};
use super::{Event, Order, OrderBook, Orders, tell};
use drill::Moment;

pub async fn run(orders: &Orders, mut book: OrderBook) {
    let etcd = Etcd::connect(&orders.address).await;
    let (lease, granted) = etcd.lease(orders.ttl).await;
    let (prefix, key) = (
        format!("{}/", orders.role),
        format!("{}/{lease:x}", orders.role),
    );
    let mut campaign: Option<(i64, JoinHandle<()>)> = None;
    while let Some(order) = book.recv().await {
        match order {
            Order::Stand => {
                let put = PutRequest {
                    key: key.clone().into_bytes(),
                    value: orders.name.clone().into_bytes(),
                    lease,
                };
                let put = Operation {
                    put: Some(put),
                    delete: None,
                };
                let created = transact(&etcd, &key, 0, put).await;
                let wait = wait(etcd.clone(), prefix.clone(), created);
                campaign = Some((created, tokio::spawn(wait)));
                let granted = Some(granted);
                tell(&Event::Stands { granted });
            }
            Order::Leave => {
                let (created, led) = campaign.take().expect("it stood");
                led.await.expect("no panic");
                tell(&Event::Ended(Moment::now()));
                let delete = DeleteRequest {
                    key: key.clone().into_bytes(),
                };
                let delete = Operation {
                    put: None,
                    delete: Some(delete),
                };
                transact(&etcd, &key, created, delete).await;
                tell(&Event::Left);
            }
            Order::Stop | Order::HandTo(_) | Order::Ask => {}
        }
    }
}

/// Writes if the key was created at that revision; zero means that there is none. Returns the
/// revision of the write.
async fn transact(etcd: &Etcd, key: &str, created: i64, write: Operation) -> i64 {
    let request = TxnRequest {
        compare: vec![Compare {
            target: CREATION,
            key: key.as_bytes().to_vec(),
            create_revision: Some(created),
        }],
        success: vec![write],
    };
    let done = etcd.call("/etcdserverpb.KV/Txn", request).await;
    let TxnResponse { header, succeeded } = done.expect("a transaction");
    assert!(succeeded, "somebody else wrote {key}");
    header.expect("a header").revision
}

/// Returns when no key of the prefix is older.
async fn wait(etcd: Etcd, prefix: String, created: i64) {
    loop {
        let mut end = prefix.clone().into_bytes();
        *end.last_mut().expect("a prefix") += 1;
        let request = RangeRequest {
            key: prefix.clone().into_bytes(),
            range_end: end,
            limit: 1,
            sort_order: DESCENDING,
            sort_target: BY_CREATION,
            max_create_revision: created - 1,
        };
        let found = etcd.call("/etcdserverpb.KV/Range", request).await;
        let RangeResponse { header, kvs } = found.expect("keys");
        let Some(before) = kvs.into_iter().next() else {
            tell(&Event::Started(Moment::now()));
            return;
        };
        let revision = header.expect("a header").revision;
        until_deleted(&etcd, before.key, revision).await;
    }
}

async fn until_deleted(etcd: &Etcd, key: Vec<u8>, revision: i64) {
    let (ask, requests) = mpsc::unbounded_channel();
    let create = WatchCreateRequest {
        key,
        start_revision: revision,
    };
    let _ = ask.send(WatchRequest {
        create: Some(create),
    });
    let path = "/etcdserverpb.Watch/Watch";
    let watch = etcd.stream(path, stream_of(requests)).await;
    let mut watch: Streaming<WatchResponse> = watch.expect("a watch");
    loop {
        let answer = next(&mut watch).await;
        if answer.events.iter().any(|event| event.kind == DELETION) {
            return;
        }
    }
}
