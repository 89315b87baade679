//! What a client publishes, as the proxy sees it.

use std::sync::Mutex;

/// The subjects of the messages of all connections, since they are recorded.
#[derive(Debug, Default)]
pub(super) struct Transcript(Mutex<Option<Vec<String>>>);

impl Transcript {
    pub(super) fn begin(&self) {
        *self.0.lock().expect("no panic") = Some(Vec::new());
    }

    pub(super) fn so_far(&self) -> Vec<String> {
        self.0.lock().expect("no panic").clone().unwrap_or_default()
    }

    fn add(&self, subject: &str) {
        if let Some(messages) = self.0.lock().expect("no panic").as_mut() {
            messages.push(subject.to_owned());
        }
    }
}

/// Finds the messages in the client's side of a connection, however reads cut it.
#[derive(Debug, Default)]
pub(super) struct Listener {
    line: Vec<u8>,
    /// The bytes of a payload that are still to come.
    payload: usize,
}

impl Listener {
    pub(super) fn hear(&mut self, mut bytes: &[u8], transcript: &Transcript) {
        while !bytes.is_empty() {
            let skipped = self.payload.min(bytes.len());
            self.payload -= skipped;
            bytes = &bytes[skipped..];
            let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                self.line.extend_from_slice(bytes);
                return;
            };
            self.line.extend_from_slice(&bytes[..=end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            let mut words = line
                .split(u8::is_ascii_whitespace)
                .filter(|it| !it.is_empty());
            if let Some(b"PUB" | b"HPUB") = words.next() {
                let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
                let size = words.last().and_then(|size| size.parse::<usize>().ok());
                self.payload = size.map_or(0, |size| size + 2);
                if let Some(subject) = words.first() {
                    transcript.add(subject);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_however_reads_cut_the_stream() {
        let stream = b"CONNECT {}\r\nPING\r\nPUB a.b 5\r\nPUB x\r\n\
            HPUB c _INBOX.1 12 17\r\nNATS/1.0\r\n\r\nhello\r\nSUB d 1\r\nPUB e 0\r\n\r\nPUB f 1\r\n\n\r\n";
        for size in 1..=stream.len() {
            let (mut listener, transcript) = (Listener::default(), Transcript::default());
            transcript.begin();
            for part in stream.chunks(size) {
                listener.hear(part, &transcript);
            }
            assert_eq!(
                transcript.so_far(),
                ["a.b", "c", "e", "f"],
                "reads of {size}"
            );
        }
    }
}
