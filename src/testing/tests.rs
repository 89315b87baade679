use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{FutureExt, StreamExt};

use super::{TestTerm, WriteFault};
use crate::{
    BoxError, ConnectionStatus, FencedError, RoleConfig, RoleHandler, Term, TermError, handler_fn,
};

/// A handler that works until the term winds down, and then writes how far it came.
struct Worker;

impl RoleHandler for Worker {
    async fn lead(&self, term: Term) -> Result<(), BoxError> {
        let store = term.store();
        let revision = store.create("state", "working").await?;
        term.cancelled().await;
        store.update("state", "done", revision).await?;
        Ok(())
    }
}

fn value(test: &TestTerm, key: &str) -> Option<String> {
    let entry = test.store().get(key)?;
    Some(String::from_utf8(entry.value).unwrap())
}

#[tokio::test]
async fn a_new_term_leads() {
    let test = TestTerm::new("scheduler");
    let term = test.term();
    assert!(term.is_valid() && !term.is_cancelled());
    assert_eq!(term.role(), "scheduler");
    assert_eq!(term.connection(), ConnectionStatus::Connected);
    assert!(term.remaining() > Duration::from_secs(3600));
    assert_eq!(term.validate().await, Ok(term.fencing_token()));
    assert_eq!(term.authorize().await, Ok(term.fencing_token()));
}

#[tokio::test]
async fn a_cancelled_handler_finishes_its_work_under_the_lease() {
    let test = TestTerm::new("scheduler");
    let (led, ()) = tokio::join!(test.lead(&Worker), async {
        while value(&test, "state").is_none() {
            tokio::task::yield_now().await;
        }
        test.cancel();
    });
    led.unwrap().unwrap();
    assert_eq!(value(&test, "state").as_deref(), Some("done"));
}

#[tokio::test]
async fn a_handler_that_loses_its_role_runs_on_without_a_lease() {
    let test = TestTerm::new("scheduler");
    let handler = handler_fn(|term: Term| async move {
        let mut changes = term.lease_changes();
        changes.next().await;
        assert!(!term.is_valid() && term.is_cancelled());
        assert_eq!(term.remaining(), Duration::ZERO);
        assert_eq!(term.validate().await, Err(TermError::NotLeader));
        assert_eq!(
            term.store().put("k", "v").await,
            Err(FencedError::NotLeader)
        );
        Ok(())
    });
    let (led, ()) = tokio::join!(test.lead(&handler), async { test.lose() });
    led.unwrap().unwrap();
}

