//! Clients write and read while instances leave and join.

use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::body::to_bytes;
use axum::http::StatusCode;
use nats_elect::{FencingToken, Group, GroupHandle, MemberConfig, RoleManager, StopOptions};
use nats_elect_testing::{NatsServer, eventually};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::GROUP;
use crate::owned::{Access, Operation, Owned};
use crate::routing::{OWNER, Service, send};

const SHARDS: u32 = 12;
const CLIENTS: usize = 8;
const SOON: Duration = Duration::from_secs(60);

/// An instance. Its HTTP side goes on when it has left the group.
struct Instance {
    address: String,
    manager: RoleManager,
}

impl Instance {
    async fn start(server: &NatsServer, log: &UnboundedSender<Access>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let owned = Owned::new(&address, log.clone());
        let manager = RoleManager::builder()
            .servers(server.url())
            .bucket("routing")
            .bucket_auto_create()
            .instance_id(&address)
            .member(MemberConfig::default().ttl(Duration::from_secs(3)))
            .group(Group::sharded(GROUP, SHARDS, owned.clone()))
            .start()
            .await
            .expect("start");
        let group = manager.group(GROUP).expect("a group");
        // Before that nobody can give it anything, so no other instance may leave.
        group.wait_until(GroupHandle::has_joined).await;
        let service = Service::new(group, owned);
        tokio::spawn(axum::serve(listener, service.routes()).into_future());
        Self { address, manager }
    }

    fn group(&self) -> GroupHandle {
        self.manager.group(GROUP).expect("a group")
    }

    async fn leave(&self) {
        let stopped = self.manager.stop(StopOptions::default()).await;
        stopped.expect("a graceful stop");
    }
}

/// Waits until these instances own all shards, and each of them some. Then they know each other, and
/// one that leaves gives its shards to the others. It never learns who takes what nobody was given.
async fn all_owned(instances: &[&Instance]) {
    eventually(SOON, "an owner for each shard", async || {
        let owned = instances.iter().map(|it| it.group().mine().len());
        let owned: Vec<usize> = owned.collect();
        let all = owned.iter().sum::<usize>() == SHARDS as usize;
        (all && !owned.contains(&0)).then_some(())
    })
    .await;
}

async fn ask(address: &str, operation: &Operation) -> (StatusCode, String) {
    let request = operation.request(address).expect("a request");
    let answer = send(address, request).await.expect("an answer");
    let status = answer.status();
    let body = to_bytes(answer.into_body(), 1024).await.expect("a body");
    (status, String::from_utf8_lossy(&body).into_owned())
}

/// One key with its writer and its reader.
struct Client {
    key: String,
    addresses: Vec<String>,
    /// The last number that was confirmed.
    confirmed: AtomicU64,
    done: Arc<AtomicBool>,
}

impl Client {
    /// Writes number after number, to one instance after the other. Each must succeed at once.
    async fn write(&self) {
        let mut number = 0;
        while !self.done.load(Ordering::Relaxed) {
            for address in &self.addresses {
                number += 1;
                let operation = Operation {
                    key: self.key.clone(),
                    put: Some((number, "x".into())),
                };
                let answer = ask(address, &operation).await;
                assert_eq!(answer, (StatusCode::OK, format!("{number} x")));
                self.confirmed.store(number, Ordering::SeqCst);
            }
        }
    }

    /// Reads from one instance after the other. No answer is older than what was confirmed before
    /// it was asked for.
    async fn read(&self) {
        while !self.done.load(Ordering::Relaxed) {
            for address in &self.addresses {
                let least = self.confirmed.load(Ordering::SeqCst);
                let read = self.last(address).await;
                assert!(read >= least, "{}: {read} after {least}", self.key);
            }
        }
    }

    async fn last(&self, address: &str) -> u64 {
        let key = self.key.clone();
        let (status, value) = ask(address, &Operation { key, put: None }).await;
        if status == StatusCode::NOT_FOUND {
            return 0;
        }
        assert_eq!(status, StatusCode::OK, "{value}");
        let number = value.split(' ').next().expect("a number");
        number.parse().expect("a number")
    }
}

