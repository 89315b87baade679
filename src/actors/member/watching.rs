//! What the bucket shows this member: the watch on the keys of groups, and hints of others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use ractor::ActorRef;
use tokio::sync::Semaphore;

use super::{MemberState, Step};
use crate::actors::messages::{MemberMsg, SupervisorMsg};
use crate::backoff::Backoff;
use crate::clock;
use crate::store::{Bucket, GroupDelivery};
use nats_elect_core::duration::rounded;
use nats_elect_core::group::{Epoch, GroupInput, UnitKey};

/// The maximum time for a watch to begin.
const WATCH_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause before a watch that ended begins again.
const WATCH_AGAIN: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
/// So many watches in a row that ended before they had caught up may have lost their connections by
/// what they were sent. Then that is looked for,
const BROKEN: u32 = 3;
/// and if that does not help, the connection is worth more than the watch: the watch rests.
const REST: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60));
/// After how long a watch begins anew. No watch shows a purge: only the next one does, by what it
/// lacks.
const WATCH_ANEW: Duration = Duration::from_secs(300);
/// The pause before members are listed again.
const LIST_AGAIN: Duration = Duration::from_millis(100);
/// The pause before a subscription to hints that ended begins again.
const HINTS_AGAIN: Duration = Duration::from_secs(1);
/// The most messages of a watch that are taken at once.
const BATCH: usize = 128;
/// The most batches of messages that wait to be taken.
const BATCHES: usize = 2;

impl MemberState {
    pub(super) fn begin_watch(&mut self, myself: &ActorRef<MemberMsg>) {
        self.clearing.stop();
        let Some(bucket) = self.bucket.clone() else {
            return;
        };
        let myself = myself.clone();
        // Nobody else needs the list of members. The member waits for its own claim to be shown
        // meanwhile, and would begin another watch after a third of its lease.
        let joins = !self.group.has_caught_up();
        let patience = WATCH_TIMEOUT.min(self.settings.ttl / 3);
        self.watch.begin(async move |number| {
            let watching = async {
                let mut watch = bucket.watch_groups(WATCH_TIMEOUT).await?;
                let _ = myself.send_message(MemberMsg::WatchBegan(number));
                // Answers to heartbeats do not queue behind a long backlog.
                let batches = Arc::new(Semaphore::new(BATCHES));
                loop {
                    let told = watch.next_batch(BATCH).await?;
                    let mut members = None;
                    if let Some(last) = caught_up_at(&told).filter(|_| joins) {
                        members = members_since(&bucket, last, patience).await;
                    }
                    let Ok(taken) = Arc::clone(&batches).acquire_owned().await else {
                        return Ok(());
                    };
                    let told = MemberMsg::Watched {
                        number,
                        told,
                        members,
                        taken,
                    };
                    let _ = myself.send_message(told);
                }
            };
            let ended: Result<(), crate::store::StoreError> = watching.await;
            if let Err(error) = ended {
                let error = error.to_string();
                let _ = myself.send_message(MemberMsg::WatchEnded { number, error });
            }
        });
    }

    /// The link is there again. If each of the last watches broke with its connection, what stands
    /// next in the stream may be unreadable. Another watch would break this connection, too.
    pub(super) fn watch_again(&mut self, myself: &ActorRef<MemberMsg>) {
        let rested = self.watch_failures.checked_sub(BROKEN);
        let (Some(rested), Some(bucket)) = (rested, self.bucket.clone()) else {
            self.begin_watch(myself);
            return;
        };
        let rest = rested.checked_sub(1).map(|rested| REST.after(rested));
        let (after, number) = (self.shown_to, self.watch.number());
        let myself = myself.clone();
        self.clearing.begin(async move |_| {
            match bucket.clear_unreadable(after, WATCH_TIMEOUT).await {
                Ok(cleared) if !cleared.is_empty() => {
                    tracing::warn!(
                        ?cleared,
                        "what stood there broke the connection of each watch on groups: wrote over it"
                    );
                }
                looked => {
                    if let Some(wait) = rest {
                        let error = looked.err().map(|error| error.to_string());
                        tracing::warn!(
                            error,
                            wait = %rounded(wait),
                            "the connection broke with each of the last watches on groups: doing without a watch for a while"
                        );
                        tokio::time::sleep(wait).await;
                    }
                }
            }
            let _ = myself.send_message(MemberMsg::BeginWatch(number));
        });
    }

