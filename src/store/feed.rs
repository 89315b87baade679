//! Interprets the messages of a watch, in order.

use std::time::{Duration, SystemTime};

use async_nats::header::NATS_LAST_CONSUMER;
use async_nats::{Message, StatusCode};

use super::entry::{fence_entry, role_entry};
use super::error::StoreError;
use super::settings::StreamState;
use nats_elect_core::name::RoleName;
use nats_elect_core::record::{Entry, FenceEntry};

/// The header with the subject to answer to, where the server waits for the watcher.
const STALLED: &str = "Nats-Consumer-Stalled";

/// The prefix of the keys of fence records.
pub(super) const FENCES: &str = "_fence.";

/// The counted messages of one watch.
#[derive(Debug)]
pub struct Feed {
    /// The prefix of the subjects of keys.
    prefix: String,
    /// The number of messages received. It reveals a missing message.
    received: u64,
    /// The last message's sequence in the stream.
    position: u64,
    /// Whether the server had more to send when it sent the last message.
    more: bool,
    /// When the server stored the last message, by its clock.
    written: Option<SystemTime>,
    /// Whether the initial state has arrived, as of the beginning of the watch.
    caught_up: CaughtUp,
}

/// The progress of a watch through the initial state, as of its beginning.
#[derive(Debug)]
enum CaughtUp {
    Yes,
    /// The watch catches up with the message at this sequence.
    At(u64),
    /// The position is not requested.
    Unknown,
}

/// The content of one message.
#[derive(Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The last message of a role's key.
    Entry(RoleName, Entry),
    /// The last message of a role's fence key, where fence keys are watched too.
    Fence(RoleName, FenceEntry),
    /// A message that concerns no role.
    Nothing,
    /// The watch's server has sent all that it has.
    Idle,
    /// The server waits for an empty message on this subject.
    Waiting(String),
}

/// A message that was counted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// A message of the bucket, by its stream sequence.
    Stored(u64),
    /// As [`Delivery::Idle`].
    Idle,
    /// As [`Delivery::Waiting`].
    Waiting(String),
}

impl Feed {
    /// Creates the feed of a watch on the keys under this prefix, with no message received.
    pub const fn new(prefix: String) -> Self {
        Self {
            prefix,
            received: 0,
            position: 0,
            more: false,
            written: None,
            caught_up: CaughtUp::Unknown,
        }
    }

    /// Sets the sequence to catch up with: that of the last message of the role keys, read after
    /// the watch had begun, or nothing if there was none. Ask the stream's leader for it. The
    /// watch's server may lag behind the leader, and would count only its own messages.
    pub fn catches_up_at(&mut self, last: Option<u64>) {
        self.caught_up = last.map_or(CaughtUp::Yes, CaughtUp::At);
    }

    /// Returns whether the initial state has arrived, as of the beginning of the watch.
    pub const fn has_caught_up(&self) -> bool {
        matches!(self.caught_up, CaughtUp::Yes)
    }

    /// Returns whether the server had more to send when it sent the last message.
    pub const fn has_more(&self) -> bool {
        self.more
    }

    /// Returns whether a new watch would sooner be up to date: this one has shown as many messages
    /// as the stream has, and since the one that it showed last more were stored.
    pub(super) const fn is_behind(&self, stream: &StreamState) -> bool {
        self.more
            && self.received > stream.messages
            && stream.last_seq.saturating_sub(self.position) > stream.messages
    }

    /// Returns when the server stored the last message of the bucket, by its clock. The time is for
    /// people: it decides nothing.
    pub const fn written(&self) -> Option<SystemTime> {
        self.written
    }

    /// Takes the next message.
    ///
    /// # Errors
    ///
    /// Any irregularity ends the watch: a message is missing, or the server sends another status
    /// than its heartbeat.
    pub fn take(&mut self, message: &Message) -> Result<Delivery, StoreError> {
        Ok(match self.count(message)? {
            Counted::Stored(sequence) => self.read(message, sequence),
            Counted::Idle => Delivery::Idle,
            Counted::Waiting(subject) => Delivery::Waiting(subject),
        })
    }

