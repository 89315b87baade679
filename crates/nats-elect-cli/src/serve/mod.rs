//! What `nats-elect serve` serves: the elections of buckets, over HTTP.
//!
//! ```text
//! server ── connections with limits, and what every answer bears
//! ├─ api       JSON: roles, instances, history, the check of a leader
//! ├─ groups    JSON: groups, units, the owner of a key
//! ├─ events    what happens, as it happens
//! ├─ metrics   what Prometheus scrapes
//! ├─ page      the same for people, with the timeline
//! ├─ openapi   all paths, described
//! ├─ names     the names of this server
//! └─ spaced    answers about everything, made a few times a second at most
//! ```

mod api;
mod events;
mod groups;
mod limits;
mod metrics;
mod names;
mod openapi;
mod page;
mod server;
mod spaced;
mod timeline;

use std::sync::Arc;
use std::time::Duration;

use futures::future::select_all;
use nats_elect::ManagerConfig;
use tokio::net::TcpListener;

use self::events::Events;
use self::limits::LIMITS;
use self::metrics::Counts;
use self::names::Names;
use self::spaced::Spaced;
use crate::exit::Outcome;
use crate::fleet::Watched;
use crate::looking;
use crate::stopped::stopped;
use crate::trust::Trusted;

/// What every answer is made from.
#[derive(Clone, Default)]
struct Served {
    views: Arc<[Arc<Watched>]>,
    counts: Arc<Counts>,
    events: Arc<Events>,
    page: Spaced,
    metrics: Spaced,
}

/// Serves these buckets until this process is told to end, or until NATS refuses what this is to
/// show. Instances are asked once in each interval; `hosts` are the names of this server, besides
/// addresses and `localhost`.
pub async fn serve(
    listener: TcpListener,
    buckets: Vec<ManagerConfig>,
    trust: Option<Trusted>,
    interval: Duration,
    hosts: Vec<String>,
) -> Outcome {
    let events = Arc::<Events>::default();
    let view = |config: &ManagerConfig| {
        let events = Arc::clone(&events);
        Watched::new(&config.bucket, move |kind, data| events.tell(kind, data))
    };
    let views: Arc<[_]> = buckets.iter().map(|it| Arc::new(view(it))).collect();
    let looking = buckets.into_iter().zip(views.iter());
    let looking = looking.map(|(config, view)| {
        let view = Arc::clone(view);
        Box::pin(looking::look(view, config, trust.clone(), interval))
    });
    let looking = select_all(looking);
    let served = Served {
        views,
        events,
        ..Served::default()
    };
    tokio::select! {
        refused = looking => Err(refused.0),
        () = server::run(listener, Names(hosts.into()), served, LIMITS) => Ok(0),
        () = stopped() => Ok(0),
    }
}
