//! Operating from it.

use std::fs::{self, File};
use std::io::Write;

use nats_elect::RoleManager;
use nats_elect_testing::{NatsServer, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Answer, Serving, serving};
use crate::ended;
use crate::fleet::{SOON, at};
use crate::pair::{Fleet, answer, builder, follows, leads, started};

const STEP_DOWN: &str = "/api/v1/roles/scheduler/step-down";
pub const SECRET: &str = "a-secret-of-this-test";

/// A `serve` that may operate, and its log.
pub struct Operating {
    pub serve: Serving,
    folder: TempDir,
}

impl Operating {
    pub fn start(server: &NatsServer, arguments: &[&str]) -> Self {
        Self::with(server, arguments, &[])
    }

    pub fn with(server: &NatsServer, arguments: &[&str], env: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let secret = folder.path().join("secret");
        fs::write(&secret, format!("{SECRET}\n")).expect("written");
        let log = File::create(folder.path().join("log")).expect("a file");
        let command = [&["serve", "--interval", "1s", "--allow-operate"], arguments].concat();
        let mut command = at(server, &command);
        command.arg("--token-file").arg(secret).stderr(log);
        command.envs(env.iter().copied());
        let serve = Serving::start(command);
        Self { serve, folder }
    }

    /// A request as it should be.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(path, "", &body.to_string())
    }

    /// A request with the secret, of these headers if they are to be others.
    pub fn send(&self, path: &str, headers: &str, body: &str) -> Answer {
        self.serve.send(&self.request(path, headers, body))
    }

    fn request(&self, path: &str, headers: &str, body: &str) -> String {
        let kind = "Content-Type: application/json\r\n";
        let headers = match headers {
            "" => format!("Authorization: Bearer {SECRET}\r\n{kind}"),
            headers => headers.to_owned(),
        };
        let (address, length) = (&self.serve.address, body.len());
        let host = if headers.contains("Host: ") {
            String::new()
        } else {
            format!("Host: {address}\r\n")
        };
        format!("POST {path} HTTP/1.1\r\n{host}Content-Length: {length}\r\n{headers}\r\n{body}")
    }

    /// The lines of its log that say this.
    pub fn logged(&self, what: &str) -> Vec<String> {
        let log = fs::read_to_string(self.folder.path().join("log")).expect("text");
        let lines = log.lines().filter(|line| line.contains(what));
        lines.map(ToOwned::to_owned).collect()
    }

    /// The same when there are so many lines of it. They are written by a thread of their own.
    pub async fn logs(&self, what: &str, lines: usize) -> Vec<String> {
        let logged = async || Some(self.logged(what)).filter(|it| it.len() >= lines);
        eventually(SOON, "lines in the log", logged).await
    }
}

