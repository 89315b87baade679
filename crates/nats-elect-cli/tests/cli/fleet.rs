//! Running instances, and what others write into their bucket.

use std::process::Command;
use std::time::Duration;

use async_nats::jetstream::kv::Store;
use async_nats::{Client, ConnectOptions};
use futures::StreamExt;
use nats_elect::{
    AdminConfig, AuthConfig, EventsConfig, FencingToken, RoleConfig, RoleHandle, RoleHandler,
    RoleManager, RoleManagerBuilder, StepDown, Term, handler_fn,
};
use nats_elect_testing::{NatsServer, eventually};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::{Ended, ended, nats_elect};

/// For things that happen soon, on a machine with much else to do.
pub const SOON: Duration = Duration::from_secs(120);
pub const ROLE: &str = "scheduler";

/// Waits until this is so.
pub async fn comes_true(what: &str, is_so: impl AsyncFn() -> bool) {
    eventually(SOON, what, async || is_so().await.then_some(())).await;
}

/// Leads until it is told to stop.
pub fn obedient() -> impl RoleHandler {
    handler_fn(|term: Term| async move {
        term.cancelled().await;
        Ok(())
    })
}

/// An instance without a role, not started yet.
pub fn manager(urls: impl Into<String>, id: &str) -> RoleManagerBuilder {
    RoleManager::builder()
        .servers(urls.into())
        .bucket_auto_create()
        .instance_id(id)
}

/// An instance with the role, not started yet.
pub fn instance(server: &NatsServer, id: &str) -> RoleManagerBuilder {
    let config = RoleConfig::default()
        .ttl(Duration::from_secs(3))
        .priority(7)
        .meta("region", "eu");
    manager(server.url(), id)
        .events(EventsConfig::default().keep(Duration::from_secs(3600)))
        .role(ROLE, config, obedient())
}

/// An instance that leads the role.
pub async fn leader(server: &NatsServer, id: &str) -> RoleManager {
    let manager = instance(server, id).start().await.expect("start");
    let handle = manager.role(ROLE).expect("the role");
    comes_true("a term", async || handle.is_leader()).await;
    manager
}

/// A server, and an instance that leads the role there.
pub async fn led() -> (NatsServer, RoleManager) {
    let server = NatsServer::start().expect("start");
    let leads = leader(&server, "node-1").await;
    (server, leads)
}

/// Hands the role over by name, as soon as the successor is ready. It may follow before it has read
/// the keys.
pub async fn hand_over(role: &RoleHandle, to: &str) {
    eventually(SOON, "a handoff", async || {
        role.step_down(StepDown::to(to)).await.ok()
    })
    .await;
}

/// An instance that answers nobody.
pub async fn silent(server: &NatsServer, id: &str) -> RoleManager {
    let silent = instance(server, id).admin(AdminConfig::off());
    silent.start().await.expect("start")
}

/// Somebody who answers a search like an instance; and whatever else it is asked with this, if with
/// anything.
pub async fn stranger(server: &NatsServer, says: Option<&'static str>) -> JoinHandle<()> {
    let client = client(server).await;
    let asked = client.subscribe("nats-elect-admin.leaders.>").await;
    let mut asked = asked.expect("subscribe");
    // `flush` only fills the socket; an echo proves that the server knows of the subscription.
    let sent = client.publish("nats-elect-admin.leaders.echo", "".into());
    sent.await.expect("sent");
    asked.next().await.expect("an echo");
    let found = serde_json::json!({
        "type": "io.nats.micro.v1.info_response",
        "name": "nats-elect",
        "id": "x",
        "version": "9.9.9\u{1b}[2J",
        "metadata": {
            "bucket": "leaders",
            "subject_prefix": "nats-elect-admin",
            "instance_id": "mute\u{9b}",
            "incarnation": "00000000-0000-0000-0000-000000000001",
        },
        "description": "",
        "endpoints": [],
    });
    tokio::spawn(async move {
        while let Some(message) = asked.next().await {
            let answer = if message.subject.ends_with("instances") {
                Some(found.to_string())
            } else {
                says.map(ToOwned::to_owned)
            };
            if let (Some(reply), Some(answer)) = (message.reply, answer) {
                let _ = client.publish(reply, answer.into()).await;
            }
        }
    })
}

