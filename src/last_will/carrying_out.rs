//! A last will is carried out on NATS.

use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::actors::Link;
use crate::actors::outcomes::{failure_of, outcome_of};
use crate::clock;
use crate::model::bequests::{Lease, Will};
use crate::store::{Bucket, StoreError};
use nats_elect_core::assignment::{Epoch, Key, ended};
use nats_elect_core::heirs::Heirs;
use nats_elect_core::member::Over;
use nats_elect_core::name::{GroupName, RoleName};
use nats_elect_core::peer::PeerRequest;
use nats_elect_core::release::ReleaseSecret;
use nats_elect_core::{Bequest, LastWill, Moment, WillEnd, WillStep};

/// How long a request may take before it is tried again.
const PATIENCE: Duration = Duration::from_secs(1);
/// So many leases try as often as they may. The others wait longer, or for the first success: NATS
/// is back for all of them at once.
const PROBING: usize = 8;
const SELDOM: u32 = 10;
/// The pause before an epoch is ended again.
const AGAIN: Duration = Duration::from_millis(100);
/// How long a released role may stay unclaimed before its candidates are told to look, and told
/// again. It doubles each time.
const REMINDER: Duration = Duration::from_millis(50);
const REMINDERS: u32 = 5;

/// What the executions of a process's wills share.
pub(super) struct Executor {
    link: watch::Receiver<Link>,
    /// The first sign of the death.
    died: Moment,
    /// Something was answered.
    answered: Notify,
}

impl Executor {
    pub fn new(link: watch::Receiver<Link>, died: Moment) -> Self {
        Self {
            link,
            died,
            answered: Notify::new(),
        }
    }

    /// Carries one of the wills out to its end. The process is dead.
    pub async fn carry_out(&self, number: usize, lease: &Lease, will: Will) {
        let rarely = if number < PROBING { 1 } else { SELDOM };
        match (lease, will) {
            (Lease::Role(role), Will::Term(term)) => self.release(role, term, rarely).await,
            (Lease::Member(group, epoch), Will::Epoch { bucket, ttl }) => {
                self.end_epoch(group, *epoch, bucket, ttl, rarely).await;
            }
            _ => {}
        }
    }

    /// Ends the epoch of a member, until its lease is over and others end it.
    async fn end_epoch(
        &self,
        group: &GroupName,
        epoch: Epoch,
        created: u64,
        ttl: Duration,
        rarely: u32,
    ) {
        let mut link = self.link.clone();
        let key = Key::Member(group.clone(), epoch);
        while clock::now().since(self.died) < ttl {
            if certain_epoch(&link).is_some_and(|it| it != created) {
                return;
            }
            let write = async |bucket: Bucket| {
                let over = Over::Anything;
                bucket
                    .write_assignment(&key, over, ended(epoch), None, PATIENCE)
                    .await
            };
            if ask(&mut link, write).await.is_ok() {
                self.answered.notify_waiters();
                return;
            }
            self.rest(&mut link, AGAIN * rarely).await;
        }
    }

    async fn rest(&self, link: &mut watch::Receiver<Link>, pause: Duration) {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = changed(link) => {}
            () = self.answered.notified() => {}
        }
    }

    async fn release(&self, role: &RoleName, term: Bequest, rarely: u32) {
        let (mut link, mut will) = (self.link.clone(), LastWill::new(term));
        let mut step = will.died(self.died, certain_epoch(&link));
        let end = loop {
            step = match step {
                WillStep::Release { over, release } => {
                    let write =
                        async |bucket: Bucket| bucket.release(role, over, &release, PATIENCE).await;
                    let written = ask(&mut link, write).await;
                    will.written(clock::now(), &outcome_of(written))
                }
                WillStep::Read => {
                    let read = async |bucket: Bucket| bucket.snapshot(role, PATIENCE).await;
                    let read = ask(&mut link, read).await;
                    will.read(clock::now(), &read.map_err(|error| failure_of(&error)))
                }
                WillStep::Pause(pause) => {
                    self.rest(&mut link, pause * rarely).await;
                    will.rested(clock::now(), certain_epoch(&link))
                }
                WillStep::Ended(end) => break end,
            };
        };
        if end != WillEnd::NotDue {
            self.answered.notify_waiters();
        }
        if end == WillEnd::Released {
            remind(role, &mut will, &mut link).await;
        }
    }
}

/// Has the candidates of a released role read its keys while nobody claims it. A candidate learns of
/// the release from its watch, but with a node of NATS the watches go that this node served. Their
/// owners notice that seconds later.
async fn remind(role: &RoleName, will: &mut LastWill, link: &mut watch::Receiver<Link>) {
    // Candidates that are asked about a term that they have not seen read the keys.
    let unseen = PeerRequest::Ready {
        to: None,
        release: Some(ReleaseSecret::new(rand::random()).hash()),
        hold_off_ms: None,
        urgent: false,
    };
    tokio::time::sleep(REMINDER).await;
    for doubled in 0..REMINDERS {
        let pause = REMINDER * 2_u32.pow(doubled);
        let Ok(bucket) = bucket(link) else {
            tokio::time::sleep(pause).await;
            continue;
        };
        let turn = bucket.turn_to_read().await;
        let read = bucket.snapshot(role, PATIENCE).await;
        drop(turn);
        if let Ok(snapshot) = read
            && will.read(clock::now(), &Ok(snapshot)) != WillStep::Ended(WillEnd::Released)
        {
            return;
        }
        let told = clock::now();
        let all = Heirs::NONE;
        bucket.inquire(role, &unseen, all, pause, drop).await;
        // Where nobody stands for the role, that comes back at once.
        let left = pause.saturating_sub(clock::now().since(told));
        tokio::time::sleep(left).await;
    }
}

/// Returns the creation time of the bucket at the other end of the link, if its sequences are never
/// used twice.
fn certain_epoch(link: &watch::Receiver<Link>) -> Option<u64> {
    match &*link.borrow() {
        Link::Up { info, .. } if info.unique_sequences => Some(info.epoch),
        _ => None,
    }
}

fn bucket(link: &mut watch::Receiver<Link>) -> Result<Bucket, StoreError> {
    match &*link.borrow_and_update() {
        Link::Up { bucket, .. } => Ok(bucket.clone()),
        Link::Unusable(failure) => Err(StoreError::Unavailable(failure.detail.clone())),
        Link::Down { .. } => Err(StoreError::Unavailable("no connection".into())),
    }
}

/// Asks the bucket. A request over a connection that breaks is not answered.
async fn ask<T>(
    link: &mut watch::Receiver<Link>,
    request: impl AsyncFnOnce(Bucket) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let bucket = bucket(link)?;
    tokio::select! {
        answer = request(bucket) => answer,
        () = changed(link) => Err(StoreError::Unavailable("the connection broke".into())),
    }
}

async fn changed(link: &mut watch::Receiver<Link>) {
    if link.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