#[tokio::test]
async fn an_aborted_handler_is_dropped_with_what_it_spawned() {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    let dropped = Arc::new(AtomicBool::new(false));
    let given = Arc::clone(&dropped);
    let handler = handler_fn(move |term: Term| {
        let held = Dropped(Arc::clone(&given));
        async move {
            term.spawn(async move {
                let _held = held;
                std::future::pending::<()>().await;
            });
            std::future::pending().await
        }
    });
    let test = TestTerm::new("scheduler");
    let (led, ()) = tokio::join!(test.lead(&handler), async {
        tokio::task::yield_now().await;
        test.abort();
    });
    assert!(led.is_none());
    assert!(dropped.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_handler_is_aborted_when_the_lease_that_was_set_ends() {
    let test = TestTerm::new("scheduler");
    let idle = handler_fn(|_| std::future::pending());
    test.set_lease(Duration::from_millis(20));
    assert!(test.lead(&idle).await.is_none());
    assert!(!test.term().is_valid());
    test.set_lease(Duration::from_secs(60));
    assert!(!test.term().is_valid(), "a lease that is over stays over");
}

#[tokio::test]
async fn a_lease_that_is_set_again_outlasts_the_first() {
    let test = TestTerm::new("scheduler");
    let mut changes = test.term().lease_changes();
    test.set_lease(Duration::from_secs(1));
    changes.next().await;
    assert!(test.term().remaining() <= Duration::from_secs(1));
    test.set_lease(Duration::from_secs(60));
    changes.next().await;
    assert!(test.term().remaining() > Duration::from_secs(50));
}

#[tokio::test]
async fn the_end_of_lead_cancels_the_term_and_waits_for_its_tasks() {
    let finished = Arc::new(AtomicBool::new(false));
    let given = Arc::clone(&finished);
    let handler = handler_fn(move |term: Term| {
        let finished = Arc::clone(&given);
        async move {
            let task = term.clone();
            term.spawn(async move {
                task.cancelled().await;
                finished.store(true, Ordering::SeqCst);
            });
            Err("as the test wants".into())
        }
    });
    let test = TestTerm::new("scheduler");
    let error = test.lead(&handler).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "as the test wants");
    assert!(test.term().is_cancelled());
    assert!(finished.load(Ordering::SeqCst));
}

#[tokio::test]
#[should_panic(expected = "as the test wants")]
async fn a_panic_of_the_handler_fails_the_test() {
    let handler = handler_fn(|_| async { panic!("as the test wants") });
    let _ = TestTerm::new("scheduler").lead(&handler).await;
}

#[tokio::test]
async fn dropping_the_test_s_side_aborts_the_term() {
    let test = TestTerm::new("scheduler");
    let term = test.term();
    drop(test);
    assert!(!term.is_valid() && term.is_cancelled());
    assert_eq!(term.validate().await, Err(TermError::NotLeader));
    assert_eq!(term.spawn(async {}).await.unwrap(), None);
}

#[tokio::test]
async fn the_test_decides_how_proofs_end() {
    let test = TestTerm::new("scheduler");
    let term = test.term();
    let reason = || "as the test wants".to_owned();
    test.set_proof(Err(TermError::Unproven { reason: reason() }));
    let unproven = Err(TermError::Unproven { reason: reason() });
    assert_eq!(term.validate().await, unproven);
    assert_eq!(term.authorize().await, unproven);
    assert!(term.is_valid(), "the lease may still be valid");
    test.set_proof(Ok(()));
    assert_eq!(term.authorize().await, Ok(term.fencing_token()));
    test.set_proof(Err(TermError::Stopped));
    assert_eq!(term.validate().await, Err(TermError::Stopped));
    test.set_proof(Err(TermError::NotLeader));
    assert_eq!(term.authorize().await, Err(TermError::NotLeader));
    assert!(!term.is_valid());
}

#[tokio::test]
async fn authorize_asks_when_the_role_always_validates() {
    let config = RoleConfig::default().validate_on_critical_ops(true);
    let test = TestTerm::with("scheduler", &config);
    test.set_connection(ConnectionStatus::Lost);
    assert!(test.term().authorize().await.unwrap_err().is_transient());
    let lenient = TestTerm::new("scheduler");
    lenient.set_connection(ConnectionStatus::Lost);
    let token = lenient.term().fencing_token();
    assert_eq!(lenient.term().authorize().await, Ok(token));
}

#[tokio::test]
async fn a_suspended_connection_leaves_reads_proofs_and_writes_unanswered() {
    let test = TestTerm::new("scheduler");
    let term = test.term();
    test.set_connection(ConnectionStatus::Suspended);
    assert_eq!(term.connection(), ConnectionStatus::Suspended);
    let proof = term.validate().await.unwrap_err();
    assert!(proof.is_transient(), "{proof}");
    let read = term.store().get("k").await.unwrap_err();
    assert!(read.is_transient(), "{read}");
    let store = term.store().timeout(Duration::from_millis(20));
    let write = store.put("k", "v").await.unwrap_err();
    assert!(write.is_transient(), "{write}");

    let store = term.store();
    let mut writing = Box::pin(store.put("k", "v"));
    assert!((&mut writing).now_or_never().is_none());
    test.set_connection(ConnectionStatus::Connected);
    writing.await.unwrap();
    assert_eq!(value(&test, "k").as_deref(), Some("v"));
}

#[tokio::test]
async fn the_store_keeps_what_is_written_under_its_conditions() {
    let test = TestTerm::new("scheduler");
    let store = test.term().store();
    let created = store.create("a", "1").await.unwrap();
    let conflict = store.create("a", "2").await.unwrap_err();
    let FencedError::Conflict { key, current } = conflict else {
        panic!("{conflict}");
    };
    assert_eq!((key.as_str(), current.unwrap().revision), ("a", created));
    let updated = store.update("a", "2", created).await.unwrap();
    assert!(updated > created);
    let refused = store.update("a", "3", created).await;
    assert!(matches!(refused, Err(FencedError::Conflict { .. })));
    assert_eq!(store.get("a").await.unwrap().unwrap().value, b"2");
    store.delete("a").await.unwrap();
    assert_eq!(store.get("a").await.unwrap(), None);
    // A deleted key counts as missing.
    store.create("a", "4").await.unwrap();

    let batch = store.batch().put("b", "1").create("a", "5").delete("c");
    let refused = batch.commit().await;
    assert!(matches!(refused, Err(FencedError::Conflict { .. })));
    assert_eq!(store.list().await.unwrap(), ["a"], "all or nothing");
    let batch = store.batch().put("b", "1").create("c", "1");
    let revisions = batch.commit().await.unwrap();
    assert_eq!(revisions[0] + 1, revisions[1]);
    assert_eq!(test.store().list(), ["a", "b", "c"]);
    let refused = store.put("a..b", "").await;
    assert!(matches!(refused, Err(FencedError::Key(_))));
    let large = vec![0; 1 << 20];
    let refused = store.put("a", large).await;
    assert!(matches!(refused, Err(FencedError::TooLarge { .. })));
}

#[tokio::test]
async fn the_handler_finds_what_the_test_has_put() {
    let test = TestTerm::new("scheduler");
    let revision = test.store().put("cursor", "41");
    test.store().put("old", "x");
    test.store().delete("old");
    let store = test.term().store();
    assert_eq!(store.list().await.unwrap(), ["cursor"]);
    store.update("cursor", "42", revision).await.unwrap();
    assert_eq!(value(&test, "cursor").as_deref(), Some("42"));
}

#[tokio::test]
async fn a_write_ends_as_the_test_wants_and_the_next_one_is_stored() {
    let test = TestTerm::new("scheduler");
    let (store, held) = (test.term().store(), test.store());
    held.fail_next(WriteFault::Lost);
    let lost = store.put("a", "1").await.unwrap_err();
    assert!(lost.may_have_been_written());
    assert_eq!(value(&test, "a"), None);
    held.fail_next(WriteFault::Unanswered);
    let unanswered = store.put("a", "1").await.unwrap_err();
    assert!(unanswered.may_have_been_written());
    assert_eq!(value(&test, "a").as_deref(), Some("1"));

    held.fail_next(WriteFault::Overtaken(b"theirs".to_vec()));
    let revision = store.put("a", "2").await.unwrap();
    let overtaken = store.update("a", "3", revision).await.unwrap_err();
    let FencedError::Conflict { current, .. } = overtaken else {
        panic!("{overtaken}");
    };
    assert_eq!(current.unwrap().value, b"theirs");

    held.fail_next(WriteFault::Unsupported("too old".into()));
    held.fail_next(WriteFault::Refused("no permission".into()));
    let unsupported = store.put("a", "4").await.unwrap_err();
    assert!(matches!(unsupported, FencedError::Unsupported(_)));
    let refused = store.put("a", "4").await.unwrap_err();
    assert!(matches!(refused, FencedError::Refused { .. }));
    store.put("a", "4").await.unwrap();
    assert_eq!(value(&test, "a").as_deref(), Some("4"));
    assert!(test.term().is_valid());
}

#[tokio::test]
async fn a_fault_waits_for_a_write_that_would_be_stored() {
    let test = TestTerm::new("scheduler");
    let store = test.term().store();
    test.store().put("a", "1");
    test.store().fail_next(WriteFault::Lost);
    let conflict = store.create("a", "2").await.unwrap_err();
    assert!(matches!(conflict, FencedError::Conflict { .. }));
    assert!(
        store
            .put("a", "2")
            .await
            .unwrap_err()
            .may_have_been_written()
    );
    // The first attempt over a deleted key only learns its revision.
    test.store().delete("a");
    test.store().fail_next(WriteFault::Lost);
    let lost = store.create("a", "3").await.unwrap_err();
    assert!(lost.may_have_been_written());
}

#[tokio::test]
async fn a_bucket_without_batches_refuses_conditional_writes() {
    let test = TestTerm::new("scheduler");
    test.store().without_batches();
    let store = test.term().store();
    let created = store.create("a", "1").await.unwrap_err();
    assert!(matches!(created, FencedError::Unsupported(_)));
    store.put("a", "1").await.unwrap();
}

#[tokio::test]
async fn the_limit_of_the_role_s_data_counts() {
    let config = RoleConfig::default().data_limit(1024);
    let test = TestTerm::with("scheduler", &config);
    let store = test.term().store();
    let over = store.put("a", vec![0; 600]).await.unwrap_err();
    assert!(matches!(over, FencedError::OverLimit { .. }));
    store.put("a", "1").await.unwrap();
}

#[tokio::test]
async fn a_superseded_term_ends_with_its_next_write() {
    let test = TestTerm::new("scheduler");
    let term = test.term();
    term.store().put("a", "1").await.unwrap();
    test.supersede();
    assert!(term.is_valid(), "nothing has told it yet");
    let superseded = term.store().put("a", "2").await.unwrap_err();
    let FencedError::Superseded { fence } = superseded else {
        panic!("{superseded}");
    };
    assert!(fence > term.fencing_token().sequence);
    assert!(!term.is_valid() && term.is_cancelled());
    assert_eq!(value(&test, "a").as_deref(), Some("1"));
}

#[tokio::test]
async fn the_next_term_has_the_data_and_a_higher_token() {
    let first = TestTerm::new("scheduler");
    let token = first.term().fencing_token();
    first.term().store().put("a", "1").await.unwrap();
    let second = first.next();
    assert!(second.term().fencing_token() > token);
    assert_eq!(second.term().fencing_token().epoch, token.epoch);
    let store = second.term().store();
    assert_eq!(store.get("a").await.unwrap().unwrap().value, b"1");
    store.put("a", "2").await.unwrap();
    let refused = first.term().store().put("a", "3").await;
    assert!(matches!(refused, Err(FencedError::Superseded { .. })));
    assert!(second.term().is_valid());
}