/// A server with a user who may do anything, and with the observer of `deploy/nats`.
pub fn with_observer() -> NatsServer {
    let observer = include_str!("../../../../deploy/nats/observer.conf");
    let all = "users = [ { user: all, password: change-me }";
    let users = observer.replacen("users = [", all, 1);
    NatsServer::builder().config(&users).start().expect("start")
}

/// One of the users of `deploy/nats`, or `all`.
pub fn login(user: &str) -> AuthConfig {
    AuthConfig::default().user_and_password(user, "change-me")
}

/// A connection of such a user.
pub async fn client_of(server: &NatsServer, user: &str) -> Client {
    let options = ConnectOptions::with_user_and_password(user.into(), "change-me".into());
    options.connect(server.url()).await.expect("connected")
}

pub async fn client(server: &NatsServer) -> Client {
    async_nats::connect(server.url()).await.expect("connected")
}

/// The bucket; made if there is none.
pub async fn bucket(server: &NatsServer) -> Store {
    let jetstream = async_nats::jetstream::new(client(server).await);
    if let Ok(bucket) = jetstream.get_key_value("leaders").await {
        return bucket;
    }
    let config = async_nats::jetstream::kv::Config {
        bucket: "leaders".into(),
        ..Default::default()
    };
    jetstream.create_key_value(config).await.expect("a bucket")
}

/// The command, connected to this server.
pub fn at(server: &NatsServer, arguments: &[&str]) -> Command {
    let mut command = nats_elect(arguments);
    command.env("NATS_URL", server.url());
    command
}

/// What the command did.
pub fn output(server: &NatsServer, arguments: &[&str]) -> Ended {
    ended(&mut at(server, arguments))
}

/// What the command of one of the users of `deploy/nats` did.
pub fn output_as(server: &NatsServer, user: &str, arguments: &[&str]) -> Ended {
    let login = [("NATS_USER", user), ("NATS_PASSWORD", "change-me")];
    ended(at(server, arguments).envs(login))
}

/// What it told programs, line by line.
#[track_caller]
pub fn lines(ended: &Ended) -> Vec<Value> {
    ended.stdout.lines().map(json).collect()
}

/// Whether an object has all of these fields.
#[track_caller]
pub fn has(value: &Value, fields: &Value) {
    for (name, expected) in fields.as_object().expect("an object") {
        assert_eq!(value[name], *expected, "{name}: {value}");
    }
}

/// JSON of the command, in the notation of `docs/admin.md`.
#[track_caller]
pub fn json(text: &str) -> Value {
    let value = serde_json::from_str(text).expect(text);
    has_the_notation(&value);
    value
}

/// A reader of floating point numbers loses nothing, and each kind of value has its one form.
#[track_caller]
fn has_the_notation(value: &Value) {
    match value {
        Value::Number(number) if !number.is_f64() => {
            let read = number.as_f64().expect("a number");
            assert_eq!(format!("{read}"), number.to_string(), "a reader rounds it");
        }
        Value::Array(items) => items.iter().for_each(has_the_notation),
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == "fencing_token" && !value.is_null() {
                    let text = value.as_str().expect("a token is text");
                    assert!(text.parse::<FencingToken>().is_ok(), "{text}");
                }
                if name.ends_with("_seconds") {
                    assert!(value.is_number() || value.is_null(), "{name}: {value}");
                }
                // In a record, and points in time.
                let is_known = ["ttl_ms", "at_ms"].contains(&name.as_str());
                let other_unit = name.ends_with("_ms") || name.ends_with("_us");
                assert!(is_known || !other_unit, "{name}");
                has_the_notation(value);
            }
        }
        _ => {}
    }
}

/// Nothing that a terminal would act on.
#[track_caller]
pub fn harms_no_terminal(ended: &Ended) {
    for line in ended.stdout.lines().chain(ended.stderr.lines()) {
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}

/// Neither that, nor a line too long for a terminal.
#[track_caller]
pub fn is_fit_for_a_terminal(ended: &Ended) {
    harms_no_terminal(ended);
    for line in ended.stdout.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}
