//! How refusals are handled. A stand-in answers every request, as a server does that was replaced
//! as the stream's leader without knowing it yet.

mod opening;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::watch;
use uuid::Uuid;

use super::*;
use crate::clock;
use crate::metrics::Labels;
use crate::model::config::RoleConfig;
use crate::role::running::{Leading, RunningTerm};
use crate::role::scope::Request;
use crate::store::DataOwner;
use crate::store::stand_in::{Asked, StandIn};
use nats_elect_core::status::ConnectionStatus;
use nats_elect_core::token::{CorrelationId, FencingToken, LeaseToken};
use nats_elect_core::{TermId, TermStart};

const ROLE: &str = "r";
/// The sequence of the term's fence record.
const FENCE: u64 = 100;
const DATA: &str = "$KV.leaders._data.r.a";
const FENCE_KEY: &str = "$KV.leaders._fence.r";
const GUARD: &str = "$KV.leaders._guard.r";

/// Returns the result of a call whose requests are answered as given.
fn told<T>(
    call: impl Future<Output = T>,
    answering: impl Future<Output = ()>,
) -> impl Future<Output = T> {
    let both = Box::pin(async { tokio::join!(call, answering).0 });
    async {
        let told = tokio::time::timeout(Duration::from_secs(20), both).await;
        told.expect("what was to be asked is asked")
    }
}

/// A term whose bucket is the stand-in's.
struct Scene {
    stand_in: StandIn,
    store: FencedStore,
    /// How often the term was notified that it is superseded.
    ended: Arc<AtomicU64>,
    _leading: Leading,
}

impl Scene {
    async fn new() -> Self {
        let role = nats_elect_core::name::RoleName::new(ROLE).unwrap();
        Self::of(role.into()).await
    }

    async fn of(owner: DataOwner) -> Self {
        let mut stand_in = StandIn::new().await;
        let bucket = stand_in.bucket().await;
        let epoch = bucket.info().unwrap().epoch;
        let ended = Arc::new(AtomicU64::new(0));
        let lease = clock::now() + Duration::from_secs(60);
        let asked = Arc::clone(&ended);
        let setup = TermSetup {
            name: ROLE.into(),
            unit: None,
            shards: None,
            owner,
            settings: Arc::new(RoleConfig::default().settings().unwrap()),
            labels: Labels::new(ROLE, "a", "leaders"),
            connection: watch::channel(ConnectionStatus::Connected).1,
            ask: Arc::new(move |request| {
                if matches!(request, Request::Superseded { .. }) {
                    asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                }
            }),
            data: DataSource::Link(watch::channel(Some(bucket)).1),
        };
        let start = TermStart {
            term: TermId(1),
            lease_token: LeaseToken::new(Uuid::nil()),
            fencing_token: FencingToken {
                epoch,
                sequence: FENCE,
            },
            lease,
            proved: clock::now(),
        };
        let id = CorrelationId::new(Uuid::nil(), 1, 1);
        let (running, leading) = RunningTerm::begin(setup, start, id, |_| {});
        let store = FencedStore::new(running.term);
        Self {
            stand_in,
            store,
            ended,
            _leading: leading,
        }
    }

    fn is_ended(&self) -> bool {
        self.ended.load(std::sync::atomic::Ordering::SeqCst) > 0
    }

    /// Returns the next request, which must have this subject and this condition.
    async fn asked(&mut self, subject: &str, condition: (&str, u64)) -> Asked {
        let asked = self.stand_in.next().await;
        assert_eq!(
            (asked.subject(), asked.condition()),
            (subject, Some(condition))
        );
        asked
    }

    /// Refuses a write, because its condition does not hold on this server.
    async fn refuses(&mut self, subject: &str, condition: (&str, u64), current: u64) {
        let asked = self.asked(subject, condition).await;
        self.stand_in.conflict(asked, current).await;
    }

    async fn stores(&mut self, subject: &str, condition: (&str, u64), sequence: u64) {
        let asked = self.asked(subject, condition).await;
        self.stand_in.store(asked, sequence).await;
    }

    async fn shows(&mut self, sequence: Option<u64>) {
        let asked = self.stand_in.next().await;
        self.stand_in.show(asked, sequence).await;
    }

    /// Takes the first message of a batch, which gets an empty answer.
    async fn opens_batch(&mut self) {
        let asked = self.asked(GUARD, (FENCE_KEY, FENCE)).await;
        assert_eq!(asked.header("Nats-Batch-Sequence"), Some("1"));
        self.stand_in.answer(asked, "").await;
    }
}

