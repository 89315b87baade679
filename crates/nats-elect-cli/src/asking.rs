//! Asking all instances how they are, in turns.

use std::time::Duration;

use futures::{StreamExt, stream};
use nats_elect::Observer;
use nats_elect::admin::{AdminClient, AdminError, Instance, InstanceReport};
use tokio::sync::mpsc;

/// How long is waited for instances to say that they are there.
const SEARCH: Duration = Duration::from_secs(2);
/// So many instances are asked at a time.
const AT_A_TIME: usize = 16;
/// The share of time of each instance: where there are many, each is asked less often.
const EACH: Duration = Duration::from_millis(10);

/// An instance, and what it says.
pub type Report = (Instance, Result<InstanceReport, AdminError>);

/// What came of a turn: all instances that were found, or why nobody could be asked.
pub type Reports = Result<Vec<Report>, AdminError>;

/// Asks everyone in the observer's bucket once.
pub async fn ask(admin: &AdminClient, observer: &Observer) -> Reports {
    let admin = match observer.bucket_id() {
        Some(bucket) => &admin.clone().of_bucket(&bucket),
        None => admin,
    };
    let found = admin.instances(SEARCH).await?;
    let reports = stream::iter(found).map(|instance| async move {
        let report = admin.status(&instance).await;
        (instance, report)
    });
    Ok(reports.buffered(AT_A_TIME).collect().await)
}

/// Asks everyone in turns, the next one when a turn is over and the interval has passed. Ends when
/// nobody listens.
pub async fn keep_asking(
    admin: AdminClient,
    observer: Observer,
    interval: Duration,
    tell: mpsc::Sender<Reports>,
) {
    loop {
        let turn = async {
            let reports = ask(&admin, &observer).await;
            let asked = reports.as_ref().map_or(0, Vec::len);
            let heard = tell.send(reports).await.is_ok();
            (asked, heard)
        };
        let ((asked, heard), ()) = tokio::join!(turn, tokio::time::sleep(interval));
        if !heard {
            return;
        }
        let share = EACH.saturating_mul(u32::try_from(asked).unwrap_or(u32::MAX));
        tokio::time::sleep(share.saturating_sub(interval)).await;
    }
}
