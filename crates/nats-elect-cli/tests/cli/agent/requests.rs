//! What the agent answers.

use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use nats_elect_testing::{NatsServer, eventually};
use serde_json::json;

use crate::agent::client::{Client, Stream};
use crate::agent::running::{Agent, agent};
use crate::ended;
use crate::fleet::SOON;
use crate::running::{Process, Teller};

const ROLE: &str = "[roles.worker]\nttl = \"10m\"\nstop_budget = \"2s\"\n";
/// Its promises outlast any pause of a busy machine.
const LASTING: &str = "[roles.worker]\nttl = \"10m\"\nstop_budget = \"40s\"\n";

/// An agent whose application has just been promoted, and the path of its term.
async fn leading(config: &str) -> (NatsServer, Agent, Stream, String) {
    let server = NatsServer::start().expect("a server");
    let agent = Agent::start_with(&server, "a", config, &[]).await;
    let mut stream = agent.client().stand("worker");
    let term = stream.promoted("worker");
    (server, agent, stream, term)
}

#[tokio::test]
async fn a_promise_is_made_anew_until_the_application_has_stopped() {
    let server = NatsServer::start().expect("a server");
    let agent = Agent::start_with(&server, "a", ROLE, &[]).await;
    let mut stream = agent.client().stand("worker");
    assert_eq!(stream.next("standing")["instance_id"], "a");
    let term = stream.promoted("worker");
    let mut client = agent.client();
    let renewed = client.post(&format!("{term}/renew"), "");
    let remaining = renewed.json()["remaining_seconds"]
        .as_f64()
        .expect("seconds");
    // Three quarters of the stop budget.
    assert!(remaining > 1.0 && remaining <= 1.5, "{remaining}");
    assert_eq!(renewed.json()["winding_down"], false);
    for proof in ["validate", "authorize"] {
        let proved = client.post(&format!("{term}/{proof}"), "");
        assert!(term.ends_with(proved.json()["fencing_token"].as_str().expect("a token")));
    }
    let done = client.post(&format!("{term}/done"), r#"{"error": "no more work"}"#);
    assert_eq!(done.status, 204);
    assert_eq!(stream.next("ended")["cause"], "failed");
    for what in ["renew", "done", "validate", "authorize"] {
        let late = client.post(&format!("{term}/{what}"), "");
        assert_eq!(late.problem(), (409, "not_leader".into()), "{what}");
    }
}

#[tokio::test]
async fn an_application_brings_the_settings_of_a_role_that_the_agent_does_not_know() {
    let server = NatsServer::start().expect("a server");
    let agent = Agent::start_with(&server, "a", "", &[]).await;
    let mut client = agent.client();
    for (settings, wrong) in [
        (r#"{"ttl": "2s"}"#, "500ms"),
        (r#"{"overrun": "exit"}"#, "overrun"),
        (r#"{"ttl": 5}"#, "body"),
        (r#"{"tll": "5s"}"#, "tll"),
        (r#"{"ttl": "1us"}"#, "ttl"),
        (r#"["5s"]"#, "object"),
        (r#"{"ttl": "5s", "ttl": "6s"}"#, "ttl"),
    ] {
        let refused = client.post("/v1/roles/worker", settings);
        assert_eq!(refused.problem(), (400, "bad_request".into()), "{settings}");
        let detail = refused.json()["detail"].to_string();
        assert!(detail.contains(wrong), "{settings}: {detail}");
    }
    let mut stream = agent
        .client()
        .stand_with("worker", r#"{"ttl": "20s", "priority": 7}"#);
    stream.promoted("worker");
    let leader = client.get("/v1/roles/worker").json();
    assert_eq!(leader["leader"]["priority"], 7);
}

#[tokio::test]
async fn an_application_that_asks_for_no_promise_leads_no_more() {
    let server = NatsServer::start().expect("a server");
    let agent = Agent::start_with(&server, "a", ROLE, &[]).await;
    let mut stream = agent.client().stand("worker");
    stream.promoted("worker");
    assert_eq!(stream.next("ended")["cause"], "failed");
}

/// How a connection ends while its client still acts on its promise.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    /// A client may close its sending direction, and go on reading and acting.
    HalfClosed,
    /// As a proxy does it when it ends.
    Closed,
    /// As a firewall does it.
    Reset,
    /// By `ss -K`, which needs root, and a kernel that can do it.
    Destroyed,
}

/// What is there to judge, after a promise was made: when the question for it was sent, and how many
/// seconds it grants.
fn renewed(client: &mut Client, term: &str) -> (Instant, f64) {
    let sent = Instant::now();
    let answer = client.post(&format!("{term}/renew"), "");
    let answer = answer.json();
    let remaining = answer["remaining_seconds"].as_f64().expect("seconds");
    (sent, remaining)
}

#[tokio::test]
async fn a_connection_that_is_half_closed_frees_nothing_before_the_promise_is_over() {
    let server = NatsServer::start().expect("a server");
    let first = Agent::start_with(&server, "a", ROLE, &[]).await;
    let mut stream = first.client().stand("worker");
    let second = Agent::start_with(&server, "b", ROLE, &[]).await;
    let term = stream.promoted("worker");
    let mut other = second.client().stand("worker");
    other.next("leader");
    let (sent, remaining) = renewed(&mut first.client(), &term);
    stream.sends_no_more();
    assert!(stream.ends(), "the stream is over for the agent");
    other.promoted("worker");
    let after = sent.elapsed().as_secs_f64();
    assert!(after >= remaining, "{after} s, promised {remaining} s");
    let late = first.client().post(&format!("{term}/renew"), "");
    assert_eq!(late.status, 404);
}

#[tokio::test]
async fn a_tcp_connection_that_ends_frees_nothing_before_the_promise_is_over() {
    use Ending::{Closed, HalfClosed, Reset};
    frees_nothing_early(&[HalfClosed, Closed, Reset]).await;
}

#[tokio::test]
#[ignore = "needs root"]
async fn a_tcp_connection_that_is_destroyed_frees_nothing_before_the_promise_is_over() {
    frees_nothing_early(&[Ending::Destroyed]).await;
}

/// `NATS_ELECT_AGENT_ENDINGS` sets how often each is tried.
async fn frees_nothing_early(endings: &[Ending]) {
    use Ending::{Closed, Destroyed, HalfClosed, Reset};

    let rounds = std::env::var("NATS_ELECT_AGENT_ENDINGS");
    let rounds: usize = rounds.map_or(1, |rounds| rounds.parse().expect("a number"));
    let server = NatsServer::start().expect("a server");
    let secret = Some("a-secret-of-this-test");
    let first = OnLoopback::start(&server, "a-secret-of-this-test", ROLE);
    let second = Agent::start_with(&server, "b", ROLE, &[]).await;
    for _ in 0..rounds {
        for ending in endings {
            let connection = TcpStream::connect(first.address).expect("a connection");
            let handle = connection.try_clone().expect("a handle");
            let mut stream = Client::on(connection, secret).stand("worker");
            // A promise lasts for a second and a half.
            let term = stream.promoted("worker");
            let mut other = second.client().stand("worker");
            other.next("leader");
            let (sent, remaining) = renewed(&mut first.client(secret), &term);
            match ending {
                HalfClosed => stream.sends_no_more(),
                Closed => drop((stream, handle)),
                Reset => {
                    let linger = rustix::net::sockopt::set_socket_linger(&handle, Some(NONE));
                    linger.expect("a socket");
                    drop((stream, handle));
                }
                Destroyed => {
                    let port = handle.local_addr().expect("an address").port();
                    let filter = format!("sport = :{port} or dport = :{port}");
                    let killed = Command::new("ss").args(["-K", &filter]).output();
                    let killed = killed.expect("ss");
                    let told = String::from_utf8_lossy(&killed.stdout);
                    assert!(told.contains("ESTAB"), "{killed:?}");
                    assert!(stream.ends(), "it is destroyed");
                }
            }
            other.promoted("worker");
            let after = sent.elapsed().as_secs_f64();
            assert!(
                after >= remaining,
                "{ending:?}: {after} s, promised {remaining} s"
            );
        }
    }
    println!("{rounds} rounds of {endings:?}, no early release");
}

const NONE: Duration = Duration::ZERO;

/// An agent with a port.
struct OnLoopback {
    address: std::net::SocketAddr,
    _folder: tempfile::TempDir,
    _process: Process,
}

impl OnLoopback {
    fn start(server: &NatsServer, secret: &str, role: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("secret");
        std::fs::write(&file, secret).expect("a file");
        let config = folder.path().join("agent.toml");
        std::fs::write(&config, role).expect("a file");
        let mut agent = agent(&server.url());
        agent.args(["--id", "loopback", "--listen", "127.0.0.1:0"]);
        agent.arg("--token-file").arg(&file);
        let mut agent = Teller::of_stderr(agent.arg("--config").arg(&config));
        // The log has the port.
        let address = agent.tells("listening on ");
        let address = address.split(' ').next().unwrap_or_default();
        Self {
            address: address.parse().expect("an address"),
            _folder: folder,
            _process: agent.process,
        }
    }

    fn client(&self, secret: Option<&str>) -> Client {
        Client::on_loopback(self.address, secret).expect("a connection")
    }
}

#[tokio::test]
async fn a_unix_socket_that_is_closed_frees_its_role_at_once() {
    let (server, agent, stream, term) = leading(LASTING).await;
    let second = Agent::start_with(&server, "b", ROLE, &[]).await;
    let mut other = second.client().stand("worker");
    other.next("leader");
    let (sent, remaining) = renewed(&mut agent.client(), &term);
    drop(stream);
    other.promoted("worker");
    assert!(
        sent.elapsed().as_secs_f64() < remaining,
        "before its promise is over"
    );
}

#[tokio::test]
async fn a_request_without_the_secret_is_refused_and_one_on_loopback_needs_one() {
    let server = NatsServer::start().expect("a server");
    let secret = "a-secret-of-this-test";
    let agent_with_secret = OnLoopback::start(&server, secret, ROLE);
    for wrong in [None, Some("a-secret-of-this-tesT"), Some("")] {
        let refused = agent_with_secret.client(wrong).get("/v1");
        assert_eq!(refused.problem(), (401, "unauthorized".into()), "{wrong:?}");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    }
    let twice = [("authorization", "Bearer a-secret-of-this-tesT")];
    let mut client = agent_with_secret.client(Some(secret));
    let refused = client.ask("GET", "/v1", &twice, b"");
    assert_eq!(refused.problem(), (401, "unauthorized".into()));
    for (address, why) in [
        ("127.0.0.1:0", "--token-file"),
        ("192.0.2.1:8500", "loopback"),
    ] {
        let open = ended(agent(&server.url()).args(["--listen", address])).with_code(2);
        open.complains(why);
    }
}

#[tokio::test]
async fn the_socket_is_its_users_alone_and_a_second_agent_leaves_it_in_place() {
    let server = NatsServer::start().expect("a server");
    let agent_there = Agent::start_with(&server, "a", "", &[]).await;
    let mode = std::fs::metadata(&agent_there.socket).expect("a socket");
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    let there = format!("unix:{}", agent_there.socket.display());
    ended(agent(&server.url()).args(["--listen", &there])).assert_code(1);
    assert_eq!(agent_there.client().get("/v1").status, 200);
    // A killed agent leaves its socket behind, which keeps no other from starting.
    let stale = agent_there.folder().join("stale.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).expect("a socket"));
    let left = format!("unix:{}", stale.display());
    let third = agent(&server.url()).args(["--listen", &left]).spawn();
    let _third = Process(third.expect("an agent"));
    eventually(SOON, "an agent on a socket that was left", async || {
        Client::connect(&stale)
            .ok()?
            .try_ask("GET", "/v1", &[], b"")
            .ok()
    })
    .await;
}

#[tokio::test]
async fn keys_are_written_on_conditions_and_only_by_the_term() {
    let (server, agent, mut stream, term) = leading(LASTING).await;
    let mut client = agent.client();
    let key = format!("{term}/keys/cursor/eu");
    assert_eq!(client.get(&key).problem(), (404, "no_such_key".into()));
    let new = [("if-none-match", "*")];
    let created = client.ask("PUT", &key, &new, b"\x00\xff");
    if server.version() < (2, 12, 0) {
        // Conditions beside the fence need batches.
        assert_eq!(created.problem(), (501, "unsupported".into()));
        return;
    }
    assert_eq!(created.status, 200);
    let tag = created.header("etag").expect("a tag").to_owned();
    let read = client.get(&key);
    assert_eq!((read.status, &*read.body), (200, &b"\x00\xff"[..]));
    assert_eq!(read.header("etag"), Some(&*tag));
    let again = client.ask("PUT", &key, &new, b"2");
    assert_eq!(again.problem(), (412, "conflict".into()));
    let revision = tag.trim_matches('"');
    assert_eq!(again.json()["revision"], revision);
    let updated = client.ask("PUT", &key, &[("if-match", &tag)], b"2");
    assert_eq!(updated.status, 200);
    let stale = client.ask("PUT", &key, &[("if-match", &tag)], b"3");
    assert_eq!(stale.problem(), (412, "conflict".into()));
    let odd = client.ask("PUT", &key, &[("if-match", "x")], b"3");
    assert_eq!(odd.problem(), (400, "bad_request".into()));
    let keys = client.get(&format!("{term}/keys"));
    assert_eq!(keys.json(), json!({"keys": ["cursor/eu"]}));
    let deleted = client.ask("DELETE", &key, &[], b"");
    assert_eq!(deleted.status, 200);
    client.post(&format!("{term}/done"), "");
    stream.next("ended");
    let late = client.ask("PUT", &key, &[], b"late");
    assert_eq!(late.problem(), (409, "not_leader".into()));
}

#[tokio::test]
async fn a_request_that_is_wrong_is_refused_with_a_reason_and_harms_nobody() {
    let (_server, agent, _stream, term) = leading(ROLE).await;
    let zeros = "0".repeat(32);
    for (method, path, body, expected) in [
        ("GET", "/", "", (404, "no_such_path")),
        ("PUT", "/v1", "", (405, "bad_method")),
        ("GET", "/v1/roles/other", "", (404, "not_attached")),
        ("POST", "/v1/roles/other", "", (403, "unknown_role")),
        ("POST", "/v1/roles/worker", "", (409, "taken")),
        (
            "POST",
            "/v1/roles/worker",
            "{\"ttl\": \"1s\"}",
            (400, "bad_request"),
        ),
        (
            "POST",
            "/v1/roles/worker/terms/zz/renew",
            "",
            (400, "bad_request"),
        ),
        (
            "POST",
            &format!("/v1/roles/worker/terms/{zeros}/renew"),
            "",
            (409, "not_leader"),
        ),
        (
            "POST",
            &format!("/v1/roles/other/terms/{zeros}/renew"),
            "",
            (404, "not_attached"),
        ),
        ("POST", &format!("{term}/done"), "{", (400, "bad_request")),
        (
            "POST",
            &format!("{term}/done"),
            "{\"eror\": 1}",
            (400, "bad_request"),
        ),
        (
            "POST",
            "/v1/roles/worker/step-down",
            "{\"to\": \"nobody\"}",
            (424, "successor_absent"),
        ),
        (
            "PUT",
            &format!("{term}/keys/a%20b"),
            "x",
            (400, "bad_request"),
        ),
        ("PUT", &format!("{term}/keys/.."), "x", (400, "bad_request")),
    ] {
        let refused = agent.client().ask(method, path, &[], body.as_bytes());
        let (status, code) = refused.problem();
        assert_eq!((status, &*code), expected, "{method} {path} {body}");
        let renewed = agent.client().post(&format!("{term}/renew"), "");
        assert_eq!(renewed.status, 200, "after {method} {path}");
    }
    // What is no HTTP is cut off.
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"GET\r\n\r\n",
        &[b'a'; 1 << 14],
    ] {
        let mut client = agent.client();
        let _ = client.raw(garbage);
        let _ = client.try_ask("GET", "/v1", &[], b"");
    }
    let renewed = agent.client().post(&format!("{term}/renew"), "");
    assert_eq!(renewed.status, 200);
}

#[tokio::test]
async fn headers_that_contradict_and_bodies_that_break_off_are_refused() {
    let (_server, agent, _stream, term) = leading(ROLE).await;
    let key = format!("{term}/keys/k");
    for (headers, body, detail) in [
        (&[("transfer-encoding", "chunked")][..], "zz\r\n", "body"),
        (&[("if-match", "\"1\""), ("if-match", "\"2\"")], "x", "If-"),
        (
            &[("if-none-match", "*"), ("if-none-match", "\"1\"")],
            "x",
            "If-",
        ),
    ] {
        let refused = agent.client().ask("PUT", &key, headers, body.as_bytes());
        assert_eq!(
            refused.problem(),
            (400, "bad_request".into()),
            "{headers:?}"
        );
        let why = refused.json()["detail"].to_string();
        assert!(why.contains(detail), "{headers:?}: {why}");
    }
    let large = vec![b' '; (64 << 10) + 1];
    let refused = agent.client().ask("POST", "/v1/roles/worker", &[], &large);
    let refused = refused.problem();
    assert_eq!(refused, (413, "too_large".into()));
}
