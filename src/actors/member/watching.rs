//! What the bucket shows this member: the watch on the keys of groups, and hints of others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use ractor::ActorRef;
use tokio::sync::Semaphore;

use super::{MemberState, Step};
use crate::actors::Link;
use crate::actors::messages::{MemberMsg, SupervisorMsg};
use crate::backoff::Backoff;
use crate::clock;
use crate::store::{Bucket, GroupDelivery, Looked, StoreError};
use nats_elect_core::duration::rounded;
use nats_elect_core::group::{Epoch, GroupInput, UnitKey};

/// The maximum time for a watch to begin.
const WATCH_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause before a watch that ended begins again.
const WATCH_AGAIN: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
/// The bound of a brief watch. One that ended sooner together with its connection may have caused that
/// by what it was sent.
const BRIEF: Duration = Duration::from_secs(4);
/// After so many of them in a row that is looked for,
const BROKEN: u32 = 3;
/// and if it does not help, the connection is worth more than the watch: the watch rests.
const REST: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60));
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

impl MemberState {
    pub(super) fn begin_watch(&mut self, myself: &ActorRef<MemberMsg>) {
        self.looking.stop();
        // Each link that is up begins one.
        let Link::Up { bucket, .. } = &self.link else {
            return;
        };
        let bucket = bucket.clone();
        self.watch_began = clock::now();
        let myself = myself.clone();
        // Nobody else needs the list of members. The member waits for its own claim to be shown
        // meanwhile, and would begin another watch after a third of its lease.
        let joins = !self.group.has_caught_up();
        let may_end = self.watch_failures < LISTS;
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
                        if members.is_none() && may_end {
                            let why = "members could not be listed";
                            return Err(StoreError::Unavailable(why.into()));
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
            let ended: Result<(), StoreError> = watching.await;
            if let Err(error) = ended {
                let error = error.to_string();
                let _ = myself.send_message(MemberMsg::WatchEnded { number, error });
            }
        });
    }

    /// The link is there again. If each of the last watches broke with its connection, what stands
    /// next in the stream may be unreadable. Another watch would break this connection, too.
    pub(super) fn watch_again(&mut self, myself: &ActorRef<MemberMsg>) {
        let (Some(more), Some(bucket)) = (self.broken.checked_sub(BROKEN), self.bucket.clone())
        else {
            self.begin_watch(myself);
            return;
        };
        let rest_from = |from| {
            more.checked_sub(from)
                .map_or(Duration::ZERO, |it| REST.after(it))
        };
        // Whoever writes such messages without end is not to have each connection for that.
        let (rest, rest_if_cleared) = (rest_from(1), rest_from(BROKEN));
        let (after, watch) = (self.readable_to, self.watch.number());
        let myself = myself.clone();
        self.looking.begin(async move |number| {
            let looked = bucket.clear_unreadable(after, WATCH_TIMEOUT).await;
            let rest = match &looked {
                Ok(Looked::Cleared(..) | Looked::UpTo(_)) => rest_if_cleared,
                Ok(Looked::Nothing) | Err(_) => rest,
            };
            let told = MemberMsg::Looked {
                number,
                looked,
                rest,
            };
            let _ = myself.send_message(told);
            tokio::time::sleep(rest).await;
            let _ = myself.send_message(MemberMsg::BeginWatch(watch));
        });
    }

    pub(super) fn looked(&mut self, looked: Result<Looked, StoreError>, rest: Duration) {
        let broke = "the connection broke with each of the last watches on groups";
        let told = match looked {
            Ok(Looked::Cleared(subject, to)) => {
                self.readable_to = to;
                format!(
                    "{broke}: wrote over what stood under {subject:?}, which no client can read"
                )
            }
            Ok(Looked::UpTo(to)) => {
                self.readable_to = to;
                return;
            }
            Ok(Looked::Nothing) => {
                // What a watch has shown may be gone, if the stream has lost its end.
                self.readable_to = 0;
                if rest.is_zero() {
                    return;
                }
                format!("{broke}, and what broke it was not found")
            }
            Err(error) => format!("{broke}, and what broke it still stands there: {error}"),
        };
        if self.logged.is_due(&told, clock::now()).is_some() {
            let rest = (!rest.is_zero()).then(|| rounded(rest).to_string());
            tracing::warn!(rest, "{told}");
        }
    }

    /// The link changed: a watch under it has ended.
    pub(super) fn watch_lost(&mut self) {
        if self.watch.is_under_way() {
            let brief = clock::now().since(self.watch_began) < BRIEF;
            self.broken = if brief { self.broken + 1 } else { 0 };
        }
        self.watch.stop();
        self.looking.stop();
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
                self.readable_to = self.readable_to.max(shown.message.sequence);
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
    tokio::time::timeout(patience, reading).await.ok()
}

/// The last sequence of the stream, if the watch has caught up with it by what it tells.
fn caught_up_at(told: &[GroupDelivery]) -> Option<u64> {
    told.iter().find_map(|told| match told {
        GroupDelivery::CaughtUp(last) => Some(*last),
        GroupDelivery::Shown(_) | GroupDelivery::Nothing => None,
    })
}
