//! Releases that the leader did not write, while it is cut off and goes on within its lease: nobody
//! else leads before that has passed.
//!
//! Each attack is made on a bucket that allows direct gets and on one that does not, and prints a
//! line `FORGED <what> …`.

use async_nats::jetstream::kv;
use async_nats::jetstream::stream::{Config, StorageType};
use async_nats::{Client, ConnectOptions, HeaderMap};
use nats_elect_testing::{NatsServer, TcpProxy};
use serde_json::{Value, json};

use crate::support::bucket::{Stranger, marker_of};
use crate::support::clock::Stamp;
use crate::support::instance::{Instance, guest, instance};
use crate::support::journal::Journal;
use crate::support::sentry::Sentry;
use crate::support::{BUCKET, ROLE, comes_true, configured, leased_for, ms, recovered};

const TTL: std::time::Duration = ms(5000);
/// What a loaded machine may add to the bounds of the protocol.
const SLACK: std::time::Duration = ms(5000);

/// A secret that anybody may know, and its SHA-256.
const SECRET: &str = "00000000000000000000000000000000";
const ITS_HASH: &str = "374708fff7719dd5979ec875d56cd2286f6d3cf7ec317a3b25632aab28ec37bb";

/// `direct` asks for direct gets of a stream of its own, and reads the bucket.
const USERS: &str = r#"authorization { users = [
  { user: all, password: p }
  { user: direct, password: p, permissions: {
      publish: [ "loot.>", "$JS.API.DIRECT.GET.loot", "$JS.API.STREAM.MSG.GET.KV_leaders", "$JS.API.STREAM.INFO.*" ]
      subscribe: "_INBOX.>" } }
] }
"#;

/// A leader `a` that is to be cut off without knowing it, a follower `b`, and the marker by which an
/// earlier term was released.
struct Scene {
    journal: Journal,
    sentry: Sentry,
    a: Instance,
    b: Instance,
    earlier: HeaderMap,
    cut: Stamp,
    proxy: TcpProxy,
    server: NatsServer,
}

impl Scene {
    async fn set(allow_direct: bool) -> Self {
        let server = configured(USERS);
        let proxy = TcpProxy::start(server.url()).expect("start a proxy");
        let all = Stranger::of(connect(&server, "all").await);
        if allow_direct {
            all.make_bucket(kv::Config::default()).await;
        }
        let journal = Journal::default();
        let config = leased_for(TTL);
        let earlier = instance("earlier", server.url(), &journal)
            .user("all", "p")
            .standing(config.clone())
            .start()
            .await;
        let settings = all.stream().await.cached_info().config.clone();
        assert_eq!(settings.allow_direct, allow_direct);
        journal.started(ROLE, 0).await;
        earlier.stop().await;
        let mut earlier = HeaderMap::new();
        for (name, values) in all.message().await.headers.iter() {
            // The conditions of that write are none of the marker's.
            let name: &str = name.as_ref();
            if !name.starts_with("Nats-Expected") {
                earlier.insert(name, values[0].clone());
            }
        }
        assert_eq!(marker_of(&earlier), Some("DEL"));

        let join = |id, url| {
            guest(id, url, &journal)
                .user("all", "p")
                .standing(config.clone())
        };
        let a = join("a", proxy.url()).start().await;
        journal.started(ROLE, 1).await;
        let b = join("b", server.url()).start().await;
        b.wait_until_following("a").await;
        let sentry = Sentry::of(vec![a.role(ROLE), b.role(ROLE)]);
        Self {
            journal,
            sentry,
            a,
            b,
            earlier,
            cut: Stamp::now(),
            proxy,
            server,
        }
    }

    /// Cuts the leader off. The attacker has all that it needs by then: its attack is to take less than
    /// a lease.
    async fn attacker(&mut self) -> Attacker {
        let all = async_nats::jetstream::new(connect(&self.server, "all").await);
        let loot = Config {
            name: "loot".into(),
            subjects: vec!["loot.>".into()],
            storage: StorageType::Memory,
            allow_direct: true,
            allow_rollup: true,
            ..Default::default()
        };
        all.create_stream(loot).await.expect("a stream of its own");
        let client = connect(&self.server, "direct").await;
        let bucket = Stranger::of(client.clone());
        bucket.record().await;
        self.proxy.black_hole();
        self.cut = Stamp::now();
        Attacker {
            record: bucket.record().await,
            fence: bucket.record_of(&format!("_fence.{ROLE}")).await,
            earlier: self.earlier.clone(),
            bucket,
            client,
        }
    }

    /// Waits for the next leader: not before the lease that was cut off has passed, and not much
    /// later than it may take.
    async fn survive(self, what: &str, allow_direct: bool) {
        let next = self.journal.started(ROLE, 2).await;
        self.b.wait_until_leader().await;
        comes_true("the end of what was cut off", async || !self.a.is_leader()).await;
        let watched = self.sentry.end();
        let after = next.start.since(self.cut);
        eprintln!(
            "FORGED {what} allow_direct={allow_direct} overlap_ms={} rounds={} of {} next_leader_after_ms={}",
            watched.overlap.as_millis(),
            watched.rounds_with_two,
            watched.rounds_with_any,
            after.as_millis()
        );
        assert_eq!(watched.rounds_with_two, 0, "two leaders: {watched:?}");
        assert!(watched.rounds_with_any > 0, "nobody was asked");
        assert_eq!(next.instance, "b");
        // A marker, or a value, of whoever it may be is waited for as a lease is.
        assert!(after <= TTL * 2 + SLACK, "{after:?}");
        recovered("forged_release", TTL, self.cut, &next);
        self.proxy.restore();
        self.a.wait_until_following("b").await;
    }
}

