//! What the bucket shows this member: the watch on the keys of groups, and hints of others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use ractor::ActorRef;
use tokio::sync::Semaphore;

use super::{MemberState, Step};
use crate::actors::Link;
use crate::actors::latest_task::LatestTask;
use crate::actors::messages::{MemberMsg, SupervisorMsg, WatchEnd};
use crate::backoff::Backoff;
use crate::clock;
use crate::store::{Bucket, GroupDelivery, Looked, StoreError};
use nats_elect_core::duration::rounded;
use nats_elect_core::group::{Epoch, GroupInput, GroupKey, UnitKey};

/// The maximum time for a watch to begin.
const WATCH_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause before a watch that ended begins again.
const WATCH_AGAIN: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
/// So many watches in a row that ended with their connection before they had caught up may have caused
/// that by what they were sent. Then that is looked for,
const BROKEN: u32 = 3;
/// and if it does not help, the connection is worth more than the watch: the watch rests.
const REST: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(15));
/// After how long a watch begins anew. No watch shows a purge: only the next one does, by what it
/// lacks.
const WATCH_ANEW: Duration = Duration::from_secs(300);
/// So many watches end because members can't be listed. Without that list a member joins a minute late.
const LISTS: u32 = 5;
/// The pause before members are listed again.
const LIST_AGAIN: Duration = Duration::from_millis(100);
/// The pause before a subscription to hints that ended begins again.
const HINTS_AGAIN: Duration = Duration::from_secs(1);
/// The most messages of a watch that are taken at once.
const BATCH: usize = 128;
/// The most batches of messages that wait to be taken.
const BATCHES: usize = 2;

const UNLISTED: &str = "members could not be listed";

/// The watch on groups, and how the ones before ended.
#[derive(Default)]
pub(super) struct Watches {
    pub task: LatestTask,
    /// Looks for what breaks watches, and rests, in place of one.
    pub looking: LatestTask,
    /// Whether the present one has caught up.
    caught_up: bool,
    /// Those that ended by themselves since one had caught up.
    failures: u32,
    /// Those of them that ended because members could not be listed.
    unlisted: u32,
    /// Those that ended with their connection since one had caught up.
    broken: u32,
    /// All that stands up to this sequence of the stream can be read, as far as is known.
    pub readable_to: u64,
}

