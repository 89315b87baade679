//! What is asked of `serve` while the drill runs, and how its answers are read.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::onlooker::{Event, Sight};
use ::drill::Moment;
use ::drill::journal::Journal;

/// The pause between two rounds of questions.
const ROUND: Duration = Duration::from_millis(250);
/// No answer for so long is none.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a stream of events is read. Then it is resumed, as after a lost connection.
const STREAM: Duration = Duration::from_secs(60);
/// How long a stream is left unread.
const UNREAD: Duration = Duration::from_secs(300);
const AGAIN: Duration = Duration::from_millis(50);
/// What dashboards and browsers read.
const PAGES: [&str; 4] = ["/", "/metrics", "/api/v1/roles", "/readyz"];

/// Follows the stream of events, and resumes it where it ended.
pub async fn follow_events(address: Arc<str>, writer: Arc<Journal>) {
    let mut last = None;
    loop {
        let _ = timeout(STREAM, read_events(&address, &mut last, &writer)).await;
        tokio::time::sleep(AGAIN).await;
    }
}

async fn read_events(address: &str, last: &mut Option<String>, writer: &Journal) -> io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let after = last.as_ref();
    let after = after.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
    let request = format!("GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\n{after}\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut lines = tokio::io::BufReader::new(stream).lines();
    let (mut id, mut kind) = (String::new(), String::new());
    // Between the chunks of the body nothing looks like these fields.
    while let Some(line) = lines.next_line().await? {
        if let Some(it) = line.strip_prefix("id: ") {
            it.clone_into(&mut id);
        } else if let Some(it) = line.strip_prefix("event: ") {
            it.clone_into(&mut kind);
        } else if let Some(it) = line.strip_prefix("data: ") {
            let data = serde_json::from_str(it).unwrap_or_default();
            let event = event_of(&kind, &data).ok_or_else(|| {
                eprintln!("chaos: serve told an event that can't be read: {kind} {it}");
                io::ErrorKind::InvalidData
            })?;
            writer.write(Sight::Event {
                id: id.clone(),
                event,
            });
            *last = Some(id.clone());
        }
    }
    Ok(())
}

fn event_of(kind: &str, data: &Value) -> Option<Event> {
    let text = |field: &str| data[field].as_str().map(ToOwned::to_owned);
    Some(match kind {
        "hello" => Event::Hello,
        "reload" => Event::Reload,
        "change" => Event::Change {
            role: text("role")?,
            to: serde_json::from_value(data["to"].clone()).ok()?,
            cause: text("cause")?,
        },
        "view" => Event::View {
            current: data["current"].as_bool()?,
        },
        "history" if data["event"] == "term_started" => Event::Started {
            role: text("role")?,
            instance: text("instance_id")?,
            incarnation: text("incarnation")?,
            token: serde_json::from_value(data["fencing_token"].clone()).ok()?,
        },
        _ => Event::Other,
    })
}

/// Begins streams of events, and does not read them.
pub async fn read_nothing(address: Arc<str>) {
    loop {
        if let Ok(stream) = stream_with_a_small_window(&address).await {
            tokio::time::sleep(UNREAD).await;
            drop(stream);
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn stream_with_a_small_window(address: &str) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(2048)?;
    let address = address.parse().map_err(io::Error::other)?;
    let mut stream = socket.connect(address).await?;
    let request = format!("GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    Ok(stream)
}

/// Asks for all pairs of roles and instances, and for what dashboards and browsers read, all at a
/// time, again and again until it is told to stop.
pub async fn ask(
    address: Arc<str>,
    pairs: Vec<(String, String)>,
    writer: Arc<Journal>,
    stopped: watch::Receiver<bool>,
) {
    while !is_found(&address, "/readyz").await {
        tokio::time::sleep(ROUND).await;
    }
    let mut rounds = interval(ROUND);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !*stopped.borrow() {
        rounds.tick().await;
        let pages = PAGES.map(|path| is_found(&address, path));
        let leads = pairs.iter();
        let leads = leads.map(|(role, instance)| ask_who_leads(&address, role, instance, &writer));
        let (pages, leads) = tokio::join!(join_all(pages), join_all(leads));
        writer.write(Sight::Round {
            asked: pages.len() + leads.len(),
            unanswered: pages.iter().chain(&leads).filter(|it| !**it).count(),
        });
    }
}

/// Returns whether there was an answer.
async fn ask_who_leads(address: &str, role: &str, instance: &str, writer: &Journal) -> bool {
    let asked = Moment::now();
    let path = format!("/api/v1/leader/{role}/{instance}");
    let Some((status, body)) = get(address, &path).await else {
        return false;
    };
    if status == 200 {
        let body: Value = serde_json::from_str(&body).unwrap_or_default();
        let token = serde_json::from_value(body["fencing_token"].clone());
        writer.write(Sight::Leads {
            asked,
            role: role.to_owned(),
            instance: instance.to_owned(),
            token: token.ok(),
        });
    }
    status == 200 || status == 503
}

async fn is_found(address: &str, path: &str) -> bool {
    let answer = get(address, path).await;
    answer.is_some_and(|(status, body)| status == 200 && !body.is_empty())
}

/// Status and body of an answer, if it came in time.
async fn get(address: &str, path: &str) -> Option<(u16, String)> {
    let answer = async {
        let mut stream = TcpStream::connect(address).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        io::Result::Ok(answer)
    };
    let answer = timeout(PATIENCE, answer).await.ok()?.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}