/// Checks that nobody began to serve a key while another instance served it. The lines are in the
/// order of what happened: each is written before its request is carried out, or after.
fn check_log(mut log: UnboundedReceiver<Access>) -> usize {
    let mut serving: BTreeMap<String, (String, usize)> = BTreeMap::new();
    let mut tokens: BTreeMap<String, FencingToken> = BTreeMap::new();
    let mut owners = 0;
    while let Ok(access) = log.try_recv() {
        match access {
            Access::Began {
                instance,
                key,
                token,
            } => {
                let now = serving.entry(key.clone()).or_default();
                assert!(
                    now.1 == 0 || now.0 == instance,
                    "{instance} served {key} beside {}",
                    now.0
                );
                *now = (instance, now.1 + 1);
                let before = tokens.insert(key, token);
                assert!(before.is_none_or(|before| before <= token));
                owners += usize::from(before.is_none_or(|before| before < token));
            }
            Access::Ended { instance, key } => {
                let now = serving.get_mut(&key).expect("a begin");
                assert_eq!(now.0, instance);
                now.1 -= 1;
            }
        }
    }
    owners
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_lost_and_no_key_has_two_owners_while_instances_leave() {
    let server = NatsServer::start().expect("start");
    let (log, accesses) = unbounded_channel();
    let a = Instance::start(&server, &log).await;
    let b = Instance::start(&server, &log).await;
    let c = Instance::start(&server, &log).await;
    all_owned(&[&a, &b, &c]).await;

    let done = Arc::<AtomicBool>::default();
    let addresses = [&a, &b, &c].map(|it| it.address.clone()).to_vec();
    let clients = (0..CLIENTS).map(|number| {
        Arc::new(Client {
            key: format!("key-{number}"),
            addresses: addresses.clone(),
            confirmed: AtomicU64::new(0),
            done: Arc::clone(&done),
        })
    });
    let clients: Vec<_> = clients.collect();
    let mut tasks = Vec::new();
    for client in &clients {
        let (writes, reads) = (Arc::clone(client), Arc::clone(client));
        tasks.push(tokio::spawn(async move { writes.write().await }));
        tasks.push(tokio::spawn(async move { reads.read().await }));
    }
    let more = async || {
        let before: Vec<u64> = confirmed(&clients);
        eventually(SOON, "more writes of each client", async || {
            let all = confirmed(&clients).into_iter().zip(&before);
            all.into_iter()
                .all(|(now, before)| now > before + 10)
                .then_some(())
        })
        .await;
    };
    more().await;
    a.leave().await;
    all_owned(&[&b, &c]).await;
    more().await;
    b.leave().await;
    all_owned(&[&c]).await;
    more().await;
    let d = Instance::start(&server, &log).await;
    all_owned(&[&c, &d]).await;
    c.leave().await;
    all_owned(&[&d]).await;
    more().await;
    done.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("a client");
    }
    for client in &clients {
        let stands = client.last(&d.address).await;
        assert_eq!(stands, client.confirmed.load(Ordering::SeqCst));
    }
    assert!(check_log(accesses) > CLIENTS, "no key ever moved");
    d.leave().await;
}

fn confirmed(clients: &[Arc<Client>]) -> Vec<u64> {
    let confirmed = clients.iter().map(|it| it.confirmed.load(Ordering::SeqCst));
    confirmed.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_is_not_the_owner_tells_a_peer_who_is() {
    let server = NatsServer::start().expect("start");
    let (log, _accesses) = unbounded_channel();
    let a = Instance::start(&server, &log).await;
    let b = Instance::start(&server, &log).await;
    all_owned(&[&a, &b]).await;
    let known = |owner: &str, group: GroupHandle| {
        (0..1000).map(|number| format!("key-{number}")).find(|key| {
            let (_, known) = group.owner_of(key).expect("a shard");
            known.is_some_and(|known| known.instance_id == owner)
        })
    };
    let key = eventually(SOON, "a key of one, known to the other", async || {
        known(&b.address, a.group()).or_else(|| known(&a.address, a.group()))
    })
    .await;
    let (_, owner) = a.group().owner_of(&key).expect("a shard");
    let owner = owner.expect("an owner").instance_id;
    let other = if owner == a.address { &b } else { &a };
    let (shard, _) = a.group().owner_of(&key).expect("a shard");
    let sees = |group: &GroupHandle| {
        let seen = group.owner(&shard.to_string());
        seen.is_some_and(|seen| seen.instance_id == owner)
    };
    other.group().wait_until(sees).await;
    let operation = Operation { key, put: None };
    let mut request = operation.request(&other.address).expect("a request");
    let routed = "somebody".parse().expect("a header");
    request.headers_mut().insert("x-routed-by", routed);
    let answer = send(&other.address, request).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::MISDIRECTED_REQUEST);
    assert_eq!(answer.headers()[OWNER], owner.as_str());
    a.leave().await;
    b.leave().await;
}
