//! What the tests share.

pub mod apart;
pub mod backup;
pub mod bucket;
#[allow(dead_code, reason = "notes serve the tests in `src/tests`")]
pub mod child;
pub mod clock;
pub mod credentials;
pub mod dashboard;
pub mod foreign;
pub mod instance;
pub mod journal;
pub mod logs;
pub mod member;
pub mod onlooker;
pub mod operator;
pub mod raw;
pub mod sentry;
pub mod stage;
pub mod user;

use std::time::Duration;

use nats_elect::RoleConfig;
use nats_elect_testing::{NatsServer, TcpProxy, eventually};

use self::clock::Stamp;
use self::journal::{Journal, RecordedTerm};

/// How long a test waits for what must happen. It says nothing about how fast it should.
pub const SOON: Duration = Duration::from_secs(30);

/// The bucket and the role of tests that need no others.
pub const BUCKET: &str = "leaders";
pub const ROLE: &str = "scheduler";

/// Waits until the server has taken what this client has sent, above all its subscriptions: the
/// server takes it in its order. `flush` only hands it to the system.
pub async fn arrived(client: &async_nats::Client) {
    let answered = client.request("$JS.API.INFO", "".into()).await;
    answered.expect("an answer");
}

/// A server with this configuration.
pub fn configured(config: &str) -> NatsServer {
    let server = NatsServer::builder().config(config).start();
    server.expect("a server")
}

/// A server of its own for one test, and an empty journal.
pub fn served() -> (NatsServer, Journal) {
    let server = NatsServer::start().expect("a server");
    (server, Journal::default())
}

/// The same, with a proxy before the server.
pub fn proxied() -> (NatsServer, TcpProxy, Journal) {
    let (server, journal) = served();
    let proxy = TcpProxy::start(server.url()).expect("a proxy");
    (server, proxy, journal)
}

/// Waits until this is so.
pub async fn comes_true(what: &str, is_so: impl AsyncFn() -> bool) {
    eventually(SOON, what, async || is_so().await.then_some(())).await;
}

/// Panics as the test wants. It prints no backtrace: to look its names up takes a busy machine
/// longer than a lease, and holds up what runs on the same thread.
pub fn panic_as_wanted() -> ! {
    std::panic::resume_unwind(Box::new("as the test wants"))
}

/// A lease that ends soon, everything else derived from it.
pub fn leased_for(ttl: Duration) -> RoleConfig {
    RoleConfig::default().ttl(ttl)
}

/// Neither the lease nor a question to another instance ends while a busy machine stands still for
/// a moment.
pub fn patient() -> RoleConfig {
    leased_for(ms(15_000))
        .heartbeat_interval(ms(3000))
        .cooldown(ms(4000))
}

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Tells how long a role was without a leader.
pub fn recovered(test: &str, ttl: Duration, fault: Stamp, next: &RecordedTerm) {
    let after = next.start.since(fault);
    eprintln!(
        "RECOVERED {test} ttl={} after={}",
        ttl.as_millis(),
        after.as_millis()
    );
}
