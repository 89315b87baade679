//! Separates publish acks from the rest of the server's data.

use std::mem;

use serde_json::Value;

/// Longer than any protocol line. Data without a line end by then is not NATS.
const LONGEST_LINE: usize = 1 << 20;

/// Bytes that must stay together: one ack, or a run of other whole protocol messages.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    pub(super) is_ack: bool,
}

/// Splits the server's side of a connection between its protocol messages, however reads cut it.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    partial: Vec<u8>,
    /// The data is not NATS protocol, or not any more, because TLS starts after the first line.
    /// Everything is passed on as it comes.
    opaque: bool,
}

/// The first protocol message of some bytes.
enum Message {
    Whole { length: usize, is_ack: bool },
    Partial,
    Foreign,
}

impl Splitter {
    pub(super) fn split(&mut self, bytes: &[u8]) -> Vec<Piece> {
        self.partial.extend_from_slice(bytes);
        let mut pieces = Vec::new();
        let mut ordinary = 0..0;
        while !self.opaque {
            match first_message(&self.partial[ordinary.end..]) {
                Message::Whole {
                    length,
                    is_ack: false,
                } => ordinary.end += length,
                Message::Whole {
                    length,
                    is_ack: true,
                } => {
                    let ack = ordinary.end..ordinary.end + length;
                    self.piece(ordinary.clone(), false, &mut pieces);
                    self.piece(ack.clone(), true, &mut pieces);
                    ordinary = ack.end..ack.end;
                }
                Message::Partial => break,
                Message::Foreign => self.opaque = true,
            }
        }
        if self.opaque {
            ordinary.end = self.partial.len();
        }
        self.piece(ordinary.clone(), false, &mut pieces);
        self.partial.drain(..ordinary.end);
        pieces
    }

    /// Returns the rest of a message that will never be whole.
    pub(super) fn rest(&mut self) -> Option<Piece> {
        let bytes = mem::take(&mut self.partial);
        (!bytes.is_empty()).then_some(Piece {
            bytes,
            is_ack: false,
        })
    }

    fn piece(&self, range: std::ops::Range<usize>, is_ack: bool, pieces: &mut Vec<Piece>) {
        if !range.is_empty() {
            pieces.push(Piece {
                bytes: self.partial[range].to_vec(),
                is_ack,
            });
        }
    }
}

fn first_message(bytes: &[u8]) -> Message {
    let Some(line_end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
        return match bytes.first() {
            Some(b'I' | b'M' | b'H' | b'P' | b'+' | b'-') if bytes.len() <= LONGEST_LINE => {
                Message::Partial
            }
            Some(_) => Message::Foreign,
            None => Message::Partial,
        };
    };
    let Ok(line) = std::str::from_utf8(&bytes[..line_end]) else {
        return Message::Foreign;
    };
    let head = line_end + 2;
    let mut words = line.split_ascii_whitespace();
    match words.next() {
        Some("INFO" | "PING" | "PONG" | "+OK" | "-ERR") => Message::Whole {
            length: head,
            is_ack: false,
        },
        Some(verb @ ("MSG" | "HMSG")) => {
            let arguments: Vec<_> = words.collect();
            let Some(Ok(size)) = arguments.last().map(|size| size.parse::<usize>()) else {
                return Message::Foreign;
            };
            let length = head + size + 2;
            if bytes.len() < length {
                return Message::Partial;
            }
            // The arguments are subject, subscription and size. Acks have no headers. Unlike
            // watched records, they have no reply subject.
            let may_be_ack = verb == "MSG" && arguments.len() == 3;
            Message::Whole {
                length,
                is_ack: may_be_ack && is_ack(&bytes[head..head + size]),
            }
        }
        _ => Message::Foreign,
    }
}

/// Returns whether this is the answer to a publish: `{"stream":…,"seq":…}`, or the refusal
/// `{"error":…,"stream":…}`.
fn is_ack(payload: &[u8]) -> bool {
    if payload.first() != Some(&b'{') {
        return false;
    }
    let Ok(answer) = serde_json::from_slice::<Value>(payload) else {
        return false;
    };
    let is_api = answer["type"]
        .as_str()
        .is_some_and(|kind| kind.starts_with("io.nats.jetstream.api"));
    let has = |field| answer.get(field).is_some();
    !is_api && has("stream") && (has("seq") || has("error"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "INFO {\"server_id\":\"X\"}\r\n";
    const PONG: &str = "PONG\r\n";

    fn message(subject: &str, payload: &str) -> String {
        format!("MSG {subject} 1 {}\r\n{payload}\r\n", payload.len())
    }

    fn ack() -> String {
        message("_INBOX.a.1", r#"{"stream":"KV_b", "seq":7}"#)
    }

    fn refusal() -> String {
        message(
            "_INBOX.a.2",
            r#"{"error":{"code":400,"err_code":10071},"stream":"KV_b","seq":0}"#,
        )
    }

    fn ordinary() -> [String; 5] {
        let record = r#"{"stream":"x","seq":1}"#;
        [
            message(
                "_INBOX.a.3",
                r#"{"type":"io.nats.jetstream.api.v1.stream_info_response","stream":1,"seq":1}"#,
            ),
            message("events", "text with MSG x 1 3\r\n in it"),
            message("events", ""),
            format!("MSG $KV.b.key 2 $JS.ACK.x {}\r\n{record}\r\n", record.len()),
            format!(
                "HMSG _INBOX.a.4 1 12 {}\r\nNATS/1.0\r\n\r\n{record}\r\n",
                12 + record.len()
            ),
        ]
    }

    /// Returns the acks and the rest, each joined again.
    fn sort(pieces: Vec<Piece>) -> (String, String) {
        let mut sorted = (Vec::new(), Vec::new());
        for piece in pieces {
            let side = if piece.is_ack {
                &mut sorted.0
            } else {
                &mut sorted.1
            };
            side.extend(piece.bytes);
        }
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (text(sorted.0), text(sorted.1))
    }

    #[test]
    fn acks_are_found_however_reads_cut_the_stream() {
        let ordinary = ordinary();
        let mut stream = INFO.to_owned() + PONG;
        let mut rest = stream.clone();
        for message in &ordinary {
            stream += &(ack() + message + &refusal());
            rest += message;
        }
        let acks = (ack() + &refusal()).repeat(ordinary.len());
        for size in 1..=stream.len() {
            let mut splitter = Splitter::default();
            let pieces = stream
                .as_bytes()
                .chunks(size)
                .flat_map(|chunk| splitter.split(chunk))
                .collect();
            assert_eq!(
                sort(pieces),
                (acks.clone(), rest.clone()),
                "reads of {size}"
            );
            assert_eq!(splitter.rest(), None);
        }
    }

    #[test]
    fn the_order_of_arrival_is_kept() {
        let mut splitter = Splitter::default();
        let kinds: Vec<_> = splitter
            .split((PONG.to_owned() + PONG + &ack() + &ack() + PONG).as_bytes())
            .into_iter()
            .map(|piece| piece.is_ack)
            .collect();
        assert_eq!(kinds, [false, true, true, false]);
    }

    #[test]
    fn bytes_after_a_start_of_tls_pass_untouched() {
        let mut splitter = Splitter::default();
        let handshake = [0x16, 3, 3, 0, 122, b'\r', b'\n'];
        let stream = [INFO.as_bytes(), &handshake].concat();
        let pieces = splitter.split(&stream);
        assert_eq!(
            pieces,
            [Piece {
                bytes: stream,
                is_ack: false
            }]
        );
        assert_eq!(splitter.split(ack().as_bytes()).len(), 1);
    }
}
