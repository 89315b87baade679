//! The least client of an agent that a test needs: HTTP/1.1 by hand, so that each byte is known.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// Longer than any answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Client {
    reader: BufReader<Box<dyn Connection>>,
    secret: Option<String>,
}

pub trait Connection: Read + Write + Send {
    fn sends_no_more(&self) -> io::Result<()>;
}

impl Connection for UnixStream {
    fn sends_no_more(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl Connection for TcpStream {
    fn sends_no_more(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(it, _)| it == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The code of a refusal, which has to be in the form of all refusals.
    pub fn problem(&self) -> (u16, String) {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        let body = self.json();
        assert_eq!(body["status"], self.status);
        assert!(!body["detail"].as_str().expect("a text").is_empty());
        (
            self.status,
            body["code"].as_str().expect("a code").to_owned(),
        )
    }
}

impl Client {
    pub fn connect(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self::over(Box::new(stream)))
    }

    pub fn on_loopback(address: SocketAddr, secret: Option<&str>) -> io::Result<Self> {
        Ok(Self::on(TcpStream::connect(address)?, secret))
    }

    pub fn on(stream: TcpStream, secret: Option<&str>) -> Self {
        let patient = stream.set_read_timeout(Some(PATIENCE));
        patient.expect("a time that is not zero");
        Self {
            secret: secret.map(ToOwned::to_owned),
            ..Self::over(Box::new(stream))
        }
    }

    fn over(connection: Box<dyn Connection>) -> Self {
        Self {
            reader: BufReader::new(connection),
            secret: None,
        }
    }

    pub fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"")
    }

    pub fn post(&mut self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, &[], body.as_bytes())
    }

    #[track_caller]
    pub fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        self.try_ask(method, path, headers, body)
            .expect("an answer")
    }

    /// Asks somebody who may end meanwhile.
    pub fn try_ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Answer> {
        self.send(method, path, headers, body)?;
        let (status, headers) = self.head()?;
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length.map_or(0, |(_, length)| length.parse().expect("a length"));
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body)?;
        Ok(Answer {
            status,
            headers,
            body,
        })
    }

    fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<()> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: agent\r\n");
        let secret = self.secret.as_ref().map(|it| format!("Bearer {it}"));
        let secret = secret.iter().map(|it| ("authorization", it.as_str()));
        for (name, value) in headers.iter().copied().chain(secret) {
            request.extend([name, ": ", value, "\r\n"]);
        }
        let length = body.len().to_string();
        request.extend(["content-length: ", &length, "\r\n\r\n"]);
        self.raw(&[request.as_bytes(), body].concat())
    }

    /// Sends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    fn head(&mut self) -> io::Result<(u16, Vec<(String, String)>)> {
        let line = self.line()?;
        let status = line.split(' ').nth(1).and_then(|it| it.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status: {line}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(": ") else {
                return Ok((status, headers));
            };
            headers.push((name.to_lowercase(), value.to_owned()));
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }

    /// Stands for a role. The connection is the stream from now on.
    pub fn stand(self, role: &str) -> Stream {
        self.stand_with(role, "")
    }

    pub fn stand_with(mut self, role: &str, settings: &str) -> Stream {
        let path = format!("/v1/roles/{role}");
        let sent = self.send("POST", &path, &[], settings.as_bytes());
        sent.expect("a request");
        let (status, _) = self.head().expect("an answer");
        assert_eq!(status, 200, "{role} is stood for");
        Stream(self)
    }
}

/// The stream of a role's terms.
pub struct Stream(Client);

impl Stream {
    /// The next event of this name, and what it says. Others are passed over.
    pub fn next(&mut self, wanted: &str) -> Value {
        let mut event = String::new();
        loop {
            let line = self.0.line().expect("the stream goes on");
            if let Some(name) = line.strip_prefix("event: ") {
                name.clone_into(&mut event);
            }
            let data = line.strip_prefix("data: ").filter(|_| event == wanted);
            if let Some(data) = data {
                return serde_json::from_str(data).expect("JSON");
            }
        }
    }

    /// Waits for a term, and returns its path.
    pub fn promoted(&mut self, role: &str) -> String {
        let told = self.next("promoted");
        let token = told["fencing_token"].as_str().expect("a token");
        format!("/v1/roles/{role}/terms/{token}")
    }

    /// Closes one direction of the connection, and keeps the other.
    pub fn sends_no_more(&mut self) {
        self.0.reader.get_ref().sends_no_more().expect("a shutdown");
    }

    /// Whether the stream has ended.
    pub fn ends(&mut self) -> bool {
        loop {
            if self.0.line().is_err() {
                return true;
            }
        }
    }
}
