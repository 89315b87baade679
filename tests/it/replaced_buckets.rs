//! Members of groups whose bucket was created anew, lost with the server's memory, or restored: no
//! unit has two owners, whatever the members were told of it.

use std::future::Future;

use futures::StreamExt;
use nats_elect::{Group, RoleManagerBuilder, Storage};
use nats_elect_testing::{NatsServer, eventually};

use crate::support::backup::Backup;
use crate::support::bucket::Stranger;
use crate::support::child::{ChildInstance, Orders};
use crate::support::clock::Stamp;
use crate::support::instance::Recorded;
use crate::support::journal::{Journal, RecordedTerm};
use crate::support::member::{
    GROUP, LEASE, all_owned, epoch_of, evenly_owned, joining, member, stop,
};
use crate::support::{BUCKET, SOON, logs, ms, proxied, served};

const SHARDS: u32 = 4;
/// Rounds that run at one time.
const ROUNDS_AT_ONCE: usize = 4;

/// What becomes of the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// It is deleted, and an instance makes it again.
    Deleted,
    /// The server that had it in memory restarts.
    Restarted,
    /// It is deleted, and a backup from before the other member joined is restored.
    Restored,
}

impl Replaced {
    /// A server keeps no copy of what is in its memory alone.
    pub fn storage(self) -> Storage {
        match self {
            Self::Restored => Storage::File,
            Self::Deleted | Self::Restarted => Storage::Memory,
        }
    }

    pub async fn backup(self, stranger: &Stranger) -> Option<Backup> {
        match self {
            Self::Restored => Some(Backup::of(stranger).await),
            Self::Deleted | Self::Restarted => None,
        }
    }

    /// Has it happen.
    pub async fn happen(
        self,
        server: &mut NatsServer,
        stranger: &Stranger,
        backup: Option<Backup>,
    ) {
        if self == Self::Restarted {
            server.terminate().expect("ended");
            return server.restart().expect("started again");
        }
        stranger.delete_bucket().await;
        if let Some(backup) = backup {
            backup.restore(stranger).await;
        }
    }
}

/// What one of the members suffers meanwhile.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Nothing,
    /// What it sends and what it is sent is held back.
    CutOff,
    /// Its connection breaks, and it reconnects a while later.
    Reconnects,
}

fn joins(url: &str, id: &str, storage: Storage, journal: &Journal) -> RoleManagerBuilder {
    let handler = Recorded::obedient(id, journal);
    joining(url, id, Group::sharded(GROUP, SHARDS, handler)).storage(storage)
}

/// Waits until `b` is a member of the new bucket.
async fn takes_part_again(stranger: &Stranger, former: &str) {
    eventually(SOON, "a member of the new bucket", async || {
        // It may not be there yet.
        stranger.jetstream.get_key_value(BUCKET).await.ok()?;
        (epoch_of(stranger, "b").await != former).then_some(())
    })
    .await;
}

/// Two members share the units, one suffers the fault, and the bucket is replaced. Returns how many
/// units had two owners at one time before the terms of that one were over.
async fn overlaps(replaced: Replaced, fault: Fault) -> usize {
    let (mut server, proxy, journal) = proxied();
    let stranger = Stranger::connect(&server.url()).await;
    journal.allow_overlaps();
    let storage = replaced.storage();
    let b = joins(&server.url(), "b", storage, &journal).start().await;
    let b = b.expect("start");
    all_owned(&[&b], SHARDS).await;
    let backup = replaced.backup(&stranger).await;
    let a = joins(&proxy.url(), "a", storage, &journal).start().await;
    let a = a.expect("start");
    evenly_owned(&[&a, &b], SHARDS).await;
    let former = epoch_of(&stranger, "b").await;
    match fault {
        Fault::Nothing => {}
        Fault::CutOff => proxy.black_hole(),
        Fault::Reconnects => proxy.cut(),
    }
    let replaced_at = Stamp::now();
    replaced.happen(&mut server, &stranger, backup).await;
    // It takes part in the new bucket before the other one learns of that.
    takes_part_again(&stranger, &former).await;
    if matches!(fault, Fault::Reconnects) {
        tokio::time::sleep(ms(500)).await;
        proxy.restore();
    }
    let shards = || (0..SHARDS).map(|number| format!("{GROUP}/{number}"));
    eventually(
        SOON,
        "the end of all terms of the former bucket",
        async || {
            let all = || shards().flat_map(|shard| journal.terms(&shard));
            let is_over = |term: &RecordedTerm| {
                term.instance != "a" || term.end.is_some() || replaced_at < term.start
            };
            all().all(|term| is_over(&term)).then_some(())
        },
    )
    .await;
    let crowded = shards().filter(|shard| {
        let terms = journal.terms(shard);
        let mut pairs = terms.iter().zip(terms.iter().skip(1));
        pairs.any(|(before, after)| before.end.is_none_or(|end| after.start < end))
    });
    let crowded = crowded.count();
    drop((a, b));
    crowded
}