    /// Counts the next message, whatever it says.
    ///
    /// # Errors
    ///
    /// The same as [`take`](Self::take).
    pub(super) fn count(&mut self, message: &Message) -> Result<Counted, StoreError> {
        // Only messages that the bucket holds have a position. The writer of such a message chooses
        // its headers, a status among them.
        if let Some(position) = message.reply.as_deref().and_then(Position::parse) {
            return self.stored(&position);
        }
        match message.status {
            None => Err(broken("a message has no position")),
            Some(StatusCode::IDLE_HEARTBEAT) => self.heartbeat(message),
            Some(status) => Err(broken(&format!("the server says {status}"))),
        }
    }

    fn stored(&mut self, position: &Position) -> Result<Counted, StoreError> {
        self.received += 1;
        if position.in_consumer != self.received {
            return Err(broken("a message is missing"));
        }
        if let CaughtUp::At(last) = self.caught_up
            && position.in_stream >= last
        {
            self.caught_up = CaughtUp::Yes;
        }
        self.position = position.in_stream;
        self.more = position.more;
        self.written = position.written;
        Ok(Counted::Stored(position.in_stream))
    }

    fn read(&self, message: &Message, sequence: u64) -> Delivery {
        let headers = message.headers.as_ref();
        let key = message.subject.strip_prefix(&*self.prefix);
        if let Some(role) = key.and_then(|key| key.strip_prefix(FENCES)) {
            let Ok(role) = RoleName::new(role) else {
                return Delivery::Nothing;
            };
            let fence = fence_entry(sequence, headers, &message.payload);
            return Delivery::Fence(role, fence);
        }
        // A key that is not a role name belongs to another application.
        let Some(role) = key.and_then(|key| RoleName::new(key).ok()) else {
            return Delivery::Nothing;
        };
        let entry = role_entry(sequence, headers, &message.payload);
        Delivery::Entry(role, entry)
    }

    fn heartbeat(&mut self, message: &Message) -> Result<Counted, StoreError> {
        let header = |name: &str| Some(message.headers.as_ref()?.get_last(name)?.as_str());
        if header(NATS_LAST_CONSUMER.as_ref()).is_some_and(|last| last.parse() != Ok(self.received))
        {
            return Err(broken("a message is missing"));
        }
        let flow = message.reply.as_deref().or_else(|| header(STALLED));
        if let Some(subject) = flow {
            return Ok(Counted::Waiting(subject.to_owned()));
        }
        self.more = false;
        Ok(Counted::Idle)
    }
}

/// The position of a message, from its reply subject.
#[derive(Debug, PartialEq, Eq)]
struct Position {
    in_stream: u64,
    in_consumer: u64,
    written: Option<SystemTime>,
    /// Whether other messages were to follow.
    more: bool,
}

impl Position {
    /// Parses `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer
    /// seq>.<time>.<pending>`. The longer form has a domain and an account hash before the stream.
    fn parse(reply: &str) -> Option<Self> {
        let tokens: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
        let before = match tokens.len() {
            7 => 0,
            9.. => 2,
            _ => return None,
        };
        Some(Self {
            in_stream: tokens[before + 3].parse().ok()?,
            in_consumer: tokens[before + 4].parse().ok()?,
            written: tokens[before + 5].parse().ok().and_then(time),
            more: tokens[before + 6] != "0",
        })
    }
}

/// Reads nanoseconds since the Unix epoch.
fn time(nanos: u64) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(nanos))
}