impl MemberState {
    pub(super) fn begin_watch(&mut self, myself: &ActorRef<MemberMsg>) {
        self.watch.looking.stop();
        // Each link that is up begins one.
        let Link::Up { bucket, .. } = &self.link else {
            return;
        };
        let bucket = bucket.clone();
        self.watch.caught_up = false;
        let myself = myself.clone();
        // Nobody else needs the list of members. The member waits for its own claim to be shown
        // meanwhile, and would begin another watch after a third of its lease.
        let joins = !self.group.has_caught_up();
        let may_end = self.watch.unlisted < LISTS;
        let patience = WATCH_TIMEOUT.min(self.settings.ttl / 3);
        self.watch.task.begin(async move |number| {
            let watching = async {
                let watch = bucket.watch_groups(WATCH_TIMEOUT).await;
                let mut watch = watch.map_err(WatchEnd::Failed)?;
                let _ = myself.send_message(MemberMsg::WatchBegan(number));
                // Answers to heartbeats do not queue behind a long backlog.
                let batches = Arc::new(Semaphore::new(BATCHES));
                loop {
                    let told = watch.next_batch(BATCH).await.map_err(WatchEnd::Failed)?;
                    let mut members = None;
                    if let Some(last) = caught_up_at(&told).filter(|_| joins) {
                        members = members_since(&bucket, last, patience).await;
                        if members.is_none() && may_end {
                            return Err(WatchEnd::Unlisted);
                        }
                        if members.is_none() {
                            tracing::warn!("{UNLISTED}: this one joins a minute late");
                        }
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
            if let Err(end) = watching.await {
                let _ = myself.send_message(MemberMsg::WatchEnded(number, end));
            }
        });
    }

    /// The link is there again. If each of the last watches broke with its connection, what stands
    /// next in the stream may be unreadable. Another watch would break this connection, too.
    pub(super) fn watch_again(&mut self, myself: &ActorRef<MemberMsg>) {
        let (Some(more), Some(bucket)) =
            (self.watch.broken.checked_sub(BROKEN), self.bucket.clone())
        else {
            self.begin_watch(myself);
            return;
        };
        let (after, watch) = (self.watch.readable_to, self.watch.task.number());
        let myself = myself.clone();
        self.watch.looking.begin(async move |number| {
            let looked = bucket
                .clear_unreadable(GroupKey::ALL, after, WATCH_TIMEOUT)
                .await;
            // The next watch breaks, too, unless something changed or is still to be looked at.
            let breaks = looked.as_ref().is_ok_and(|looked| {
                let nothing = looked.cleared.is_empty() && looked.to.is_none();
                nothing || looked.left.is_some()
            });
            let rest = match more.checked_sub(1) {
                Some(rests) if breaks => REST.after(rests),
                _ => Duration::ZERO,
            };
            let _ = myself.send_message(MemberMsg::Looked(number, looked, rest));
            tokio::time::sleep(rest).await;
            let _ = myself.send_message(MemberMsg::BeginWatch(watch));
        });
    }

    pub(super) fn looked(&mut self, looked: Result<Looked, StoreError>, rest: Duration) {
        let rest = (!rest.is_zero()).then(|| rounded(rest).to_string());
        let broke = "the connection broke with each of the last watches on groups";
        let told = match looked {
            Err(error) => format!("{broke}, and what broke it could not be looked for: {error}"),
            Ok(looked) => {
                // The stream may have lost its end, and with it all that watches have shown.
                self.watch.readable_to = looked.to.unwrap_or_default();
                if let Some(error) = looked.left {
                    format!("{broke}, and what broke it still stands there: {error}")
                } else if let [first, more @ ..] = &*looked.cleared {
                    let more = more.len();
                    format!("{broke}: wrote over what stood under {first:?} and {more} other keys")
                } else if rest.is_some() {
                    format!("{broke}, and what broke it was not found")
                } else {
                    return;
                }
            }
        };
        if self.logged.is_due(&told, clock::now()).is_some() {
            tracing::warn!(rest, "{told}");
        }
    }

    /// The link changed. A watch goes on under no other one.
    pub(super) fn stop_watch(&mut self) {
        let is_lost = matches!(self.link, Link::Down { .. });
        if is_lost && self.watch.task.is_under_way() && !self.watch.caught_up {
            self.watch.broken += 1;
        }
        self.watch.task.stop();
        self.watch.looking.stop();
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
                let watch = &mut self.watch;
                (watch.failures, watch.unlisted, watch.broken) = (0, 0, 0);
                watch.caught_up = true;
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
                self.watch.readable_to = self.watch.readable_to.max(shown.message.sequence);
                self.shown(shown, steps);
            }
        }
    }

    pub(super) fn watch_ended(&mut self, myself: &ActorRef<MemberMsg>, ended: &WatchEnd) {
        let error = match ended {
            WatchEnd::Unlisted => {
                self.watch.unlisted += 1;
                UNLISTED.to_owned()
            }
            WatchEnd::Failed(error) => error.to_string(),
        };
        let wait = WATCH_AGAIN.spread_after(self.watch.failures);
        self.watch.failures += 1;
        if self.logged.is_due(&error, clock::now()).is_some() {
            tracing::warn!(error, "the watch on groups ended: watching again");
        }
        let _ = self.supervisor.send_message(SupervisorMsg::LookAtBucket);
        let number = self.watch.task.number();
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
    tokio::time::timeout(patience, reading).await.ok()
}

/// The last sequence of the stream, if the watch has caught up with it by what it tells.
fn caught_up_at(told: &[GroupDelivery]) -> Option<u64> {
    told.iter().find_map(|told| match told {
        GroupDelivery::CaughtUp(last) => Some(*last),
        GroupDelivery::Shown(_) | GroupDelivery::Nothing => None,
    })
}
