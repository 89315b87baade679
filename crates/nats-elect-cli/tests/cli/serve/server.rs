//! A running `nats-elect serve`, and requests to it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use nats_elect_testing::eventually;
use rustix::process::Signal;
use serde_json::Value;

use crate::fleet::{SOON, json};
use crate::running::{Process, Teller};

pub struct Serving {
    process: Process,
    pub address: String,
}

/// What it answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

pub fn is_ok(answer: &Answer) -> bool {
    answer.status == 200
}

impl Serving {
    /// On any port.
    pub fn start(command: Command) -> Self {
        Self::start_at(command, "127.0.0.1:0")
    }

    pub fn start_at(mut command: Command, address: &str) -> Self {
        let mut serve = Teller::of_stdout(command.args(["--listen", address]));
        let address = serve.tells("http://");
        let process = serve.process;
        Self { process, address }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }

    /// A request with more headers.
    pub fn ask(&self, method: &str, path: &str, headers: &str) -> Answer {
        let address = &self.address;
        self.send(&format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n"
        ))
    }

    /// Sends this, and reads all that comes.
    pub fn send(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        // It may be refused before it was read.
        let _ = stream.write_all(request.as_bytes());
        Answer::read(stream)
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(SOON)).expect("a timeout");
        stream.set_write_timeout(Some(SOON)).expect("a timeout");
        stream
    }

    /// The answer as soon as it satisfies this.
    pub async fn until(&self, what: &str, path: &str, is_so: impl Fn(&Answer) -> bool) -> Answer {
        eventually(SOON, what, async || {
            let answer = self.get(path);
            is_so(&answer).then_some(answer)
        })
        .await
    }

    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    pub fn terminate(&self) {
        self.process.signal(Signal::TERM);
    }

    pub fn code(&mut self) -> Option<i32> {
        self.process.0.wait().expect("its end").code()
    }
}

impl Answer {
    /// All that comes.
    #[track_caller]
    pub fn read(mut stream: TcpStream) -> Self {
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        Self::parse(&String::from_utf8(text).expect("text"))
    }

    #[track_caller]
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect(text);
        let mut lines = head.lines();
        let status = lines.next().and_then(|it| it.split(' ').nth(1));
        let status = status.expect("a status").parse().expect("a number");
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").expect("a header");
            (name.to_ascii_lowercase(), value.to_owned())
        };
        Self {
            status,
            headers: lines.map(header).collect(),
            body: body.to_owned(),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let of = |it: &&(String, String)| it.0 == name;
        self.headers.iter().find(of).map(|(_, value)| &**value)
    }

    /// In the notation of `docs/admin.md`.
    #[track_caller]
    pub fn json(&self) -> Value {
        json(&self.body)
    }
}

/// For answers that an attempt may not get.
pub const SHORTLY: Duration = Duration::from_secs(12);