    /// The link changed: a watch under it has ended.
    pub(super) fn watch_lost(&mut self) {
        if self.watch.is_under_way() {
            self.watch_failures += 1;
        }
        self.watch.stop();
        self.clearing.stop();
    }

    /// Subscribes to the hints for the present epoch. Without them units move when their owner
    /// leaves or dies, and not for balance.
    pub(super) fn receive_hints(&mut self, myself: &ActorRef<MemberMsg>) {
        let (Some(bucket), Some(epoch)) = (self.bucket.clone(), self.present) else {
            return;
        };
        let myself = myself.clone();
        self.hints.begin(async move |_| {
            loop {
                match bucket.hints(epoch).await {
                    Ok(mut hints) => {
                        while let Some(hints) = hints.next().await {
                            let _ = myself.send_message(MemberMsg::Hinted(hints));
                        }
                    }
                    Err(error) => tracing::debug!(%error, "no hints of other members come in"),
                }
                tokio::time::sleep(HINTS_AGAIN).await;
            }
        });
    }

    pub(super) fn watch_began(
        myself: &ActorRef<MemberMsg>,
        number: u64,
        steps: &mut VecDeque<Step>,
    ) {
        myself.send_after(WATCH_ANEW, move || MemberMsg::BeginWatch(number));
        steps.push_back(Step::Group(GroupInput::WatchBegan));
    }

    /// Takes what the watch tells. `members` is what was read if it has caught up by that.
    pub(super) fn watched(
        &mut self,
        told: GroupDelivery,
        members: &mut Option<Vec<Epoch>>,
        steps: &mut VecDeque<Step>,
    ) {
        match told {
            GroupDelivery::Nothing => {}
            GroupDelivery::CaughtUp(last) => {
                self.watch_failures = 0;
                for (name, scope) in &*self.groups {
                    let units = scope.read(|board| {
                        let generation = board.generation;
                        let units = board.units.keys().cloned();
                        let keys = units.map(|unit| UnitKey {
                            group: name.clone(),
                            generation,
                            unit,
                        });
                        keys.collect::<Vec<_>>()
                    });
                    self.touched.extend(units);
                }
                steps.push_back(Step::Group(GroupInput::CaughtUp {
                    last,
                    members: members.take(),
                }));
            }
            GroupDelivery::Shown(shown) => {
                self.shown_to = self.shown_to.max(shown.message.sequence);
                self.shown(shown, steps);
            }
        }
    }

    pub(super) fn watch_ended(&mut self, myself: &ActorRef<MemberMsg>, error: &str) {
        let wait = WATCH_AGAIN.spread_after(self.watch_failures);
        self.watch_failures += 1;
        if self.logged.is_due(error, clock::now()).is_some() {
            tracing::warn!(error, "the watch on groups ended: watching again");
        }
        let _ = self.supervisor.send_message(SupervisorMsg::LookAtBucket);
        self.watch.ended();
        let number = self.watch.number();
        myself.send_after(wait, move || MemberMsg::BeginWatch(number));
    }
}

/// The members that stand there, read after the stream had come to that sequence. `None` if they can't
/// be read for so long.
async fn members_since(bucket: &Bucket, last: u64, patience: Duration) -> Option<Vec<Epoch>> {
    let reading = async {
        loop {
            match bucket.members_since(last, patience / 2).await {
                Ok(members) => return members,
                Err(error) => tracing::debug!(%error, "members could not be listed"),
            }
            tokio::time::sleep(LIST_AGAIN).await;
        }
    };
    let members = tokio::time::timeout(patience, reading).await.ok();
    if members.is_none() {
        tracing::warn!("members could not be listed: this one joins a minute late");
    }
    members
}

/// The last sequence of the stream, if the watch has caught up with it by what it tells.
fn caught_up_at(told: &[GroupDelivery]) -> Option<u64> {
    told.iter().find_map(|told| match told {
        GroupDelivery::CaughtUp(last) => Some(*last),
        GroupDelivery::Shown(_) | GroupDelivery::Nothing => None,
    })
}