async fn connect(server: &NatsServer, user: &str) -> Client {
    let options = ConnectOptions::with_user_and_password(user.into(), "p".into());
    options.connect(server.url()).await.expect("connect")
}

struct Attacker {
    /// The leader's record and fence record.
    record: Value,
    fence: Value,
    /// The headers by which an earlier term was released.
    earlier: HeaderMap,
    bucket: Stranger,
    client: Client,
}

impl Attacker {
    /// What the leader itself would write to free its role, but for its secret.
    fn release(&self) -> HeaderMap {
        let text = |field: &str| self.record[field].to_string().replace('"', "");
        let nonce = format!("{}:{}", text("incarnation"), text("beat"));
        let mut headers = HeaderMap::new();
        headers.insert("KV-Operation", "DEL");
        headers.insert("Nats-Elect-Release", nonce.as_str());
        headers
    }

    fn release_with(&self, secret: &str) -> HeaderMap {
        let mut headers = self.release();
        headers.insert("Nats-Elect-Release-Secret", secret);
        headers
    }

    /// Has this message stored under a key of the bucket: the server stores its answer to a direct
    /// get under the key that was named as the reply.
    async fn write(&self, key: &str, headers: HeaderMap, value: &[u8]) {
        let key = format!("$KV.{BUCKET}.{key}");
        let value = value.to_vec().into();
        let jetstream = &self.bucket.jetstream;
        let stored = jetstream.publish_with_headers("loot.x", headers, value);
        let stored = stored.await.expect("published").await.expect("stored");
        let get = json!({ "seq": stored.sequence }).to_string();
        let asked = self
            .client
            .publish_with_reply("$JS.API.DIRECT.GET.loot", key, get.into());
        asked.await.expect("published");
    }

    async fn write_release(&self, headers: HeaderMap) {
        let before = self.bucket.message().await.sequence;
        self.write(ROLE, headers, b"").await;
        // Somebody who believes it may have claimed the role by then.
        comes_true("what it wrote", async || {
            self.bucket.message().await.sequence > before
        })
        .await;
    }

    async fn write_fence(&self, fence: &Value) {
        let key = format!("_fence.{ROLE}");
        let value = fence.to_string();
        self.write(&key, HeaderMap::new(), value.as_bytes()).await;
        comes_true("what it wrote", async || {
            self.bucket.record_of(&key).await == *fence
        })
        .await;
    }
}

/// With two buckets at once.
async fn makes_no_second_leader(what: &str, attack: impl AsyncFn(&Attacker)) {
    let on = async |allow_direct: bool| {
        let mut scene = Scene::set(allow_direct).await;
        let attacker = scene.attacker().await;
        attack(&attacker).await;
        assert!(scene.a.is_leader(), "the machine is too slow for this");
        scene.survive(what, allow_direct).await;
    };
    futures::join!(Box::pin(on(false)), Box::pin(on(true)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_forged_by_a_direct_get_makes_no_second_leader() {
    makes_no_second_leader("by-direct-get", async |attacker| {
        attacker.write_release(attacker.release()).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_secret_of_an_earlier_term_frees_no_later_one() {
    makes_no_second_leader("earlier-secret", async |attacker| {
        let mut headers = attacker.earlier.clone();
        let of_this_term = attacker.release();
        let nonce = of_this_term.get("Nats-Elect-Release").expect("set");
        headers.insert("Nats-Elect-Release", nonce.clone());
        attacker.write_release(headers).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fence_record_that_was_changed_vouches_for_no_release() {
    makes_no_second_leader("changed-fence", async |attacker| {
        let mut fence = attacker.fence.clone();
        fence["release"] = ITS_HASH.into();
        attacker.write_fence(&fence).await;
        attacker.write_release(attacker.release_with(SECRET)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_term_that_was_made_up_frees_no_other() {
    makes_no_second_leader("made-up-term", async |attacker| {
        let (mut record, mut fence) = (attacker.record.clone(), attacker.fence.clone());
        let beat = record["beat"].as_u64().expect("a number") + 1;
        for value in [&mut record, &mut fence] {
            value["beat"] = beat.into();
            value["release"] = ITS_HASH.into();
        }
        let value = record.to_string();
        attacker
            .write(ROLE, HeaderMap::new(), value.as_bytes())
            .await;
        attacker.write_fence(&fence).await;
        let mut headers = attacker.release_with(SECRET);
        let incarnation = record["incarnation"].as_str().expect("it");
        headers.insert("Nats-Elect-Release", format!("{incarnation}:{beat}"));
        attacker.write_release(headers).await;
    })
    .await;
}
