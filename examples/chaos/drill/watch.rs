//! NATS tells the drill: a watch over the bucket through each node. What any of them shows first is
//! when NATS told it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::{
    self,
    kv::{Entry, Operation},
};
use futures::StreamExt;
use serde_json::Value;

use super::onlooker::{Leader, Sight};
use super::plan::BUCKET;
use super::probe::connect;
use ::drill::Moment;
use ::drill::journal::Journal;

const EVERY: Duration = Duration::from_millis(100);
/// The probe writes ten times a second: a watch that shows nothing for so long is begun anew.
const SILENCE: Duration = Duration::from_secs(1);
/// How long the begin of a watch may take. Then it is begun anew.
const BEGIN: Duration = Duration::from_millis(500);
/// No watch has shown anything for so long: what happened then may have been missed.
const BLIND: Duration = Duration::from_secs(1);

/// What the watches through all nodes have shown.
pub struct Told {
    seen: Mutex<Seen>,
    writer: Arc<Journal>,
}

struct Seen {
    revisions: HashSet<u64>,
    heard: Moment,
}

impl Told {
    pub fn new(writer: Arc<Journal>) -> Self {
        Self {
            seen: Mutex::new(Seen {
                revisions: HashSet::new(),
                heard: Moment::now(),
            }),
            writer,
        }
    }

    fn take(&self, entry: &Entry) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Moment::now();
        if now.since(seen.heard) > BLIND {
            let since = seen.heard;
            self.writer.write_at(now, Sight::Blind { since });
        }
        seen.heard = now;
        // Fence records, and the probe's own.
        if entry.key.starts_with('_') || !seen.revisions.insert(entry.revision) {
            return;
        }
        let sight = Sight::Told {
            role: entry.key.clone(),
            revision: entry.revision,
            leader: leader_of(entry),
        };
        self.writer.write_at(now, sight);
    }
}

/// Watches through the node with this address, for ever.
pub async fn watch_on(url: String, told: Arc<Told>) {
    let Some(client) = connect(&url).await else {
        return;
    };
    let mut context = jetstream::new(client);
    context.set_timeout(BEGIN);
    let bucket = loop {
        if let Ok(bucket) = context.get_key_value(BUCKET).await {
            break bucket;
        }
        tokio::time::sleep(EVERY).await;
    };
    loop {
        let watch = bucket.watch_with_history(">");
        if let Ok(Ok(mut watch)) = tokio::time::timeout(BEGIN, watch).await {
            while let Ok(Some(Ok(entry))) = tokio::time::timeout(SILENCE, watch.next()).await {
                told.take(&entry);
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Who leads by this entry.
fn leader_of(entry: &Entry) -> Option<Leader> {
    if entry.operation != Operation::Put {
        return None;
    }
    let record: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
    Some(Leader {
        id: record["id"].as_str().unwrap_or_default().to_owned(),
        incarnation: record["incarnation"].as_str().map(ToOwned::to_owned),
    })
}