#[tokio::test]
async fn a_stale_read_that_agrees_with_a_false_refusal_does_not_end_the_term() {
    let mut scene = Scene::new().await;
    let store = scene.store.clone();
    let answering = async {
        scene.refuses(DATA, (FENCE_KEY, FENCE), 90).await;
        scene.shows(Some(90)).await;
        // From here on the new leader answers.
        scene.refuses(GUARD, (FENCE_KEY, 90), FENCE).await;
        scene.stores(DATA, (FENCE_KEY, FENCE), 120).await;
    };
    let written = told(store.put("a", "1"), answering).await;
    assert_eq!(written, Ok(120));
    assert!(!scene.is_ended());
}

#[tokio::test]
async fn a_fence_that_went_back_ends_the_term_once_that_is_proved() {
    for gone_back_to in [None, Some(90)] {
        let mut scene = Scene::new().await;
        let store = scene.store.clone();
        let at = gone_back_to.unwrap_or(0);
        let answering = async {
            scene.refuses(DATA, (FENCE_KEY, FENCE), at).await;
            scene.shows(gone_back_to).await;
            scene.stores(GUARD, (FENCE_KEY, at), 130).await;
        };
        let written = told(store.put("a", "1"), answering).await;
        assert_eq!(written, Err(FencedError::Superseded { fence: at }));
        assert!(scene.is_ended());
    }
}

#[tokio::test]
async fn a_newer_fence_ends_the_term_without_further_proof() {
    let mut scene = Scene::new().await;
    let store = scene.store.clone();
    let answering = async {
        scene.refuses(DATA, (FENCE_KEY, FENCE), 110).await;
        scene.shows(Some(110)).await;
    };
    let written = told(store.put("a", "1"), answering).await;
    assert_eq!(written, Err(FencedError::Superseded { fence: 110 }));
    assert!(scene.is_ended());
}

#[tokio::test]
async fn a_write_that_failed_while_it_was_stored_is_not_reported_as_refused_nor_sent_again() {
    for (code, text) in [
        (10077, "store is closed"),
        (10077, "apply failed"),
        (10063, "expected stream sequence does not match"),
    ] {
        let mut scene = Scene::new().await;
        let store = scene.store.clone().timeout(Duration::from_secs(1));
        let answering = async {
            let asked = scene.asked(DATA, (FENCE_KEY, FENCE)).await;
            scene.stand_in.refuse(asked, code, text).await;
        };
        let written = told(store.put("a", "1"), answering).await;
        let error = written.unwrap_err();
        assert!(error.may_have_been_written(), "{error:?}");
    }
}

#[tokio::test]
async fn a_write_that_a_false_refusal_may_have_hidden_is_not_reported_as_a_conflict() {
    let mut scene = Scene::new().await;
    let store = scene.store.clone();
    let answering = async {
        scene.opens_batch().await;
        scene.refuses(DATA, (DATA, 110), 90).await;
        scene.shows(Some(90)).await;
        scene.refuses(GUARD, (FENCE_KEY, 90), FENCE).await;
        // The new leader stored the write all the same. The value that is read now is this very
        // write.
        scene.opens_batch().await;
        scene.refuses(DATA, (DATA, 110), 115).await;
        scene.shows(Some(FENCE)).await;
        scene.shows(Some(115)).await;
    };
    let written = told(store.update("a", "1", 110), answering).await;
    let error = written.unwrap_err();
    assert!(error.may_have_been_written(), "{error:?}");
    assert!(!scene.is_ended());
}

#[tokio::test]
async fn a_key_that_is_behind_the_required_revision_is_a_conflict_only_if_that_is_proved() {
    for proved in [false, true] {
        let mut scene = Scene::new().await;
        let store = scene.store.clone();
        let answering = async {
            scene.opens_batch().await;
            scene.refuses(DATA, (DATA, 110), 105).await;
            scene.shows(Some(FENCE)).await;
            scene.shows(Some(105)).await;
            if proved {
                scene.stores(GUARD, (DATA, 105), 130).await;
            } else {
                scene.refuses(GUARD, (DATA, 105), 110).await;
                scene.opens_batch().await;
                scene.stores(DATA, (DATA, 110), 120).await;
            }
        };
        let written = told(store.update("a", "1", 110), answering).await;
        if proved {
            let key = "a".to_owned();
            assert!(
                matches!(&written, Err(FencedError::Conflict { key: it, .. }) if *it == key),
                "{written:?}"
            );
        } else {
            assert_eq!(written, Ok(120));
        }
    }
}

#[tokio::test]
async fn a_newer_value_is_a_conflict_at_once() {
    let mut scene = Scene::new().await;
    let store = scene.store.clone();
    let answering = async {
        scene.opens_batch().await;
        scene.refuses(DATA, (DATA, 110), 115).await;
        scene.shows(Some(FENCE)).await;
        scene.shows(Some(115)).await;
    };
    let written = told(store.update("a", "1", 110), answering).await;
    assert!(
        matches!(written, Err(FencedError::Conflict { .. })),
        "{written:?}"
    );
}
