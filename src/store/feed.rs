//! What the messages of a watch tell, one after the other.

use async_nats::header::NATS_LAST_CONSUMER;
use async_nats::{Message, StatusCode};

use super::entry::{fence_entry, role_entry};
use super::error::StoreError;
use nats_elect_core::name::RoleName;
use nats_elect_core::record::{Entry, FenceEntry};

/// Names the subject to answer to where the server waits for the watcher.
const STALLED: &str = "Nats-Consumer-Stalled";

/// What the keys of fence records begin with.
pub(super) const FENCES: &str = "_fence.";

/// One watch's messages, counted.
#[derive(Debug)]
pub struct Feed {
    /// What the subjects of keys begin with.
    prefix: String,
    /// Messages that came, to see whether one is missing.
    received: u64,
    /// Whether what stood there when the watch began has come.
    caught_up: CaughtUp,
}

/// How far a watch has come with what stood there when it began.
#[derive(Debug)]
enum CaughtUp {
    Yes,
    /// With the message at this sequence.
    At(u64),
    /// Nobody asks.
    Unknown,
}

/// What one message tells.
#[derive(Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The last message of a role's key.
    Entry(RoleName, Entry),
    /// The last message of a role's fence key, where those are watched too.
    Fence(RoleName, FenceEntry),
    /// Nothing of a role.
    Nothing,
    /// The server that the watch is on has sent what it has.
    Idle,
    /// The server waits for an empty message on this subject.
    Waiting(String),
}

impl Feed {
    /// A watch on the keys under this prefix, of which nothing has come yet.
    pub const fn new(prefix: String) -> Self {
        Self {
            prefix,
            received: 0,
            caught_up: CaughtUp::Unknown,
        }
    }

    /// The last message of the role keys stood at this sequence after the watch had begun, or there was none. Ask the stream's
    /// leader: the server that the watch is on may lag behind it, and would count what it has itself.
    pub fn catches_up_at(&mut self, last: Option<u64>) {
        self.caught_up = last.map_or(CaughtUp::Yes, CaughtUp::At);
    }

    /// Whether what stood there when the watch began has come.
    pub const fn has_caught_up(&self) -> bool {
        matches!(self.caught_up, CaughtUp::Yes)
    }

    /// Takes the next message.
    ///
    /// # Errors
    ///
    /// Whatever is odd ends the watch: a message is missing, or the server says something else than that it is alive.
    pub fn take(&mut self, message: &Message) -> Result<Delivery, StoreError> {
        // Only what the bucket holds has a position. Its headers, a status among them, are its writer's.
        if let Some(position) = message.reply.as_deref().and_then(Position::parse) {
            return self.stored(message, &position);
        }
        match message.status {
            None => Err(broken("a message has no position")),
            Some(StatusCode::IDLE_HEARTBEAT) => self.heartbeat(message),
            Some(status) => Err(broken(&format!("the server says {status}"))),
        }
    }

    fn stored(&mut self, message: &Message, position: &Position) -> Result<Delivery, StoreError> {
        self.received += 1;
        if position.in_consumer != self.received {
            return Err(broken("a message is missing"));
        }
        if let CaughtUp::At(last) = self.caught_up
            && position.in_stream >= last
        {
            self.caught_up = CaughtUp::Yes;
        }
        let headers = message.headers.as_ref();
        let key = message.subject.strip_prefix(&*self.prefix);
        if let Some(role) = key.and_then(|key| key.strip_prefix(FENCES)) {
            let Ok(role) = RoleName::new(role) else {
                return Ok(Delivery::Nothing);
            };
            let fence = fence_entry(position.in_stream, headers, &message.payload);
            return Ok(Delivery::Fence(role, fence));
        }
        // What is no role's name is somebody else's key.
        let Some(role) = key.and_then(|key| RoleName::new(key).ok()) else {
            return Ok(Delivery::Nothing);
        };
        let entry = role_entry(position.in_stream, headers, &message.payload);
        Ok(Delivery::Entry(role, entry))
    }

    fn heartbeat(&mut self, message: &Message) -> Result<Delivery, StoreError> {
        let header = |name: &str| Some(message.headers.as_ref()?.get_last(name)?.as_str());
        if header(NATS_LAST_CONSUMER.as_ref()).is_some_and(|last| last.parse() != Ok(self.received))
        {
            return Err(broken("a message is missing"));
        }
        let flow = message.reply.as_deref().or_else(|| header(STALLED));
        Ok(flow.map_or(Delivery::Idle, |subject| {
            Delivery::Waiting(subject.to_owned())
        }))
    }
}

/// Where a message stands, as its reply subject tells.
#[derive(Debug, PartialEq, Eq)]
struct Position {
    in_stream: u64,
    in_consumer: u64,
}

impl Position {
    /// Reads `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>`, with a domain and an
    /// account hash before the stream in the longer form.
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
        })
    }
}

/// A watch that is over.
pub(super) fn broken(why: &str) -> StoreError {
    StoreError::Unavailable(format!("the watch is broken: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_message_is_no_word_of_the_server_whatever_status_its_writer_gave_it() {
        let mut feed = Feed::new("$KV.b.".to_owned());
        for (n, status) in [StatusCode::IDLE_HEARTBEAT, StatusCode::NO_RESPONDERS]
            .into_iter()
            .enumerate()
        {
            let message = Message {
                subject: "$KV.b.r".into(),
                reply: Some(format!("$JS.ACK.KV_b.c.1.7.{}.1700000000.0", n + 1).into()),
                payload: "x".into(),
                headers: None,
                status: Some(status),
                description: None,
                length: 1,
            };
            let told = feed.take(&message);
            assert!(matches!(told, Ok(Delivery::Entry(..))), "{told:?}");
        }
    }

    #[test]
    fn a_watch_has_caught_up_with_the_streams_leader_not_with_a_server_that_lags_behind_it() {
        let message = |reply: Option<&str>| Message {
            subject: "$KV.b.r".into(),
            reply: reply.map(Into::into),
            payload: "x".into(),
            headers: None,
            status: reply.is_none().then_some(StatusCode::IDLE_HEARTBEAT),
            description: None,
            length: 1,
        };
        let mut feed = Feed::new("$KV.b.".to_owned());
        feed.catches_up_at(Some(20));
        // That server has nothing else.
        let told = feed.take(&message(Some("$JS.ACK.KV_b.c.1.11.1.1700000000.0")));
        assert!(matches!(told, Ok(Delivery::Entry(..))), "{told:?}");
        assert!(!feed.has_caught_up());
        assert_eq!(feed.take(&message(None)), Ok(Delivery::Idle));
        assert!(!feed.has_caught_up());
        let told = feed.take(&message(Some("$JS.ACK.KV_b.c.1.20.2.1700000000.3")));
        assert!(matches!(told, Ok(Delivery::Entry(..))), "{told:?}");
        assert!(feed.has_caught_up());
        feed.catches_up_at(None);
        assert!(feed.has_caught_up(), "there is nothing");
    }

    #[test]
    fn both_forms_of_a_position_are_read() {
        let position = Some(Position {
            in_stream: 1_700_000_000_000_001,
            in_consumer: 3,
        });
        for reply in [
            "$JS.ACK.KV_b.c.1.1700000000000001.3.1700000000.4",
            "$JS.ACK._.hash.KV_b.c.1.1700000000000001.3.1700000000.4",
            "$JS.ACK.hub.hash.KV_b.c.1.1700000000000001.3.1700000000.4.random",
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
