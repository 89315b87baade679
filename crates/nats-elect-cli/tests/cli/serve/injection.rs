//! Text of strangers: in keys, records and events that a foreign client wrote, and in answers of a
//! foreign instance. It must not become anything but text.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;

use async_nats::Client;
use futures::StreamExt;
use nats_elect_testing::eventually;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::metrics::is_read_by_promtool;
use super::{Answer, Serving};
use crate::fleet::{SOON, at, client, led};
use crate::maps::{self, epoch, write_map};

/// What acts in pages, attributes, metrics, streams of events, headers, logs and terminals, if
/// anything does. Names are cut after 255 characters, so it is not longer.
const NASTY: &str = "mark\u{0}\u{7}\u{1b}[2J\u{9b}1m\u{85}\u{2028}\u{2029}\u{202e}\u{200b}\u{feff}\u{e0041}\
    \"'><script>alert(1)</script><img src=x onerror=a></title></svg><svg onload=a>--><!--{{7*7}}\
    \n\nevent: reload\ndata: {}\n\nid: a\r\n\r\nSet-Cookie: a=b\r\n\r\n\\\"} 1\nelection_forged{a=\"b\"} 1\n\
    2026-01-01T00:00:00Z ERROR forged\\";
/// The same as far as it can stand in a subject: without blanks, line ends and dots.
const NASTY_KEY: &str = "mark\"'><script/**/src=//x></script><img/src=x/onerror=alert(1)>{{7*7}}\\\"}\
    \u{7}\u{1b}[2J\u{9b}1m\u{202e}\u{200b}ends\\";
/// The same as far as it can be an id: without what acts in terminals.
const NASTY_ID: &str =
    "mark\"'><script/**/src=//x></script><img/src=x/onerror=alert(1)>{{7*7}}\\\"}ends\\";

/// The value with all text in it made nasty, but for what has to be understood.
fn nasty(value: &Value, kept: &[&str]) -> Value {
    match value {
        Value::String(_) => json!(NASTY),
        Value::Array(items) => items.iter().map(|it| nasty(it, kept)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            fields
                .map(|(name, value)| {
                    let keep = kept.contains(&&**name);
                    let value = if keep {
                        value.clone()
                    } else {
                        nasty(value, kept)
                    };
                    (name.clone(), value)
                })
                .collect()
        }
        other => other.clone(),
    }
}

/// An answer as it was sent.
async fn raw(client: &Client, subject: &str) -> Value {
    let answer = client.request(subject.to_owned(), "".into()).await;
    serde_json::from_slice(&answer.expect("an answer").payload).expect("JSON")
}

/// Answers the search and the question for its status like a real instance, with nasty text in each
/// place for text. Two of them: one has trouble, the other one has none.
async fn foreign_instances(client: &Client) -> JoinHandle<()> {
    let admin = "nats-elect-admin.leaders";
    let found = raw(client, &format!("{admin}.instances")).await;
    let real = found["metadata"]["incarnation"].as_str().expect("text");
    let status = raw(client, &format!("{admin}.status.{real}")).await;
    let kept = ["state", "connection", "fencing_token", "incarnation"];
    let role = nasty(&status["roles"]["scheduler"], &kept);
    let instances = [("1", json!(NASTY)), ("2", Value::Null)].map(|(number, trouble)| {
        let incarnation = format!("00000000-0000-0000-0000-00000000000{number}");
        let kept = ["bucket", "subject_prefix", "type", "name", "endpoints"];
        let mut found = nasty(&found, &kept);
        found["metadata"]["incarnation"] = json!(incarnation);
        let mut status = nasty(&status, &["bucket", "type"]);
        status["incarnation"] = json!(incarnation);
        status["roles"] = json!({ NASTY: role, "scheduler": role });
        status["meta"] = json!({ NASTY: NASTY });
        status["trouble"] = trouble;
        (incarnation, found.to_string(), status.to_string())
    });
    let mut asked = client
        .subscribe(format!("{admin}.>"))
        .await
        .expect("subscribe");
    client.flush().await.expect("flushed");
    let client = client.clone();
    tokio::spawn(async move {
        while let Some(message) = asked.next().await {
            for (incarnation, found, status) in &instances {
                let answer = if message.subject.ends_with(".instances") {
                    found
                } else if message.subject.contains(incarnation) {
                    status
                } else {
                    continue;
                };
                if let Some(reply) = &message.reply {
                    let _ = client.publish(reply.clone(), answer.clone().into()).await;
                }
            }
        }
    })
}

