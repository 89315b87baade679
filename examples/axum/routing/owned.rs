//! The shards that this instance owns, and the requests that it serves as their owner.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use nats_elect::{BoxError, FencedError, FencedStore, FencingToken, RoleHandler, Term};
use tokio::sync::mpsc::UnboundedSender;

/// What a client asks.
#[derive(Clone, Debug)]
pub struct Operation {
    pub key: String,
    /// The number and the text of a new value, or `None` to read.
    ///
    /// The first value has number 1, and each value the number after the one before. So a write
    /// can be sent again without harm, which is what routing does when an instance goes away.
    pub put: Option<(u64, String)>,
}

/// A line of the access log.
#[derive(Clone, Debug)]
pub enum Access {
    /// This instance begins to serve a request as the owner of the key's shard.
    Began {
        instance: String,
        key: String,
        token: FencingToken,
    },
    /// It has served it.
    Ended { instance: String, key: String },
}

/// The terms of the shards that this instance owns. It is the handler of all of them.
#[derive(Clone)]
pub struct Owned {
    pub instance: String,
    /// The last term of each shard here. It may be over: it says so itself.
    terms: Arc<Mutex<BTreeMap<u32, Term>>>,
    log: UnboundedSender<Access>,
}

impl RoleHandler for Owned {
    async fn lead(&self, term: Term) -> Result<(), BoxError> {
        let shard = term.shard().ok_or("not a shard")?;
        self.terms().insert(shard, term.clone());
        // Requests are tasks of the term: the shard is not given away before they have ended.
        term.cancelled().await;
        Ok(())
    }
}

impl Owned {
    pub fn new(instance: &str, log: UnboundedSender<Access>) -> Self {
        Self {
            instance: instance.to_owned(),
            terms: Arc::default(),
            log,
        }
    }

    fn terms(&self) -> MutexGuard<'_, BTreeMap<u32, Term>> {
        self.terms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a request. `None` if this instance does not own the shard, or no longer when it was
    /// about to answer. The request may have been carried out then.
    pub async fn serve(&self, shard: u32, operation: Operation) -> Option<Response> {
        let term = self.terms().get(&shard)?.clone();
        if !term.is_valid() || term.is_cancelled() {
            return None;
        }
        let (owned, own) = (self.clone(), term.clone());
        let served = term.spawn(async move {
            // The server refuses writes of an old term anyway. Reads have no such guard, nor has
            // anything that is done outside the store.
            let token = own.authorize().await.ok()?;
            let _logged = Logged::begin(&owned, &operation.key, token);
            carry_out(&own.store(), operation).await
        });
        served.await.ok()??
    }
}

/// Does what is asked, in the shard's own part of the bucket. `None` if the term is over.
async fn carry_out(store: &FencedStore, operation: Operation) -> Option<Response> {
    let Operation { key, put } = operation;
    let answer = match put {
        None => read(store, &key).await,
        Some((number, text)) => write(store, &key, number, text).await,
    };
    match answer {
        Ok(answer) => Some(answer),
        Err(FencedError::NotLeader | FencedError::Superseded { .. }) => None,
        Err(FencedError::Key(error)) => {
            Some((StatusCode::BAD_REQUEST, error.to_string()).into_response())
        }
        // It can be sent again.
        Err(error) => Some((StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response()),
    }
}

async fn read(store: &FencedStore, key: &str) -> Result<Response, FencedError> {
    Ok(match store.get(key).await? {
        Some(entry) => entry.value.into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    })
}

async fn write(
    store: &FencedStore,
    key: &str,
    number: u64,
    text: String,
) -> Result<Response, FencedError> {
    let value = format!("{number} {text}");
    let stands = store.get(key).await?;
    let (last, revision) = match &stands {
        Some(entry) => (number_of(&entry.value), Some(entry.revision)),
        None => (0, None),
    };
    if stands.is_some_and(|entry| entry.value == value.as_bytes()) {
        // It was sent before, and its answer was lost.
        return Ok(value.into_response());
    }
    if last.checked_add(1) != Some(number) {
        let told = format!("the last number is {last}");
        return Ok((StatusCode::CONFLICT, told).into_response());
    }
    match revision {
        Some(revision) => store.update(key, &value, revision).await?,
        None => store.create(key, &value).await?,
    };
    Ok(value.into_response())
}

fn number_of(value: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(value);
    let number = text.split(' ').next().unwrap_or_default();
    number.parse().unwrap_or(0)
}

/// Logs a request when it begins and, by its drop, when it ends.
struct Logged<'a> {
    owned: &'a Owned,
    key: String,
}

impl<'a> Logged<'a> {
    fn begin(owned: &'a Owned, key: &str, token: FencingToken) -> Self {
        // Nobody may read the log.
        let _ = owned.log.send(Access::Began {
            instance: owned.instance.clone(),
            key: key.to_owned(),
            token,
        });
        Self {
            owned,
            key: key.to_owned(),
        }
    }
}

impl Drop for Logged<'_> {
    fn drop(&mut self) {
        let _ = self.owned.log.send(Access::Ended {
            instance: self.owned.instance.clone(),
            key: std::mem::take(&mut self.key),
        });
    }
}
