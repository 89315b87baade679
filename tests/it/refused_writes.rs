//! Writes that fail while reads succeed: limits that are reached, a disk that is full.

mod slow;

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::stream::{self, StorageType};
use futures::StreamExt;
use nats_elect::{Event, FailureKind, RoleConfig, RoleManagerBuilder, Storage};
use nats_elect_testing::{NatsServer, eventually};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::full_account::{fill_account, small_account};

use crate::support::bucket::Stranger;
use crate::support::clock::Stamp;
use crate::support::instance::{
    EventLog, Instance, Joining, failure, guest, instance, is_confirmed, never,
};
use crate::support::journal::Journal;
use crate::support::{BUCKET, ROLE, SOON, comes_true, configured, leased_for, logs, ms};

async fn confirmed_after(log: &EventLog, time: Stamp) {
    log.wait_for_after(time, "a confirmed heartbeat", is_confirmed)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_is_full_for_two_seconds_ends_no_term() {
    let server = small_account();
    let stranger = Stranger::connect(&server.url()).await;
    let journal = Journal::default();
    let config = || leased_for(ms(9000)).heartbeat_interval(ms(900));
    let a = instance("a", server.url(), &journal)
        .standing(config())
        .role("network", config())
        .start()
        .await;
    journal.started(ROLE, 0).await;
    journal.started("network", 0).await;
    let heap = fill_account(&stranger.jetstream, StorageType::Memory).await;
    for role in [ROLE, "network"] {
        a.log_of(role)
            .wait_for("a refused heartbeat", failure(FailureKind::BucketFull))
            .await;
    }
    never("the end of a term", ms(2000), || {
        !a.is_leader() || !a.role("network").is_leader()
    })
    .await;
    heap.purge().await.expect("purged");
    let room = Stamp::now();
    for role in [ROLE, "network"] {
        confirmed_after(&a.log_of(role), room).await;
        assert_eq!(journal.terms(role).len(), 1, "{role}");
    }
}

/// A small disk: a file system in memory of its own, which takes the right to mount one.
struct Disk(TempDir);

impl Disk {
    fn mount() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]);
        let mounted = mount.arg(folder.path()).status().expect("mount");
        assert!(mounted.success(), "{mounted}");
        Self(folder)
    }

    fn heap(&self) -> PathBuf {
        self.0.path().join("heap")
    }

    fn fill(&self) {
        let mut heap = File::options()
            .create(true)
            .append(true)
            .open(self.heap())
            .expect("a file");
        while heap.write_all(&[b'x'; 512]).is_ok() {}
    }

    fn make_room(&self) {
        std::fs::remove_file(self.heap()).expect("removed");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // It goes when the last file in it is closed.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// What is sent to the keys of roles, stored or not.
struct Sent {
    at: Arc<Mutex<Vec<Stamp>>>,
    listening: JoinHandle<()>,
}

impl Sent {
    async fn listen(stranger: &Stranger) -> Self {
        let client = stranger.jetstream.client();
        let keys = client.subscribe(format!("$KV.{BUCKET}.*")).await;
        let mut keys = keys.expect("subscribed");
        crate::support::arrived(&client).await;
        let at = Arc::<Mutex<Vec<_>>>::default();
        let heard = Arc::clone(&at);
        let listening = tokio::spawn(async move {
            while keys.next().await.is_some() {
                heard.lock().expect("no panic").push(Stamp::now());
            }
        });
        Self { at, listening }
    }

    fn since(&self, time: Stamp) -> usize {
        let at = self.at.lock().expect("no panic");
        at.iter().filter(|at| **at >= time).count()
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Roles that nobody can claim: each is claimed once a second at most, and after the longest pause at
/// the latest.
async fn claims_are_rare(a: &Instance, sent: &Sent, roles: &[String]) {
    let (claims, took) = claims_are_few(a, sent, roles).await;
    let settings = config().settings().expect("settings");
    let pause = settings.retry.max_backoff + settings.request_timeout;
    let of_all = took * u32::try_from(roles.len()).expect("few");
    assert!(pause * claims >= of_all, "{claims}, each {pause:?}");
}

/// Roles that nobody can claim: each is claimed once a second at most. Returns how many claims there
/// were, in which time.
async fn claims_are_few(a: &Instance, sent: &Sent, roles: &[String]) -> (u32, Duration) {
    let window = Duration::from_secs(20);
    for role in roles {
        comes_true("no leader", async || !a.role(role).is_leader()).await;
    }
    let begin = Stamp::now();
    tokio::time::sleep(window).await;
    let (claims, took) = (sent.since(begin), Stamp::now().since(begin));
    eprintln!("CLAIMS {claims} of {} roles in {took:?}", roles.len());
    let few = |count: usize| u32::try_from(count).expect("few");
    let (claims, second) = (few(claims), Duration::from_secs(1));
    assert!(
        second * claims <= (took + second) * few(roles.len()),
        "{claims}"
    );
    (claims, took)
}

/// Each of two instances says at most twice what is wrong with a role, and why.
fn said_twice_at_most(roles: &[String], instances: usize, why: &[&str]) {
    let text = logs::install().text();
    let told = [
        "not confirmed",
        "no claim is confirmed",
        "failures in a row",
    ];
    let warnings: Vec<_> = text
        .lines()
        .filter(|line| line.contains(" WARN ") || line.contains("ERROR "))
        .filter(|line| told.iter().any(|told| line.contains(told)))
        .collect();
    for role in roles {
        let of_role = format!("role={role} ");
        let said = warnings.iter().filter(|line| line.contains(&of_role));
        let said: Vec<_> = said.collect();
        assert!(said.len() <= instances * 2, "{said:#?}");
        let reason = |line: &&str| why.iter().any(|why| line.contains(why));
        assert!(said.iter().any(|line| reason(line)), "{role}: {said:#?}");
    }
}

/// The roles of a test, whose names are those of no other in the log.
fn names(test: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{test}-{n}")).collect()
}

fn config() -> RoleConfig {
    leased_for(ms(5000))
}

async fn start(
    id: &str,
    server: &NatsServer,
    journal: &Journal,
    roles: &[String],
    storage: Storage,
) -> Instance {
    let joining = if storage == Storage::File {
        guest(id, server.url(), journal).with(RoleManagerBuilder::bucket_auto_create)
    } else {
        instance(id, server.url(), journal)
    };
    let joining = roles
        .iter()
        .fold(joining, |joining, role| joining.role(role, config()));
    joining.start().await
}

async fn led_again(instances: &[&Instance], roles: &[String]) {
    let room = Stamp::now();
    for role in roles {
        eventually(SOON, "a leader", async || {
            let led = instances.iter().any(|it| it.role(role).is_leader());
            led.then_some(())
        })
        .await;
    }
    eprintln!("LED AGAIN after {:?}", Stamp::now().since(room));
}

async fn a_full_account(test: &str, count: usize) {
    logs::install();
    let server = small_account();
    let stranger = Stranger::connect(&server.url()).await;
    let journal = Journal::default();
    let roles = names(test, count);
    let a = start("a", &server, &journal, &roles, Storage::Memory).await;
    let b = start("b", &server, &journal, &roles, Storage::Memory).await;
    for role in &roles {
        journal.started(role, 0).await;
    }
    let sent = Sent::listen(&stranger).await;
    let heap = fill_account(&stranger.jetstream, StorageType::Memory).await;
    claims_are_rare(&a, &sent, &roles).await;
    said_twice_at_most(&roles, 2, &["no room", "resource limits"]);
    // After ten failures in a row.
    let why = eventually(SOON, "a problem", async || {
        let ready = a.manager().probe().ready();
        let why = ready.roles[&roles[0]].problem.clone();
        why.filter(|_| !ready.ready)
    })
    .await;
    assert!(why.contains("no room"), "{why}");
    heap.purge().await.expect("purged");
    led_again(&[&a, &b], &roles).await;
    comes_true("readiness", async || a.manager().probe().ready().ready).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_in_a_full_account_is_claimed_once_a_second_at_most_and_led_when_there_is_room() {
    a_full_account("account", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_roles_in_a_full_account_are_claimed_thirty_times_a_second_at_most() {
    a_full_account("accounts", 30).await;
}

async fn a_full_disk(test: &str, count: usize) {
    logs::install();
    let disk = Disk::mount();
    let folder = disk.0.path().display();
    let mut server = NatsServer::builder()
        .without_jetstream()
        .config(&format!(
            "jetstream {{ store_dir: \"{folder}\", max_file: 1G, max_mem: 16M }}"
        ))
        .start()
        .expect("start");
    let journal = Journal::default();
    let roles = names(test, count);
    let a = start("a", &server, &journal, &roles, Storage::File).await;
    let b = start("b", &server, &journal, &roles, Storage::File).await;
    for role in &roles {
        journal.started(role, 0).await;
    }
    let stranger = Stranger::connect(&server.url()).await;
    let sent = Sent::listen(&stranger).await;
    disk.fill();
    claims_are_rare(&a, &sent, &roles).await;
    // Some servers refuse, and some do not answer.
    said_twice_at_most(&roles, 2, &["no space", "did not answer"]);
    disk.make_room();
    if server.version() >= (2, 15, 0) {
        // It stores nothing any more until it is restarted.
        server.restart().expect("restart");
    }
    led_again(&[&a, &b], &roles).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root"]
async fn a_role_on_a_full_disk_is_claimed_once_a_second_at_most_and_led_when_there_is_room() {
    a_full_disk("disk", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root"]
async fn thirty_roles_on_a_full_disk_are_claimed_thirty_times_a_second_at_most() {
    a_full_disk("disks", 30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_without_room_for_a_watch_leaves_its_roles_led() {
    logs::install();
    logs::install();
    let server = configured(
        r#"accounts { small: {
                jetstream: { max_mem: 16M, max_file: 16M, max_consumers: 1 },
                users: [{ user: "any", password: "any" }]
            } }
            no_auth_user: any"#,
    );
    let stranger = Stranger::connect(&server.url()).await;
    let other = stream::Config {
        name: "other".into(),
        subjects: vec!["other".into()],
        storage: StorageType::Memory,
        ..stream::Config::default()
    };
    let other = stranger.jetstream.create_stream(other).await.expect("made");
    let config = pull::Config {
        durable_name: Some("the-only-one".into()),
        ..pull::Config::default()
    };
    other.create_consumer(config).await.expect("made");
    let journal = Journal::default();
    let roles = names("watchless", 30);
    let a = start("a", &server, &journal, &roles, Storage::Memory).await;
    let b = start("b", &server, &journal, &roles, Storage::Memory).await;
    for role in &roles {
        journal.started(role, 0).await;
    }
    never("the end of a term", ms(10_000), || {
        roles.iter().any(|role| journal.terms(role).len() != 1)
    })
    .await;
    let began = |event: &Event| matches!(event, Event::ClaimBegan { .. });
    let claims = [&a, &b].map(|it| {
        let of_roles = roles.iter().map(|role| it.log_of(role).count(began));
        of_roles.sum::<usize>()
    });
    // Each finds out once that it was not the first.
    let [of_a, of_b] = claims;
    assert!(of_a + of_b <= roles.len() * 6, "{claims:?}");
    let text = logs::install().text();
    let said = text
        .lines()
        .filter(|line| line.contains("the watch ended") && line.contains("onsumers limit"));
    assert!(said.count() <= 4, "two instances, twice a minute at most");
    drop((a, b));
}