/// The term that this instance is in, as `serve` tells it.
pub fn token(manager: &RoleManager) -> String {
    let status = manager.role("scheduler").expect("a role").status();
    status.fencing_token.expect("a term").to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unless_it_is_allowed_there_are_no_such_paths() {
    let fleet = Fleet::new().await;
    let serve = serving(&fleet.server, &[]);
    for path in [
        STEP_DOWN,
        "/api/v1/instances/node-1/pause",
        "/api/v1/instances/node-1/resume",
        "/api/v1/instances/node-1/cordon",
        "/api/v1/instances/node-1/drain",
        "/api/v1/groups/partitions/units/0/move",
    ] {
        let headers =
            format!("Authorization: Bearer {SECRET}\r\nContent-Type: application/json\r\n");
        for method in ["POST", "GET", "OPTIONS"] {
            let answer = serve.ask(method, path, &headers);
            assert_eq!(answer.status, 404, "{method} {path}: {answer:?}");
        }
    }
    let document = serve.get("/api/v1/openapi.json").body;
    for word in [
        "step-down",
        "/cordon",
        "/drain",
        "/move",
        "bearer",
        "\"post\"",
    ] {
        assert!(!document.contains(word), "{word}");
    }
    assert!(fleet.first.role("scheduler").expect("a role").is_leader());
}

#[test]
fn a_secret_and_the_permission_come_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let short = folder.path().join("short");
    fs::write(&short, "too-short").expect("written");
    let short = short.to_str().expect("text");
    for (arguments, expected) in [
        (&["--allow-operate"][..], "--token-file"),
        (&["--token-file", short], "--allow-operate"),
        (
            &["--allow-operate", "--token-file", short],
            "at least 16 characters",
        ),
        (
            &["--allow-operate", "--token-file", "/nonexistent/x"],
            "can't be read",
        ),
    ] {
        let command = [&["serve", "--listen", "127.0.0.1:0"], arguments].concat();
        let output = ended(&mut crate::nats_elect(&command));
        assert_eq!(output.code, Some(2), "{}", output.stderr);
        assert!(output.stderr.contains(expected), "{}", output.stderr);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_steps_down_once_for_the_term_that_is_named_and_it_is_logged() {
    let fleet = Fleet::new().await;
    let operating = Operating::start(&fleet.server, &[]);
    let token = token(&fleet.first);
    let body = json!({ "expected_fencing_token": token });
    let answer = operating.post(STEP_DOWN, &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let json = answer.json();
    assert_eq!(json["from"]["fencing_token"], token);
    assert_eq!(json["from"]["instance_id"], "node-1");
    assert_eq!(json["leader"]["instance_id"], "node-2");
    assert_eq!(json["bucket"], "leaders");
    assert!(fleet.second.role("scheduler").expect("a role").is_leader());
    assert!(fleet.first.role("metrics").expect("a role").is_leader());

    // The same once more, as a client may send it that got no answer.
    let again = operating.post(STEP_DOWN, &body);
    assert_eq!(again.status, 409, "{again:?}");
    let detail = again.json()["advice"].to_string();
    assert!(detail.contains("that term is over"), "{again:?}");
    assert!(fleet.second.role("scheduler").expect("a role").is_leader());

    let from = " from=127.0.0.1:";
    let logged = operating.logs("step-down of scheduler, leaders", 4).await;
    assert_eq!(logged.len(), 4, "{logged:?}");
    assert!(logged.iter().all(|line| line.contains(from)), "{logged:?}");
    assert!(logged[0].contains("asked for: "), "{logged:?}");
    assert!(logged[1].contains("node-2 ("), "{logged:?}");
    assert!(logged[3].contains("refused: "), "{logged:?}");
    assert!(operating.logged(SECRET).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_named_successor_leads_next_and_nobody_who_could_not() {
    let fleet = Fleet::new().await;
    let operating = Operating::start(&fleet.server, &[]);
    let token = token(&fleet.first);
    fleet.second.pause().await.expect("a pause");
    let ask = |more: Value| {
        let mut body = json!({ "expected_fencing_token": token });
        let more = more.as_object().expect("an object").clone();
        body.as_object_mut().expect("an object").extend(more);
        operating.post(STEP_DOWN, &body)
    };
    // The leader would only lead it again.
    let alone = ask(json!({}));
    assert_eq!(alone.status, 409, "{alone:?}");
    assert!(alone.body.contains("is paused"), "{alone:?}");
    assert!(alone.body.contains("force"), "{alone:?}");
    let paused = ask(json!({ "to": "node-2" }));
    assert_eq!(paused.status, 409, "{paused:?}");
    let absent = ask(json!({ "to": "node-3" }));
    assert_eq!(absent.status, 409, "{absent:?}");
    assert!(fleet.first.role("scheduler").expect("a role").is_leader());
    fleet.second.resume().await.expect("an end of it");
    let done = ask(json!({ "to": "node-2", "hold_off_seconds": 3600 }));
    assert_eq!(done.status, 200, "{done:?}");
    let warning = done.json()["warning"].to_string();
    assert!(warning.contains("no other candidate"), "{done:?}");
    leads(&fleet.second, "scheduler").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_term_that_nobody_else_took_is_a_problem_with_what_was_done() {
    let server = NatsServer::start().expect("a server");
    let only = started(builder(server.url(), "node-1")).await;
    leads(&only, "scheduler").await;
    answer(&server, 1).await;
    let operating = Operating::start(&server, &["--timeout", "30s"]);
    let body = json!({ "expected_fencing_token": token(&only), "force": true });
    let again = operating.post(STEP_DOWN, &body);
    assert_eq!(again.status, 409, "{again:?}");
    let again = again.json();
    assert!(
        again["detail"]
            .as_str()
            .is_some_and(|it| it.contains("leads again"))
    );
    assert_eq!(again["result"]["leader"]["instance_id"], "node-1");
    assert_eq!(again["result"]["released"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_is_paused_cordoned_and_resumed() {
    let fleet = Fleet::new().await;
    let operating = Operating::start(&fleet.server, &[]);
    let order = |what: &str, roles: &[&str]| {
        let path = format!("/api/v1/instances/node-1/{what}");
        let answer = operating.post(&path, &json!({ "roles": roles }));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    };
    let role = |manager: &RoleManager, role: &str| manager.role(role).expect("a role").status();
    let paused = order("pause", &["scheduler"]);
    assert_eq!(
        (&paused["order"], &paused["still_leads"]),
        (&json!("pause"), &json!(["scheduler"]))
    );
    assert!(role(&fleet.first, "scheduler").paused && role(&fleet.first, "scheduler").is_leader);
    assert!(!role(&fleet.first, "metrics").paused);
    order("resume", &["scheduler"]);
    assert!(!role(&fleet.first, "scheduler").paused);
    let cordoned = order("cordon", &[]);
    for name in ["scheduler", "metrics"] {
        let leader = &cordoned["ended"][name]["leader"]["instance_id"];
        assert_eq!(leader, "node-2", "{cordoned}");
        assert!(role(&fleet.first, name).paused && role(&fleet.second, name).is_leader);
    }
    let warning = cordoned["warning"].to_string();
    assert!(warning.contains("metrics, scheduler"), "{cordoned}");
    order("resume", &[]);
    assert!(!role(&fleet.first, "metrics").paused);
    let logged = operating
        .logs("cordon of node-1 for all roles, leaders: ", 1)
        .await;
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert!(logged[0].contains("is_done=true"), "{logged:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_secret_or_from_another_site_nothing_is_done() {
    let fleet = Fleet::new().await;
    let operating = Operating::start(&fleet.server, &[]);
    let secret = format!("Authorization: Bearer {SECRET}\r\n");
    let json = "Content-Type: application/json\r\n";
    let term_before = token(&fleet.first);
    let right = json!({ "expected_fencing_token": term_before }).to_string();
    let sent = [
        (json.to_owned(), 401),
        (format!("{json}Authorization: Bearer {SECRET}x\r\n"), 401),
        (format!("{json}Authorization: Basic {SECRET}\r\n"), 401),
        (format!("{json}Cookie: token={SECRET}\r\n"), 401),
        (secret.clone(), 415),
        (format!("{secret}Content-Type: text/plain\r\n"), 415),
        (
            format!("{secret}Content-Type: application/x-www-form-urlencoded\r\n"),
            415,
        ),
        (
            format!("{secret}{json}Origin: http://evil.example.org\r\n"),
            403,
        ),
        (format!("{secret}{json}Origin: null\r\n"), 403),
        (format!("{secret}{json}Origin: http://127.0.0.1:1\r\n"), 403),
        (format!("{secret}{json}Host: evil.example.org\r\n"), 421),
    ];
    for (headers, status) in sent {
        let answer = operating.send(STEP_DOWN, &headers, &right);
        assert_eq!(answer.status, status, "{headers}{answer:?}");
        let kind = answer.header("content-type");
        assert_eq!(kind, Some("application/problem+json"));
        let is_asked = answer.header("www-authenticate") == Some("Bearer");
        assert_eq!(is_asked, status == 401, "{answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    // What a browser asks before it sends another site's request.
    let preflight = "Origin: http://evil.example.org\r\nAccess-Control-Request-Method: POST\r\n\
         Access-Control-Request-Headers: authorization\r\n";
    let preflight = operating.serve.ask("OPTIONS", STEP_DOWN, preflight);
    assert_eq!(preflight.status, 405, "{preflight:?}");
    assert!(
        !preflight
            .headers
            .iter()
            .any(|(name, _)| name.starts_with("access-control"))
    );
    let read = operating
        .serve
        .ask("GET", STEP_DOWN, &format!("{secret}{json}"));
    assert_eq!((read.status, read.header("allow")), (405, Some("POST")));

    assert_eq!(token(&fleet.first), term_before);
    let refused = operating.logs("refused: ", 1).await;
    assert!(!refused.is_empty() && !refused.iter().any(|it| it.contains(SECRET)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_wrongly_is_refused_and_nothing_is_done() {
    let fleet = Fleet::new().await;
    let operating = Operating::start(&fleet.server, &[]);
    let term_before = token(&fleet.first);
    let right = json!({ "expected_fencing_token": term_before }).to_string();
    let zeros = "0".repeat(32);
    let no_role = "/api/v1/roles/nothing/step-down";
    let cordon = "/api/v1/instances/node-1/cordon";
    let term = |more: &str| format!("{}{more}}}", right.trim_end_matches('}'));
    for (path, body, status) in [
        (STEP_DOWN, String::new(), 400),
        (STEP_DOWN, "{}".into(), 400),
        (STEP_DOWN, "[]".into(), 400),
        (STEP_DOWN, r#"{"expected_fencing_token": 7}"#.into(), 400),
        (STEP_DOWN, r#"{"expected_fencing_token": "7"}"#.into(), 400),
        (STEP_DOWN, term(r#", "fource": true"#), 400),
        (STEP_DOWN, term(r#", "hold_off_seconds": 90000"#), 400),
        (STEP_DOWN, term(r#", "hold_off_seconds": -1"#), 400),
        (STEP_DOWN, term(r#", "to": "node-2", "force": true"#), 400),
        (
            STEP_DOWN,
            term(&format!(", \"to\": \"{}\"", "x".repeat(5000))),
            413,
        ),
        (
            STEP_DOWN,
            format!(r#"{{"expected_fencing_token": "{zeros}"}}"#),
            409,
        ),
        (no_role, right.clone(), 404),
        ("/api/v1/roles/_fence/step-down", right.clone(), 400),
        ("/api/v1/roles/a%20b/step-down", right.clone(), 400),
        ("/api/v1/roles/%ff/step-down", right.clone(), 400),
        (&format!("{STEP_DOWN}?bucket=other"), right.clone(), 404),
        (&format!("{STEP_DOWN}?bukket=other"), right.clone(), 400),
        (cordon, r#"{"role": "scheduler"}"#.into(), 400),
        (cordon, r#"{"roles": ["a b"]}"#.into(), 400),
        (cordon, r#"{"roles": ["nothing"]}"#.into(), 404),
        ("/api/v1/instances/node-9/cordon", "{}".into(), 404),
        ("/api/v1/instances//cordon", "{}".into(), 404),
        ("/api/v1/instances/node-1/uncordon", "{}".into(), 404),
    ] {
        let answer = operating.send(path, "", &body);
        assert_eq!(answer.status, status, "{path} {body}: {answer:?}");
        let kind = answer.header("content-type");
        assert_eq!(kind, Some("application/problem+json"), "{path} {body}");
        assert_eq!(answer.json()["status"], status);
    }
    assert_eq!(token(&fleet.first), term_before);
    for manager in [&fleet.first, &fleet.second] {
        assert!(!manager.role("scheduler").expect("a role").status().paused);
    }
    // Names that nobody checks before they are logged.
    let forging = "/api/v1/instances/x%0a2026%20ERROR%20forged%1b%5b2J%e2%80%ae/cordon";
    let forged = operating.post(forging, &json!({}));
    assert_eq!(forged.status, 404, "{forged:?}");
    let lines = operating.logs("forged", 2).await;
    assert!(lines.len() == 2 && lines.iter().all(|it| it.contains(" nats_elect::")));
    assert!(
        !lines.concat().contains(['\u{1b}', '\u{202e}']),
        "{lines:?}"
    );
    // A body in which nothing comes.
    let mut slow = operating.serve.connect();
    let request = operating.request(STEP_DOWN, "", &right);
    let (head, _) = request.split_once(&right).expect("a body");
    slow.write_all(head.as_bytes()).expect("sent");
    let late = Answer::read(slow);
    assert_eq!(late.status, 408, "{late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_several_buckets_one_has_to_be_named() {
    let fleet = Fleet::new().await;
    let other = started(builder(fleet.server.url(), "node-3").bucket("jobs")).await;
    leads(&other, "scheduler").await;
    let operating = Operating::start(&fleet.server, &["leaders", "jobs"]);
    let body = json!({ "expected_fencing_token": token(&other), "force": true });
    assert_eq!(operating.post(STEP_DOWN, &body).status, 400);
    let in_leaders = operating.post(&format!("{STEP_DOWN}?bucket=leaders"), &body);
    assert_eq!(in_leaders.status, 409, "{in_leaders:?}");
    let cordon = "/api/v1/instances/node-3/cordon?bucket=";
    let absent = operating.post(&format!("{cordon}leaders"), &json!({}));
    assert_eq!(absent.status, 404, "{absent:?}");
    let done = operating.post(&format!("{cordon}jobs"), &json!({}));
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(done.json()["bucket"], "jobs");
    assert!(!other.role("scheduler").expect("a role").is_leader());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_goes_on_to_its_end_when_its_client_has_gone() {
    let fleet = Fleet::new().await;
    let operating = Operating::start(&fleet.server, &[]);
    let body = json!({ "expected_fencing_token": token(&fleet.first) }).to_string();
    let mut gone = operating.serve.connect();
    let request = operating.request(STEP_DOWN, "", &body);
    gone.write_all(request.as_bytes()).expect("sent");
    drop(gone);
    let done = async || (operating.logged("is_done=true").len() == 1).then_some(());
    eventually(SOON, "its end in the log", done).await;
    assert!(fleet.second.role("scheduler").expect("a role").is_leader());
}

#[tokio::test]
async fn more_operations_than_there_is_room_for_are_refused_and_others_are_served() {
    // It takes connections, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("nats://{}", silent.local_addr().expect("an address"));
    let server = NatsServer::start().expect("a server");
    let operating = Operating::with(&server, &["--timeout", "1h"], &[("NATS_URL", &url)]);
    let cordon = "/api/v1/instances/node-1/cordon";
    let request = operating.request(cordon, "", "{}");
    let waiting = (0..8).map(|_| {
        let mut stream = operating.serve.connect();
        stream.write_all(request.as_bytes()).expect("sent");
        stream
    });
    let waiting: Vec<_> = waiting.collect();
    let begun = async || (operating.logged("asked for: ").len() == 8).then_some(());
    eventually(SOON, "eight operations", begun).await;
    let refused = operating.post(cordon, &json!({}));
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(operating.serve.get("/livez").status, 200);
    // They go on, and take their room, without their clients.
    drop(waiting);
    assert_eq!(operating.post(cordon, &json!({})).status, 503);
}

/// The lists of both files in one user.
fn granted() -> String {
    let list = |file: &str, name: &str| {
        let (_, list) = file.split_once(&format!("{name}: [")).expect("a list");
        list.split_once(']').expect("its end").0.to_owned()
    };
    let files = [
        include_str!("../../../../../deploy/nats/observer.conf"),
        include_str!("../../../../../deploy/nats/operator.conf"),
    ];
    let both = |name: &str| files.map(|file| list(file, name)).concat();
    format!(
        "authorization {{ users = [\n{{ user: all, password: all }}\n{{ user: both, password: both, permissions: {{\n\
         publish: [ {} ]\nsubscribe: [ {} ]\n}} }}\n{{ user: observer, password: observer, permissions: {{\n\
         publish: [ {} ]\nsubscribe: [ {} ]\n}} }} ] }}\n",
        both("publish"),
        both("subscribe"),
        list(files[0], "publish"),
        list(files[0], "subscribe"),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_takes_the_permissions_of_an_operator_beside_those_of_an_observer() {
    let server = NatsServer::builder().config(&granted()).start();
    let server = server.expect("a server");
    let as_all = |id: &str| builder(server.url(), id).user_and_password("all", "all");
    let first = started(as_all("node-1")).await;
    leads(&first, "scheduler").await;
    let second = started(as_all("node-2")).await;
    let login = |user| [("NATS_USER", user), ("NATS_PASSWORD", user)];
    let looking = Operating::with(&server, &[], &login("observer"));
    let both = Operating::with(&server, &[], &login("both"));
    let two = |answer: &Answer| {
        let json = answer.json();
        let instances = json["instances"].as_array().cloned().unwrap_or_default();
        instances
            .iter()
            .filter(|it| it["status"].is_object())
            .count()
            == 2
    };
    for operating in [&looking, &both] {
        let instances = "/api/v1/instances";
        operating
            .serve
            .until("both instances", instances, two)
            .await;
    }
    let body = json!({ "expected_fencing_token": token(&first) });
    let refused = looking.post(STEP_DOWN, &body);
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body.contains("may not publish to"), "{refused:?}");
    assert!(refused.body.contains("operator.conf"), "{refused:?}");
    assert!(first.role("scheduler").expect("a role").is_leader());
    follows(&second, "scheduler", "node-1").await;
    let done = both.post(STEP_DOWN, &body);
    assert_eq!(done.status, 200, "{done:?}");
    assert!(second.role("scheduler").expect("a role").is_leader());
    for what in ["pause", "cordon", "resume"] {
        let path = format!("/api/v1/instances/node-2/{what}");
        let done = both.post(&path, &json!({}));
        assert_eq!(done.status, 200, "{what}: {done:?}");
    }
}
