//! Looks at the bucket: their times, and the receivers of their results.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State as ConnectionState;
use ractor::ActorRef;

use super::{MonitorState, NOW_AND_THEN};
use crate::actors::Link;
use crate::actors::connection::Connection;
use crate::actors::messages::{ElectionMsg, MonitorMsg};
use crate::clock;
use crate::error::Error;
use crate::store::{self, BucketInfo, IfMissing, StoreError};
use nats_elect_core::Failure;
use nats_elect_core::name::RoleName;

/// The maximum time of one look at the bucket.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// Elections ask for looks in swarms. One look in this time is enough.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

impl MonitorState {
    /// Looks at the bucket for one election, and reports the state, changed or not. The bucket may
    /// be unfit for that election alone.
    pub(super) fn look_for(&mut self, myself: &ActorRef<MonitorMsg>, role: RoleName) {
        self.asking.insert(role);
        if !self.looking {
            self.look_at_bucket(myself);
        }
    }

    /// Reports an unchanged state only to the elections that asked. Each report of a usable bucket
    /// costs a leader one more heartbeat.
    fn answer(&mut self, myself: &ActorRef<MonitorMsg>, link: &Link) {
        for role in std::mem::take(&mut self.awaiting) {
            let message = ElectionMsg::LinkChanged(link.clone());
            self.setup.routes.send(&role, message);
        }
        if !self.asking.is_empty() {
            self.look_at_bucket(myself);
        }
    }

    /// Reports the state to all elections, including those that asked.
    fn tell_all(&mut self, link: Link) {
        self.awaiting.clear();
        self.asking.clear();
        self.link = link.clone();
        (self.setup.tell)(link);
    }

    pub(super) fn look_at_bucket(&mut self, myself: &ActorRef<MonitorMsg>) {
        let connected = |it: &Client| it.connection_state() == ConnectionState::Connected;
        let Some(client) = self.client.clone().filter(connected) else {
            return;
        };
        if self.looking
            || self
                .looked_at
                .is_some_and(|at| clock::now() < at + LOOK_PAUSE)
        {
            if !self.looking && !std::mem::replace(&mut self.look_again, true) {
                myself.send_after(LOOK_PAUSE, || MonitorMsg::LookAtBucket);
            }
            return;
        }
        self.looking = true;
        self.awaiting.append(&mut self.asking);
        self.looks += 1;
        let number = self.looks;
        self.look_again = false;
        let now = clock::now();
        self.looked_at = Some(now);
        self.next_look = now + NOW_AND_THEN.spread_after(0);
        let (name, if_missing) = (self.setup.bucket.clone(), self.setup.if_missing);
        let known = self.bucket.as_ref().map(|(bucket, _)| bucket.clone());
        let (myself, mailbox) = (myself.clone(), Arc::clone(&self.mailbox));
        tokio::spawn(async move {
            let looked = match &known {
                Some(bucket) => bucket
                    .inspect(LOOK_TIMEOUT)
                    .await
                    .map(|info| (bucket.clone(), info)),
                None => Err(StoreError::BucketMissing {
                    bucket: name.to_string(),
                }),
            };
            let looked = match looked {
                Err(StoreError::BucketMissing { .. }) => {
                    store::Bucket::open(client, mailbox, &name, if_missing, LOOK_TIMEOUT).await
                }
                looked => looked,
            };
            let _ = myself.send_message(MonitorMsg::Looked(number, looked));
        });
    }

    pub(super) fn looked(
        &mut self,
        myself: &ActorRef<MonitorMsg>,
        result: Result<(store::Bucket, BucketInfo), StoreError>,
    ) {
        self.looking = false;
        match result {
            Ok((bucket, info)) => {
                self.failures = 0;
                self.log_bucket(&info);
                self.log_notes(&info);
                let traits = nats_elect_core::Bucket {
                    epoch: info.epoch,
                    max_age: info.max_age,
                    unique_sequences: info.unique_sequences,
                };
                let before = self.bucket.replace((bucket.clone(), traits));
                let same = before.is_some_and(|(_, known)| known == traits);
                if let Some(ready) = self.ready.take() {
                    let _ = ready.send(Ok((bucket.clone(), info)));
                }
                let connected = self
                    .client
                    .as_ref()
                    .is_some_and(|c| c.connection_state() == ConnectionState::Connected);
                if !connected {
                    // The next connection brings another look.
                    return;
                }
                let link = Link::Up {
                    bucket,
                    info: traits,
                };
                if !same || !matches!(self.link, Link::Up { .. }) {
                    self.tell_all(link);
                } else {
                    self.answer(myself, &link);
                }
            }
            Err(error) => self.look_failed(myself, error),
        }
    }

    /// Logs that the bucket was created, or took the place of another one.
    fn log_bucket(&mut self, info: &BucketInfo) {
        let bucket = &self.setup.bucket;
        match self.epoch.replace(info.epoch) {
            None if info.created => tracing::info!(%bucket, "created the bucket"),
            Some(_) if info.created => tracing::warn!(
                %bucket,
                "the bucket was missing: created it; all that it held is lost, the data of \
                 `term.store()` included"
            ),
            Some(epoch) if epoch != info.epoch => tracing::warn!(
                %bucket,
                "the bucket was recreated or restored: leaders end; what it held and was not \
                 restored is lost, the data of `term.store()` included"
            ),
            _ => {}
        }
    }

    /// Logs the risks of the bucket's settings: at the start, and those that came since.
    fn log_notes(&mut self, info: &BucketInfo) {
        let bucket = &self.setup.bucket;
        let known = std::mem::replace(&mut self.notes, info.notes.clone());
        for note in info.notes.iter().filter(|note| !known.contains(note)) {
            if note.setting == "num_replicas" {
                // It is often meant so: with this target a filter can leave it out.
                tracing::warn!(target: "nats_elect::one_replica", %bucket, "{note}");
            } else {
                tracing::warn!(%bucket, "{note}");
            }
        }
    }

    fn look_failed(&mut self, myself: &ActorRef<MonitorMsg>, error: StoreError) {
        self.last_problem = error.to_string();
        if store::is_closed(&error) && matches!(self.setup.connection, Connection::Own(_)) {
            self.connect_anew(myself);
            return;
        }
        let failure = Failure {
            kind: error.kind(),
            detail: error.to_string(),
        };
        // Once the bucket was used, the leases decide, unless somebody has to act. A JetStream that
        // was available comes back. Limits matter only where the bucket is to be created. A cluster
        // may also be just starting.
        let passes = if self.bucket.is_some() {
            !failure.ends_term()
        } else {
            let full = matches!(error, StoreError::BucketFull(_));
            error.is_transient() && !full || self.ready.is_some() && error.lacks_nodes()
        };
        let is_awaited = self.setup.if_missing == IfMissing::Await
            && matches!(error, StoreError::BucketMissing { .. });
        // Later, one look that fails is most often a restart of a server.
        let lasts = self.ready.is_some() || self.failures > 0;
        if lasts && (passes || is_awaited) {
            self.log_problem(&error.to_string());
        }
        if !passes {
            if is_awaited {
                self.awaited = Some(error);
            } else {
                self.start_failed(Error::of_bucket(error));
            }
            let link = Link::Unusable(failure);
            if let Link::Unusable(_) = self.link {
                self.answer(myself, &link);
            } else {
                self.tell_all(link);
            }
        }
        self.retry_later(myself);
    }
}
