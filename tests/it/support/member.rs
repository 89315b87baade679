//! Members of a group with a short lease.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::TryStreamExt;
use nats_elect::{
    Group, GroupHandle, MemberConfig, RoleHandler, RoleManager, RoleManagerBuilder, StopOptions,
    Term, handler_fn,
};
use nats_elect_testing::eventually;
use serde_json::Value;

use super::bucket::Stranger;
use super::instance::Recorded;
use super::journal::Journal;
use super::{BUCKET, SOON};

pub const GROUP: &str = "partitions";
/// Short, and longer than a busy machine stands still.
pub const LEASE: Duration = Duration::from_secs(5);

/// A member that has not started.
pub fn joining(url: &str, id: &str, group: Group) -> RoleManagerBuilder {
    RoleManager::builder()
        .servers(url)
        .bucket(BUCKET)
        .bucket_auto_create()
        .instance_id(id)
        .member(MemberConfig::default().ttl(LEASE))
        .group(group)
}

pub async fn member_with(url: &str, id: &str, group: Group) -> RoleManager {
    joining(url, id, group).start().await.expect("start")
}

pub async fn member(url: &str, id: &str, shards: u32, journal: &Journal) -> RoleManager {
    let handler = Recorded::obedient(id, journal);
    member_with(url, id, Group::sharded(GROUP, shards, handler)).await
}

pub fn group(member: &RoleManager) -> GroupHandle {
    member.group(GROUP).expect("a group")
}

/// Waits until each shard acts on one of these members. Returns how many act on each.
pub async fn all_owned(members: &[&RoleManager], shards: u32) -> BTreeMap<String, usize> {
    eventually(SOON, "an owner for each shard", async || {
        let owned = members.iter().map(|member| {
            let id = member.instance_id().to_owned();
            (id, group(member).mine().len())
        });
        let owned: BTreeMap<String, usize> = owned.collect();
        (owned.values().sum::<usize>() == shards as usize).then_some(owned)
    })
    .await
}

/// Waits until each shard acts on one of these members, and on each of them as many.
pub async fn evenly_owned(members: &[&RoleManager], shards: u32) {
    eventually(SOON, "as many shards on each", async || {
        let owned = all_owned(members, shards).await;
        let even = shards as usize / members.len();
        owned.values().all(|count| *count == even).then_some(())
    })
    .await;
}

/// A handler that waits for its end.
pub fn waits() -> impl RoleHandler {
    handler_fn(|term: Term| async move {
        term.cancelled().await;
        Ok(())
    })
}

/// The epoch of a member that lives, by its instance id. A list of keys leaves out one that is
/// written over meanwhile, so it may take more than one.
pub async fn epoch_of(stranger: &Stranger, id: &str) -> String {
    let (store, members) = (stranger.store().await, format!("_groups.{GROUP}.member."));
    eventually(SOON, "a record of the member", async || {
        let mut keys = store.keys().await.expect("keys");
        while let Some(key) = keys.try_next().await.expect("a key") {
            let Some(epoch) = key.strip_prefix(&*members) else {
                continue;
            };
            // It may be gone by now, or be rubbish.
            let message = stranger.find(&key).await;
            let record = message.and_then(|it| serde_json::from_slice::<Value>(&it.payload).ok());
            if record.is_some_and(|record| record["id"] == id) {
                return Some(epoch.to_owned());
            }
        }
        None
    })
    .await
}

pub async fn stop(member: RoleManager) {
    member.stop(StopOptions::default()).await.expect("stop");
}
