//! What happens, as it happens.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Instant;

use nats_elect::StepDown;
use nats_elect_testing::{NatsServer, eventually};
use serde_json::{Value, json};

use super::{Answer, Serving, is_ok, serving};
use crate::fleet::{ROLE, SOON, has, json, leader, led};

/// A stream of events. Its connection ends with this.
pub struct Events(BufReader<TcpStream>);

#[derive(Debug)]
pub struct Event {
    id: String,
    pub kind: String,
    pub data: Value,
}

impl Events {
    pub fn open(serve: &Serving, after: Option<&str>) -> Self {
        let mut stream = serve.connect();
        let after = after.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        let address = &serve.address;
        write!(
            stream,
            "GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\n{after}\r\n"
        )
        .expect("sent");
        let mut events = Self(BufReader::new(stream));
        let status = events.line();
        assert!(status.contains(" 200 "), "{status}");
        let mut headers = Vec::new();
        loop {
            match events.line() {
                line if line.is_empty() => break,
                line => headers.push(line.to_ascii_lowercase()),
            }
        }
        let kind = "content-type: text/event-stream".to_owned();
        assert!(headers.contains(&kind), "{headers:?}");
        events
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        assert!(!line.is_empty(), "the stream has ended");
        line.trim_end().to_owned()
    }

    /// The next one. What is between the chunks of the body has none of these fields.
    #[track_caller]
    #[expect(clippy::disallowed_methods, reason = "no lease rests on it")]
    pub fn next(&mut self) -> Event {
        let begun = Instant::now();
        let (mut id, mut kind) = (String::new(), String::new());
        loop {
            // Where nothing happens it says so, again and again.
            assert!(begun.elapsed() < SOON, "no event has come");
            let line = self.line();
            if let Some(it) = line.strip_prefix("id: ") {
                it.clone_into(&mut id);
            } else if let Some(it) = line.strip_prefix("event: ") {
                it.clone_into(&mut kind);
            } else if let Some(it) = line.strip_prefix("data: ") {
                let data = json(it);
                return Event { id, kind, data };
            }
        }
    }

    /// All until one of each kind has come that satisfies this.
    #[track_caller]
    #[expect(clippy::disallowed_methods, reason = "no lease rests on it")]
    pub fn until(&mut self, kinds: &[&str], is_it: impl Fn(&Value) -> bool) -> Vec<Event> {
        let begun = Instant::now();
        let mut events = Vec::new();
        let has = |events: &[Event], kind: &str| {
            let mut of = events.iter().filter(|it| it.kind == kind);
            of.any(|event| is_it(&event.data))
        };
        while !kinds.iter().all(|kind| has(&events, kind)) {
            events.push(self.next());
            assert!(
                begun.elapsed() < SOON,
                "{kinds:?} have not come: {events:#?}"
            );
        }
        events
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_told_and_who_comes_back_gets_what_was_missed() {
    let (server, a) = led().await;
    let serve = serving(&server, &[]);
    let led = "/api/v1/leader/scheduler/node-1";
    serve.until("a known leader", led, is_ok).await;
    let kept = |answer: &Answer| answer.json()["events"].as_array().map(Vec::len) == Some(1);
    serve.until("the past", "/api/v1/history", kept).await;
    let mut events = Events::open(&serve, None);
    let hello = events.next();
    assert_eq!(hello.kind, "hello");

    let leading = a.role(ROLE).expect("it");
    let down = leading.step_down(StepDown::any()).await;
    down.expect("a step-down");
    // The event of the leader and the key's change arrive in any order.
    let is_end = |it: &Value| it["cause"] == "released" || it["cause"] == "stepped_down";
    let told = events.until(&["change", "history"], is_end);
    let freed = told
        .iter()
        .find(|it| it.kind == "change" && is_end(&it.data));
    let freed = freed.expect("it");
    has(&freed.data, &json!({ "role": ROLE, "bucket": "leaders" }));
    assert_eq!(freed.data["from"]["instance_id"], "node-1");
    drop(events);

    // All of it again, from before.
    let mut again = Events::open(&serve, Some(&hello.id));
    assert_eq!(again.next().kind, "hello");
    for told in &told {
        assert_eq!(again.next().id, told.id);
    }
    // From then on it is not told again.
    let mut later = Events::open(&serve, Some(&freed.id));
    assert_eq!(later.next().kind, "hello");
    assert_ne!(later.next().id, freed.id);
    let mut other = Events::open(&serve, Some("0000000000000000-1"));
    assert_eq!(other.next().kind, "reload");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_read_a_history_again_that_was_found_after_they_came() {
    let server = NatsServer::start().expect("start");
    crate::fleet::bucket(&server).await;
    let serve = serving(&server, &[]);
    // Events of a history that is followed before the first of them are told one by one.
    let is_looked_for = |answer: &Answer| {
        let missing = answer.json()["missing"][0]["reason"].clone();
        missing.is_string() && missing != "the history was not read yet"
    };
    let path = "/api/v1/history";
    serve
        .until("a look for a history", path, is_looked_for)
        .await;
    let mut events = Events::open(&serve, None);
    let _a = leader(&server, "node-1").await;
    events.until(&["reload"], |it| it["reason"] == "the history was read");
    let history = serve.get(path).json();
    assert_eq!(history["events"][0]["instance_id"], "node-1", "{history}");
}

#[tokio::test]
async fn more_readers_than_there_is_room_for_are_refused_and_others_are_served() {
    let server = NatsServer::start().expect("start");
    crate::fleet::bucket(&server).await;
    let serve = serving(&server, &[]);
    let mut readers: Vec<_> = (0..64).map(|_| Events::open(&serve, None)).collect();
    let refused = serve.get("/api/v1/events");
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(serve.get("/livez").status, 200);
    // The end of a reader makes room.
    readers.pop();
    let request = format!(
        "GET /api/v1/events HTTP/1.1\r\nHost: {}\r\n\r\n",
        serve.address
    );
    eventually(SOON, "room for one more", async || {
        let mut stream = serve.connect();
        stream.write_all(request.as_bytes()).expect("sent");
        let mut status = String::new();
        BufReader::new(stream)
            .read_line(&mut status)
            .expect("a line");
        status.contains(" 200 ").then_some(())
    })
    .await;
}
