//! The store against real servers, of the version that `NATS_SERVER_BIN` names. The tests also
//! assert the limitations of versions before 2.12.

mod asking;
mod assignment;
mod bucket;
mod denied;
mod fence;
mod fenced;
mod fenced_race;
mod many;
mod poison;

mod watch;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::kv::Store;
use async_nats::{Client, jetstream};
use uuid::Uuid;

use super::{Bucket, BucketInfo, IfMissing, StoreError};
use crate::model::config::Storage;
use nats_elect_core::heirs::Heirs;
use nats_elect_core::name::{BucketName, RoleName};
use nats_elect_core::record::Snapshot;
use nats_elect_core::record::{FenceRecord, Nonce, Record, Release};
use nats_elect_core::release::ReleaseSecret;
use nats_elect_core::token::LeaseToken;
use nats_elect_testing::{NatsServer, eventually};

/// A generous timeout. Only operations that are meant to time out wait for it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);
const BATCHES: (u64, u64, u64) = (2, 12, 0);

/// The secret of every term.
const SECRET: ReleaseSecret = ReleaseSecret::new(0x5ec_2e7);

const CREATE: IfMissing = IfMissing::Create {
    replicas: 1,
    storage: Storage::File,
};

/// A server, a connection, and a bucket that the crate created.
struct Lab {
    server: NatsServer,
    client: Client,
    bucket: Bucket,
    info: BucketInfo,
}

impl Lab {
    async fn new() -> Self {
        Self::on(NatsServer::start().unwrap()).await
    }

    async fn on(server: NatsServer) -> Self {
        let client = connect(&server).await;
        let (bucket, info) = open(&client, CREATE).await.unwrap();
        Self {
            server,
            client,
            bucket,
            info,
        }
    }

    fn is_at_least(&self, version: (u64, u64, u64)) -> bool {
        self.server.version() >= version
    }

    /// The bucket as other Key-Value clients see it.
    async fn kv(&self) -> Store {
        let context = jetstream::new(self.client.clone());
        context.get_key_value("leaders").await.unwrap()
    }

    /// Lets Key-Value clients purge keys, which buckets of ours forbid.
    async fn allow_purges(&self) {
        let context = jetstream::new(self.client.clone());
        let stream = context.get_stream("KV_leaders").await.unwrap();
        let mut config = stream.cached_info().config.clone();
        config.allow_rollup = true;
        context.update_stream(config).await.unwrap();
    }

    async fn put_record(&self, name: &RoleName, over: u64, beat: u64) -> Result<u64, StoreError> {
        let record = record(beat);
        self.bucket.put_record(name, over, &record, TIMEOUT).await
    }

    async fn release(&self, name: &RoleName, over: u64, beat: u64) -> Result<u64, StoreError> {
        let release = release(beat);
        self.bucket.release(name, over, &release, TIMEOUT).await
    }

    async fn fence(&self, name: &RoleName, over: u64, beat: u64) -> Result<u64, StoreError> {
        let fence = fence_record(beat);
        self.bucket.fence(name, over, &fence, TIMEOUT).await
    }

    async fn read(&self, name: &RoleName) -> Snapshot {
        self.bucket.snapshot(name, TIMEOUT).await.unwrap()
    }

    /// Returns the names of a role's data.
    async fn data_keys(&self, name: &RoleName) -> Vec<String> {
        let owner = name.clone().into();
        self.bucket.data_keys(&owner, TIMEOUT).await.unwrap()
    }

    /// Returns the sequences of the role's key and of its fence key; 0 where there is none.
    async fn keys(&self, name: &RoleName) -> (u64, u64) {
        let keys = self.read(name).await;
        (
            keys.role.map_or(0, |entry| entry.revision),
            keys.fence.map_or(0, |entry| entry.revision),
        )
    }
}

async fn connect(server: &NatsServer) -> Client {
    async_nats::connect(server.url()).await.unwrap()
}

async fn open(client: &Client, if_missing: IfMissing) -> Result<(Bucket, BucketInfo), StoreError> {
    let name = BucketName::new("leaders").unwrap();
    Bucket::open(client.clone(), Arc::default(), &name, if_missing, TIMEOUT).await
}

/// A bucket on all three nodes of a cluster.
async fn replicated(client: &Client) -> (Bucket, BucketInfo) {
    let missing = IfMissing::Create {
        replicas: 3,
        storage: Storage::File,
    };
    // A cluster that has just begun may forget a request as its leader moves.
    eventually(TIMEOUT, "a bucket", async || {
        open(client, missing).await.ok()
    })
    .await
}

fn role(name: &str) -> RoleName {
    RoleName::new(name).unwrap()
}

fn release(beat: u64) -> Release {
    Release {
        nonce: Some(nonce(beat)),
        secret: Some(SECRET),
        ..Release::default()
    }
}

fn nonce(beat: u64) -> Nonce {
    Nonce {
        incarnation: Uuid::from_u128(1),
        beat,
    }
}

fn record(beat: u64) -> Record {
    Record {
        id: "node-1".into(),
        token: LeaseToken::new(Uuid::from_u128(7)),
        priority: 0,
        meta: BTreeMap::new(),
        ttl: Duration::from_secs(15),
        nonce: nonce(beat),
        release: SECRET.hash(),
        heirs: Heirs::NONE,
        proof: None,
        application: None,
    }
}

fn fence_record(beat: u64) -> FenceRecord {
    FenceRecord {
        id: "node-1".into(),
        ttl: Duration::from_secs(15),
        nonce: nonce(beat),
        release: SECRET.hash(),
    }
}

fn conflict(current: u64) -> StoreError {
    StoreError::Conflict {
        current: Some(current),
    }
}
