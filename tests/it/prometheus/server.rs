//! A real Prometheus for the time of a test.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nats_elect_testing::eventually;
use serde_json::Value;

use super::deploy;
use super::programs::programs;

/// Runs a program until the input ends, which it also does when whoever holds the other end is
/// killed.
const GUARD: &str = r#"
trap '' HUP INT TERM
"$@" &
while read -r _; do :; done
kill -KILL $! 2>/dev/null
wait $!
"#;
const SOON: Duration = Duration::from_secs(30);

/// A Prometheus on a loopback port. When this is dropped it is killed, and its data removed.
pub struct Prometheus {
    folder: tempfile::TempDir,
    port: u16,
    guard: Child,
}

/// One series of an answer.
#[derive(Clone, Debug)]
pub struct Series {
    pub labels: Value,
    pub value: f64,
}

impl Series {
    pub fn label(&self, name: &str) -> &str {
        self.labels[name].as_str().unwrap_or_default()
    }
}

impl Prometheus {
    /// Starts it with our rules. It scrapes what stands in `targets.json`, see
    /// [`scrape`](Self::scrape).
    pub async fn start() -> Self {
        for _ in 0..5 {
            if let Some(prometheus) = Self::try_start().await {
                return prometheus;
            }
        }
        panic!("no free port");
    }

    /// `None` if somebody took the port before.
    async fn try_start() -> Option<Self> {
        let folder = tempfile::Builder::new()
            .prefix("prometheus-")
            .tempdir()
            .expect("a folder");
        let rules = deploy().join("prometheus");
        let config = serde_json::json!({
            "global": { "scrape_interval": "500ms", "scrape_timeout": "400ms", "evaluation_interval": "500ms" },
            "rule_files": [rules.join("recording_rules.yml"), rules.join("alerts.yml")],
            "scrape_configs": [{
                "job_name": "control-plane",
                "file_sd_configs": [{ "files": ["targets.json"], "refresh_interval": "1s" }],
            }],
        });
        // JSON is YAML.
        fs::write(folder.path().join("prometheus.yml"), config.to_string()).expect("a file");
        let port = free_port();
        let mut prometheus = Self {
            guard: guarded(folder.path(), port),
            folder,
            port,
        };
        let ready = eventually(SOON, "an answer of Prometheus", async || {
            let log = prometheus.log();
            if log.contains("address already in use") {
                return Some(false);
            }
            let ended = prometheus.guard.try_wait().expect("a child");
            assert!(ended.is_none(), "Prometheus does not start:\n{log}");
            let ready = prometheus.get("/-/ready")?;
            ready.starts_with("Prometheus").then_some(true)
        })
        .await;
        ready.then_some(prometheus)
    }

    /// Scrapes these addresses from now on.
    pub fn scrape(&self, addresses: &[SocketAddr]) {
        let targets: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
        let targets = serde_json::json!([{ "targets": targets }]);
        let file = self.folder.path().join("targets.json");
        fs::write(file, targets.to_string()).expect("a file");
    }

    /// The answer to an instant query, at this moment. `None` if there was no answer.
    ///
    /// # Panics
    /// If Prometheus refuses the query.
    pub fn query(&self, expression: &str) -> Option<Vec<Series>> {
        let answer = self.get(&format!("/api/v1/query?query={}", encoded(expression)))?;
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        let result = &answer["data"]["result"];
        assert_eq!(answer["data"]["resultType"], "vector", "{expression}");
        let series = result
            .as_array()
            .expect("a vector")
            .iter()
            .map(|series| Series {
                labels: series["metric"].clone(),
                value: series["value"][1]
                    .as_str()
                    .expect("a value")
                    .parse()
                    .expect("a number"),
            });
        Some(series.collect())
    }

    /// Waits until a query has an answer that will do, and returns it.
    pub async fn until(
        &self,
        what: &str,
        expression: &str,
        will_do: impl Fn(&[Series]) -> bool,
    ) -> Vec<Series> {
        self.within(SOON, what, expression, will_do).await
    }

    /// As [`until`](Self::until), for so long at most.
    pub async fn within(
        &self,
        time: Duration,
        what: &str,
        expression: &str,
        will_do: impl Fn(&[Series]) -> bool,
    ) -> Vec<Series> {
        eventually(time, what, async || {
            self.query(expression).filter(|series| will_do(series))
        })
        .await
    }

    /// Of every rule that is loaded: its name, and what went wrong in its last evaluation.
    pub fn rules(&self) -> Vec<(String, Option<String>)> {
        let answer = self.get("/api/v1/rules").expect("an answer");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let groups = answer["data"]["groups"].as_array().expect("groups").clone();
        let rules = groups
            .iter()
            .flat_map(|group| group["rules"].as_array().expect("rules"));
        rules
            .map(|rule| {
                let error = rule["lastError"].as_str().filter(|error| !error.is_empty());
                (
                    rule["name"].as_str().expect("a name").to_owned(),
                    error.map(str::to_owned),
                )
            })
            .collect()
    }

    /// The body of an answer.
    fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
        stream.set_read_timeout(Some(SOON)).ok()?;
        // Of this version answers come in one piece, and end with the connection.
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer
            .split_once("\r\n\r\n")
            .map(|(_, body)| body.to_owned())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

fn guarded(folder: &Path, port: u16) -> Child {
    let log = fs::File::create(folder.join("log")).expect("a file");
    let again = log.try_clone().expect("a file");
    Command::new("/bin/sh")
        .args(["-c", GUARD, "prometheus-guard"])
        .arg(programs().join("prometheus"))
        .arg("--config.file=prometheus.yml")
        .arg("--storage.tsdb.path=data")
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(log)
        .stderr(again)
        .spawn()
        .expect("a guard")
}

/// Somebody may take it before whom it is for.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