/// Writes nasty keys, records and events beside a real leader's.
async fn foreign_writer(client: &Client) -> JoinHandle<()> {
    let jetstream = async_nats::jetstream::new(client.clone());
    let read = async |stream: &str, subject: &str| {
        let stream = jetstream.get_stream(stream).await.expect("a stream");
        let message = stream.get_last_raw_message_by_subject(subject).await;
        serde_json::from_slice::<Value>(&message.expect("a message").payload).expect("JSON")
    };
    let record = read("KV_leaders", "$KV.leaders.scheduler").await;
    let mut record = nasty(&record, &["token", "fencing_token", "release"]);
    record["meta"] = json!({ NASTY: NASTY });
    let event = read(
        "nats-elect-events-leaders",
        "nats-elect-events.leaders.scheduler",
    )
    .await;
    let kept = ["event", "bucket", "incarnation", "fencing_token"];
    let event = nasty(&event, &kept).to_string();
    let client = client.clone();
    tokio::spawn(async move {
        let mut beats = tokio::time::interval(std::time::Duration::from_millis(200));
        loop {
            beats.tick().await;
            for key in [NASTY_KEY, "odd"] {
                let (subject, record) = (format!("$KV.leaders.{key}"), record.to_string());
                let _ = client.publish(subject, record.into()).await;
                let subject = format!("nats-elect-events.leaders.{key}");
                let _ = client.publish(subject, event.clone().into()).await;
            }
            let _ = client.publish("$KV.leaders.garbage", NASTY.into()).await;
            let (member, odd) = (maps::record(0, NASTY_ID), maps::record(1, NASTY));
            for (name, value) in [
                (format!("odd.member.{}", epoch(0)), &member),
                (format!("odd.member.{}", epoch(1)), &odd),
                ("garbage.map".to_owned(), &odd),
                (NASTY_KEY.to_owned(), &odd),
            ] {
                let subject = format!("$KV.leaders._groups.{name}");
                let _ = client.publish(subject, value.to_string().into()).await;
            }
        }
    })
}

#[track_caller]
fn is_plain(text: &str) {
    let acts = |c: char| c.is_control() && c != '\n';
    let is_hidden = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    let odd = text.find(|c| acts(c) || is_hidden(c));
    assert_eq!(
        odd.map(|at| text[at..].chars().take(40).collect::<String>()),
        None
    );
}

/// Each tag with its attributes' names, by the rules of HTML for what no script has touched.
#[track_caller]
fn tags(page: &str) -> BTreeSet<String> {
    let mut tags = BTreeSet::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let name = rest
            .find(|c: char| c.is_whitespace() || c == '>')
            .expect("an end");
        let mut tag = rest[..name].to_owned();
        rest = rest[name..].trim_start();
        while !rest.starts_with('>') {
            let end = rest.find(|c: char| c.is_whitespace() || "=>".contains(c));
            let end = end.expect("an end");
            tag = format!("{tag} {}", &rest[..end]);
            rest = &rest[end..];
            if let Some(value) = rest.strip_prefix("=\"") {
                rest = &value[value.find('"').expect("an end") + 1..];
            }
            rest = rest.trim_start();
        }
        tags.insert(tag);
    }
    tags
}

#[track_caller]
fn is_a_stream_of_events(text: &str) {
    let (_, body) = text.split_once("\r\n\r\n").expect("a body");
    let is_id = |id: &str| {
        let parts = id.split_once('-');
        parts.is_some_and(|(start, number)| start.len() == 16 && number.parse::<u64>().is_ok())
    };
    // The last line may not have come in full.
    let whole = &body[..=body.rfind('\n').expect("a line")];
    for line in whole.lines() {
        let (field, value) = line.split_once(": ").unwrap_or((line, ""));
        let is_right = match field {
            "id" => is_id(value),
            "event" => {
                ["hello", "change", "group", "history", "instances", "view"].contains(&value)
            }
            "data" => serde_json::from_str::<Value>(value).is_ok(),
            "retry" => value.parse::<u32>().is_ok(),
            // Between chunks there is their size.
            size => size.is_empty() || u32::from_str_radix(size, 16).is_ok(),
        };
        assert!(is_right, "{line:?}");
        is_plain(line);
    }
}

/// Each table has them: their record, their roles and troubles, their events.
fn are_everywhere(answer: &Answer) -> bool {
    let tables = [
        ("Roles", 3),
        ("Groups", 1),
        ("The last", 2),
        ("Instances", 5),
        ("Last changes", 3),
    ];
    tables.iter().all(|(caption, number)| {
        let table = answer.body.split_once(&format!("<caption>{caption}"));
        let table = table.and_then(|(_, rest)| rest.split_once("</table>"));
        table.is_some_and(|(table, _)| table.matches("mark").count() >= *number)
    })
}

#[track_caller]
fn has_the_usual_headers(answer: &Answer) {
    let names: BTreeSet<_> = answer.headers.iter().map(|(name, _)| &**name).collect();
    let known = BTreeSet::from([
        "allow",
        "cache-control",
        "connection",
        "content-length",
        "content-security-policy",
        "content-type",
        "cross-origin-opener-policy",
        "cross-origin-resource-policy",
        "date",
        "referrer-policy",
        "x-content-type-options",
    ]);
    assert!(names.is_subset(&known), "{names:?}");
}

