//! What it refuses, and for how long it waits for whom.

use std::io::{Read, Write};

use nats_elect_testing::NatsServer;

use super::{SHORTLY, is_ok, serving};
use crate::fleet::bucket;

#[tokio::test]
async fn errors_are_problems_and_each_answer_bears_the_headers() {
    let server = NatsServer::start().expect("start");
    bucket(&server).await;
    let serve = serving(&server, &[]);
    serve.until("the bucket", "/readyz", is_ok).await;
    let host = "Host: evil.example.org\r\n";
    let near = "Host: localhost\r\n";
    let wrong = [
        (serve.get("/api/v1/roles/none"), 404),
        (serve.get("/api/v2"), 404),
        (serve.get("/api/v1/roles?bukket=x"), 400),
        (serve.get("/api/v1/roles/%ff"), 400),
        (serve.get("/api/v1/history?since=yesterday"), 400),
        (
            serve.ask("POST", "/api/v1/roles", "Content-Length: 0\r\n"),
            405,
        ),
        (
            serve.send(&format!("GET /api/v1/roles HTTP/1.1\r\n{host}\r\n")),
            421,
        ),
        (serve.send("GET /livez HTTP/1.0\r\n\r\n"), 421),
        (
            serve.send(&format!(
                "GET http://evil.example.org/livez HTTP/1.1\r\n{near}\r\n"
            )),
            421,
        ),
        (
            serve.send(&format!("GET /livez HTTP/1.1\r\n{near}{host}\r\n")),
            400,
        ),
        (serve.get("/%ff"), 400),
        (serve.get("/api/v1/roles/%ff"), 400),
        (serve.get("/api/v1/leader/scheduler/%ff"), 400),
    ];
    for (answer, status) in &wrong {
        assert_eq!(answer.status, *status, "{answer:?}");
        let kind = answer.header("content-type");
        assert_eq!(kind, Some("application/problem+json"), "{answer:?}");
        assert_eq!(answer.json()["status"], *status);
    }
    let right = serve.get("/api/v1/roles");
    assert_eq!(right.header("content-type"), Some("application/json"));
    for answer in wrong.iter().map(|(answer, _)| answer).chain([&right]) {
        for (name, value) in [
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{answer:?}");
        }
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    assert_eq!(wrong[5].0.header("allow"), Some("GET,HEAD"));
    let head = serve.ask("HEAD", "/api/v1/roles", "");
    assert_eq!((head.status, &*head.body), (200, ""));
}

#[tokio::test]
async fn long_requests_are_refused_and_slow_ones_cut_off() {
    let server = NatsServer::start().expect("start");
    bucket(&server).await;
    let serve = serving(&server, &[]);
    let long = format!("X-Long: {}\r\n", "x".repeat(64 * 1024));
    assert_eq!(serve.ask("GET", "/livez", &long).status, 431);
    let path = format!("/{}", "x".repeat(64 * 1024));
    assert!([414, 431].contains(&serve.get(&path).status));
    let many = "X: y\r\n".repeat(100);
    assert_eq!(serve.ask("GET", "/livez", &many).status, 431);

    let mut slow = serve.connect();
    slow.write_all(b"GET /livez HTTP/1.1\r\n").expect("sent");
    slow.set_read_timeout(Some(SHORTLY)).expect("a timeout");
    let mut answer = Vec::new();
    let ended = slow.read_to_end(&mut answer);
    ended.expect("the end of the connection, not of patience");
    assert_eq!(serve.get("/livez").status, 200);
}

#[tokio::test]
async fn a_name_that_is_told_is_answered_and_a_signal_ends_it_well() {
    let server = NatsServer::start().expect("start");
    let mut serve = serving(&server, &["--host", "leaders.example.org"]);
    let request = "GET /livez HTTP/1.1\r\nHost: leaders.example.org\r\n\r\n";
    assert_eq!(serve.send(request).status, 200);
    serve.terminate();
    assert_eq!(serve.code(), Some(0));
}

#[tokio::test]
async fn not_more_connections_are_open_at_a_time_than_is_said() {
    let server = NatsServer::start().expect("start");
    bucket(&server).await;
    let serve = serving(&server, &[]);
    // They send nothing, and so are open for some seconds.
    let _idle: Vec<_> = (0..300).map(|_| serve.connect()).collect();
    let metrics = serve.get("/metrics").body;
    let mut lines = metrics.lines();
    let open = lines.find_map(|line| line.strip_prefix("election_serve_connections "));
    let open: u32 = open.expect("a number").parse().expect("a number");
    assert!((1..=256).contains(&open), "{open}");
}