/// Returns the error of a watch that has ended.
pub(super) fn broken(why: &str) -> StoreError {
    StoreError::Unavailable(format!("the watch is broken: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(position: Option<&str>, status: Option<StatusCode>) -> Message {
        Message {
            subject: "$KV.b.r".into(),
            reply: position.map(Into::into),
            payload: "x".into(),
            headers: None,
            status,
            description: None,
            length: 1,
        }
    }

    #[test]
    fn a_stored_message_with_a_status_is_not_taken_for_a_server_message() {
        let mut feed = Feed::new("$KV.b.".to_owned());
        for (n, status) in [StatusCode::IDLE_HEARTBEAT, StatusCode::NO_RESPONDERS]
            .into_iter()
            .enumerate()
        {
            let position = format!("$JS.ACK.KV_b.c.1.7.{}.1700000000.0", n + 1);
            let told = feed.take(&message(Some(&position), Some(status)));
            assert!(matches!(told, Ok(Delivery::Entry(..))), "{told:?}");
        }
    }

    #[test]
    fn a_watch_catches_up_with_the_streams_leader_and_not_with_a_lagging_server() {
        let stored = |position| message(Some(position), None);
        let mut feed = Feed::new("$KV.b.".to_owned());
        feed.catches_up_at(Some(20));
        // That server has no other messages.
        let told = feed.take(&stored("$JS.ACK.KV_b.c.1.11.1.1700000000.0"));
        assert!(matches!(told, Ok(Delivery::Entry(..))), "{told:?}");
        assert!(!feed.has_caught_up());
        let idle = message(None, Some(StatusCode::IDLE_HEARTBEAT));
        assert_eq!(feed.take(&idle), Ok(Delivery::Idle));
        assert!(!feed.has_caught_up());
        let told = feed.take(&stored("$JS.ACK.KV_b.c.1.20.2.1700000000.3"));
        assert!(matches!(told, Ok(Delivery::Entry(..))), "{told:?}");
        assert!(feed.has_caught_up());
        feed.catches_up_at(None);
        assert!(feed.has_caught_up(), "there is nothing");
    }

    #[test]
    fn a_watch_is_behind_once_more_was_stored_since_than_there_is() {
        let stored = |sequence: u64, number: u64, pending: u64| {
            let position = format!("$JS.ACK.KV_b.c.1.{sequence}.{number}.1.{pending}");
            message(Some(&position), None)
        };
        let stream = |last_seq| StreamState {
            messages: 2,
            bytes: 0,
            last_seq,
        };
        let mut feed = Feed::new("$KV.b.".to_owned());
        for number in 1..=2 {
            feed.take(&stored(number, number, 2)).expect("a message");
            assert!(!feed.is_behind(&stream(100)), "it shows what stood there");
        }
        feed.take(&stored(10, 3, 2)).expect("a message");
        assert!(!feed.is_behind(&stream(12)));
        assert!(feed.is_behind(&stream(13)));
        feed.take(&stored(20, 4, 0)).expect("a message");
        assert!(!feed.is_behind(&stream(100)), "the rest are other keys");
    }

    #[test]
    fn both_forms_of_a_position_are_read() {
        let position = Some(Position {
            in_stream: 1_700_000_000_000_001,
            in_consumer: 3,
            written: time(1_700_000_000_123_456_789),
            more: true,
        });
        for reply in [
            "$JS.ACK.KV_b.c.1.1700000000000001.3.1700000000123456789.4",
            "$JS.ACK._.hash.KV_b.c.1.1700000000000001.3.1700000000123456789.4",
            "$JS.ACK.hub.hash.KV_b.c.1.1700000000000001.3.1700000000123456789.4.random",
        ] {
            assert_eq!(Position::parse(reply), position, "{reply}");
        }
        for reply in [
            "",
            "$JS.ACK.",
            "_INBOX.x",
            "$JS.ACK.KV_b.c.1.x.3.1700000000.4",
            "$JS.ACK.a.b.c.d.e.f.g.h",
        ] {
            assert_eq!(Position::parse(reply), None, "{reply}");
        }
    }
}