/// The same with a member that is stopped for a while like a process in a debugger.
async fn overlaps_when_paused() -> usize {
    let (server, journal) = served();
    let stranger = Stranger::connect(&server.url()).await;
    journal.allow_overlaps();
    let mut orders = Orders::new("a", server.url(), LEASE);
    orders.is_member = true;
    let a = ChildInstance::start(&orders, &journal);
    let shard = format!("{GROUP}/0");
    journal.started(&shard, 0).await;
    let handler = Recorded::obedient("b", &journal);
    let b = joining(&server.url(), "b", Group::sharded(GROUP, 1, handler));
    let b = b.storage(Storage::Memory).start().await.expect("start");
    let former = epoch_of(&stranger, "b").await;
    a.pause();
    stranger.delete_bucket().await;
    takes_part_again(&stranger, &former).await;
    tokio::time::sleep(LEASE / 2).await;
    a.resume();
    let old = journal.ended(&shard, 0).await;
    let terms = journal.terms(&shard);
    let crowded = terms.iter().skip(1).any(|it| it.start < old.end());
    drop(b);
    usize::from(crowded)
}

async fn none(overlaps: impl Future<Output = usize>) {
    assert_eq!(overlaps.await, 0, "units with two owners");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_unit_of_a_recreated_bucket_is_owned_while_a_member_that_is_cut_off_acts_on_it() {
    Box::pin(none(overlaps(Replaced::Deleted, Fault::CutOff))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_unit_of_a_recreated_bucket_is_owned_while_a_member_that_reconnects_late_acts_on_it() {
    Box::pin(none(overlaps(Replaced::Deleted, Fault::Reconnects))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_unit_of_a_recreated_bucket_is_owned_while_a_member_that_was_paused_acts_on_it() {
    Box::pin(none(overlaps_when_paused())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_unit_has_two_owners_after_a_restart_that_lost_the_bucket() {
    Box::pin(none(overlaps(Replaced::Restarted, Fault::Nothing))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_unit_has_two_owners_after_a_restart_that_lost_the_bucket_of_a_member_that_is_cut_off() {
    Box::pin(none(overlaps(Replaced::Restarted, Fault::CutOff))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_unit_of_a_restored_bucket_is_owned_while_a_member_that_is_cut_off_acts_on_it() {
    Box::pin(none(overlaps(Replaced::Restored, Fault::CutOff))).await;
}

/// The watch that falls silent would tell it later. A process that starts in the new bucket waits for
/// nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_tells_a_member_that_its_bucket_was_replaced() {
    let logs = logs::install();
    let (server, journal) = served();
    let id = "logged-heartbeat";
    let a = member(&server.url(), id, SHARDS, &journal).await;
    all_owned(&[&a], SHARDS).await;
    let stranger = Stranger::connect(&server.url()).await;
    stranger.replace_bucket().await;
    for shard in 0..SHARDS {
        journal.ended(&format!("{GROUP}/{shard}"), 0).await;
    }
    let text = logs.text();
    let told = text.lines().filter(|line| line.contains(id));
    let troubles: Vec<_> = told.filter(|line| line.contains("is in trouble")).collect();
    assert!(troubles.is_empty(), "{troubles:?}");
    stop(a).await;
}

/// Rounds of each kind, to count how often a unit has two owners.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: NATS_ELECT_REPLACED_ROUNDS says how many rounds of each kind"]
async fn many_replaced_buckets_give_no_unit_two_owners() {
    let rounds = std::env::var("NATS_ELECT_REPLACED_ROUNDS");
    let rounds: usize = rounds.map_or(1, |it| it.parse().expect("a number"));
    let mut found = 0;
    for replaced in [Replaced::Deleted, Replaced::Restarted, Replaced::Restored] {
        for fault in [Fault::Nothing, Fault::CutOff, Fault::Reconnects] {
            let round = || overlaps(replaced, fault);
            found += count(&format!("{replaced:?} {fault:?}"), rounds, round).await;
        }
    }
    found += count("Deleted Paused", rounds, overlaps_when_paused).await;
    assert_eq!(found, 0, "units with two owners");
}

async fn count<F: Future<Output = usize>>(
    kind: &str,
    rounds: usize,
    round: impl Fn() -> F,
) -> usize {
    let all = futures::stream::iter((0..rounds).map(|_| round()));
    let all: Vec<usize> = all.buffer_unordered(ROUNDS_AT_ONCE).collect().await;
    let crowded: Vec<usize> = all.into_iter().filter(|units| *units > 0).collect();
    let (bad, units) = (crowded.len(), crowded.iter().sum::<usize>());
    eprintln!("REPLACED {kind}: {bad} of {rounds} rounds with two owners, {units} units");
    units
}