/// What is told until strangers are in it.
async fn heard(events: &mut TcpStream) -> String {
    let mut stream = Vec::new();
    eventually(SOON, "strangers in the stream", async || {
        let mut some = vec![0; 65536];
        let count = events.read(&mut some).expect("events");
        stream.extend(&some[..count]);
        let text = String::from_utf8_lossy(&stream);
        let has = |kind: &str| {
            let mut events = text.split("\n\n").filter(|it| it.contains(kind));
            events.any(|it| it.contains("mark"))
        };
        (has("event: change") && has("event: history")).then_some(())
    })
    .await;
    String::from_utf8_lossy(&stream).into_owned()
}

#[track_caller]
fn is_a_log(log: &str) {
    assert!(log.contains("mark"), "{log}");
    is_plain(log);
    for line in log.lines() {
        let mut words = line.split_whitespace();
        let time = words.next().expect("a time");
        assert!(humantime::parse_rfc3339(time).is_ok(), "{line}");
        let level = words.next().expect("a level");
        assert!(
            ["ERROR", "WARN", "INFO", "DEBUG"].contains(&level),
            "{line}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_of_strangers_is_nothing_but_text() {
    let (server, _real) = led().await;
    write_map(&server, "odd", 1, 1, |_| Some(0)).await;
    let client = client(&server).await;
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let mut command = at(&server, &["serve", "--interval", "1s", "-vv"]);
    command.stderr(File::create(&log).expect("a file"));
    let serve = Serving::start(command);
    let clean = |answer: &Answer| answer.body.contains("node-1: leader");
    let before = serve.until("a page without strangers", "/", clean).await;
    let mut events = serve.connect();
    let request = format!(
        "GET /api/v1/events HTTP/1.1\r\nHost: {}\r\n\r\n",
        serve.address
    );
    events.write_all(request.as_bytes()).expect("sent");

    let answering = foreign_instances(&client).await;
    let writing = foreign_writer(&client).await;
    let page = serve
        .until("strangers on the page", "/", are_everywhere)
        .await;
    is_plain(&page.body);
    // A timeline's picture and a role's candidates may be new, nothing else.
    let more: BTreeSet<_> = tags(&page.body)
        .difference(&tags(&before.body))
        .cloned()
        .collect();
    let expected = ["/li", "/ul", "li", "ul", "span class", "/span"];
    let odd: Vec<_> = more
        .iter()
        .filter(|it| !expected.contains(&&***it))
        .collect();
    assert!(odd.is_empty(), "{odd:?}");

    let told = |answer: &Answer| answer.body.contains("instance_id=\"mark");
    let metrics = serve.until("strangers in metrics", "/metrics", told).await;
    is_plain(&metrics.body);
    is_read_by_promtool(&metrics.body);
    let forged = metrics
        .body
        .lines()
        .filter(|line| line.contains("election_forged"));
    for line in forged {
        assert!(line.starts_with("election_observed_"), "{line}");
    }

    let mut answers = vec![page, metrics];
    for path in [
        "/api/v1/roles",
        "/api/v1/roles/odd",
        "/api/v1/instances",
        "/api/v1/history",
        "/api/v1/leader/odd/node-1",
        "/api/v1/groups",
        "/api/v1/groups/odd",
        "/api/v1/groups/odd/owner?unit=0",
        "/api/v1/groups/%3Cscript%3E/owner?key=%0d%0aSet-Cookie:%20a=b",
        "/api/v1/groups/odd/owner?unit=%1b%5b2J%3Cscript%3E",
        "/api/v1/openapi.json",
        "/api/v1/leader/%0d%0aSet-Cookie:%20a=b/%1b%5b2J%e2%80%ae%3Cscript%3E",
        "/api/v1/roles/%3Cscript%3Ealert(1)%3C/script%3E",
        "/api/v1/roles?bucket=%0d%0aSet-Cookie:%20a=b",
        "/api/v1/roles?%0d%0aSet-Cookie:%20a=b",
        "/api/v1/history?since=%0d%0aSet-Cookie:%20a=b",
        "/%0d%0aSet-Cookie:%20a=b",
    ] {
        let answer = serve.get(path);
        is_plain(&answer.body);
        serde_json::from_str::<Value>(&answer.body).expect(path);
        answers.push(answer);
    }
    assert!(answers[2].body.contains("mark") && answers[3].body.contains("mark"));
    answers.iter().for_each(has_the_usual_headers);

    let stream = heard(&mut events).await;
    is_a_stream_of_events(&stream);

    answering.abort();
    writing.abort();
    serve.terminate();
    drop(serve);
    let log = fs::read_to_string(log).expect("text");
    is_a_log(&log);
}
