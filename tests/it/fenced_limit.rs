//! How much a role may keep.

use nats_elect::FencedError;

use crate::support::instance::{standing, step_down};
use crate::support::{ROLE, leased_for, ms, served};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_with_a_limit_keeps_no_more_than_that() {
    let (server, journal) = served();
    // Each key counts 512 bytes beside its name and its value.
    let limit = 2 * (512 + 1 + 1000) + 512 + 1;
    let a = standing(
        "a",
        server.url(),
        &journal,
        leased_for(ms(10_000)).data_limit(limit),
    )
    .await;
    let store = journal.started(ROLE, 0).await.term().store();
    let over = |written: Result<u64, FencedError>, would: u64| {
        let told = FencedError::OverLimit {
            bytes: would,
            limit,
        };
        assert_eq!(written, Err(told));
    };
    let large = vec![b'x'; 1000];
    store.put("a", &large).await.expect("room");
    store.put("b", &large).await.expect("room");
    over(store.put("c", "1").await, limit + 1);
    store.put("c", "").await.expect("just room");
    over(store.put("d", "").await, limit + 513);
    over(store.put("b", vec![b'x'; 1001]).await, limit + 1);
    // What takes no more than before is let through; what is freed can be used, but for a deleted
    // key's own.
    store.put("a", &large).await.expect("no more than before");
    store.delete("a").await.expect("less than before");
    store.put("c", &large).await.expect("room");
    over(store.put("d", "").await, limit + 513);
    assert!(a.is_leader());

    // The next term counts what it finds.
    step_down(&a.role(ROLE)).await;
    let store = journal.started(ROLE, 1).await.term().store();
    over(store.put("c", vec![b'x'; 1001]).await, limit + 1);
    store.put("c", "").await.expect("less than before");
    store.put("a", &large).await.expect("room");
    assert_eq!(store.list().await.expect("keys"), ["a", "b", "c"]);
}
