//! Finds out what a view shows.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use futures::StreamExt;
use nats_elect::admin::{AdminClient, AdminError};
use nats_elect::{Change, History, ManagerConfig, Observer};

use crate::connect::{observing, reading};
use crate::exit::{Code, Failure};
use crate::fleet::Watched;
use crate::follow::Follow;
use crate::instances::{Candidate, asked};
use crate::past_event::MOST;
use crate::trust::Trusted;

/// The pauses between attempts to reach the bucket: the first one, and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// How often it is looked what became of groups.
const LOOK: Duration = Duration::from_secs(1);
/// How long is waited for instances to say that they are there.
const SEARCH: Duration = Duration::from_secs(2);
/// The share of time of each instance: where there are many, each is asked less often.
const EACH: Duration = Duration::from_millis(10);
/// The pause before a history is looked for that was not there, or broke off.
const HISTORY_PAUSE: Duration = Duration::from_secs(30);

/// Keeps a view up to date, for ever. Ends if NATS refuses what it needs, or a setting breaks a
/// rule: no time heals that.
pub async fn look(
    view: Arc<Watched>,
    config: ManagerConfig,
    trust: Option<Trusted>,
    interval: Duration,
) -> Failure {
    let mut pause = PAUSES.0;
    let mut has_begun = false;
    loop {
        let looking = async {
            let builder = observing(config.clone(), trust.clone());
            let observer = builder.start().await?;
            view.observed_by(observer.clone());
            has_begun = true;
            pause = PAUSES.0;
            go_on(&view, &config, observer, interval).await
        };
        let Err(failure) = Box::pin(looking).await;
        if !has_begun && matches!(failure.code, Code::Usage | Code::Refused) {
            return failure;
        }
        tracing::warn!(bucket = %view.bucket, "the bucket can't be watched: {}", failure.what);
        view.in_trouble(&failure.what);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Until the observer ends.
pub async fn go_on(
    view: &Watched,
    config: &ManagerConfig,
    observer: Observer,
    interval: Duration,
) -> Result<Infallible, Failure> {
    let client = config.connect("nats-elect").await?;
    let admin = AdminClient::under(client, &config.bucket, &config.admin.subject_prefix)?;
    tokio::select! {
        () = follow_roles(view, &observer) => Err(Failure::failed("the observer has ended")),
        ended = follow_groups(view, &observer) => ended,
        never = ask_instances(view, admin, &observer, interval) => match never {},
        never = read_history(view, config) => match never {},
    }
}

/// Takes in each change.
async fn follow_roles(view: &Watched, observer: &Observer) {
    let mut changes = observer.changes();
    while let Some(change) = changes.next().await {
        match change {
            Change::Role(change) => view.changed(&change),
            _ => view.moved(),
        }
    }
}

/// Follows the groups, and looks at them now and then: however much changes, it is told once in that
/// time.
async fn follow_groups(view: &Watched, observer: &Observer) -> Result<Infallible, Failure> {
    let followed = Arc::new(observer.follow_groups()?);
    followed.wait_until(|it| it.connection().is_current()).await;
    view.groups.followed_by(followed);
    let mut looks = tokio::time::interval(LOOK);
    loop {
        looks.tick().await;
        view.look_at_groups();
    }
}

/// Asks everyone in turns, the next one when a turn is over and the interval has passed.
async fn ask_instances(
    view: &Watched,
    admin: AdminClient,
    observer: &Observer,
    interval: Duration,
) -> Infallible {
    loop {
        let turn = async {
            let found = ask(&admin, observer).await;
            let count = found.as_ref().map_or(0, Vec::len);
            view.heard(found);
            count
        };
        let (count, ()) = tokio::join!(turn, tokio::time::sleep(interval));
        let share = EACH.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        tokio::time::sleep(share.saturating_sub(interval)).await;
    }
}

/// Asks everyone in the observer's bucket once.
async fn ask(admin: &AdminClient, observer: &Observer) -> Result<Vec<Candidate>, AdminError> {
    let admin = match observer.bucket_id() {
        Some(bucket) => &admin.clone().of_bucket(&bucket),
        None => admin,
    };
    Ok(asked(admin, None, admin.instances(SEARCH).await?).await)
}

/// Reads the past, and then each event as it comes. A connection of its own tells what is refused.
async fn read_history(view: &Watched, config: &ManagerConfig) -> Infallible {
    loop {
        let follow = async |client, _| follow_history(view, client).await;
        if let Err(failure) = reading(config, follow).await {
            tracing::debug!(bucket = %view.bucket, "no history: {}", failure.what);
            view.not_remembered(&failure);
        }
        tokio::time::sleep(HISTORY_PAUSE).await;
    }
}

async fn follow_history(view: &Watched, client: Client) -> Result<(), Failure> {
    let history = History::open(client.clone(), &view.bucket).await?;
    // Events that are published while the past is read are in both.
    let later = Follow::from_now(client, &view.bucket).await?;
    view.remembered(history.of_all(MOST).await?);
    later.each(|event| view.remember(event)).await
}
