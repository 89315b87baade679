//! Interprets the messages of a watch, in order.

use std::time::{Duration, SystemTime};

use async_nats::header::NATS_LAST_CONSUMER;
use async_nats::{Message, StatusCode};

use super::entry::{fence_entry, role_entry};
use super::error::StoreError;
use nats_elect_core::Moment;
use nats_elect_core::name::RoleName;
use nats_elect_core::record::{Entry, FenceEntry};

/// The header with the subject to answer to, where the server waits for the watcher.
const STALLED: &str = "Nats-Consumer-Stalled";

/// The prefix of the keys of fence records.
pub(super) const FENCES: &str = "_fence.";

/// The counted messages of one watch, which has a consumer for each kind of keys.
#[derive(Debug)]
pub struct Feed {
    /// The prefix of the subjects of keys.
    prefix: String,
    consumers: Vec<Consumer>,
    /// When the server stored the last message, by its clock.
    written: Option<SystemTime>,
}

/// The progress of one consumer.
#[derive(Debug)]
struct Consumer {
    name: String,
    /// The number of messages received. It reveals a missing message.
    received: u64,
    /// When anything was heard last.
    heard: Moment,
    /// Whether the server has sent all that it has.
    idle: bool,
    /// Whether the initial state has arrived, as of the beginning of the watch.
    caught_up: CaughtUp,
}

/// The progress of a consumer through the initial state, as of its beginning.
#[derive(Debug)]
enum CaughtUp {
    Yes,
    /// It catches up with the message at this sequence.
    At(u64),
    /// The position is not requested.
    Unknown,
}

/// What a watch tells.
#[derive(Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The last message of a role's key.
    Entry(RoleName, Entry),
    /// The last message of a role's fence key, where fence keys are watched too.
    Fence(RoleName, FenceEntry),
    /// A message that concerns no role.
    Nothing,
    /// As [`Counted::Idle`].
    Idle,
}

/// A message that was counted.
#[derive(Debug, PartialEq, Eq)]
pub enum Counted {
    /// A message of the bucket, by its stream sequence.
    Stored(u64),
    /// A consumer has sent all that it has, and others have not.
    Nothing,
    /// The watch's server has sent all that it has, or all of a kind of keys without having caught
    /// up.
    Idle,
    /// The server waits for an empty message on this subject.
    Waiting(String),
}

impl Feed {
    /// Creates the feed of a watch on the keys under this prefix by these consumers, with no
    /// message received.
    pub fn new(prefix: String, consumers: impl IntoIterator<Item = String>, now: Moment) -> Self {
        let consumers = consumers.into_iter().map(|name| Consumer {
            name,
            received: 0,
            heard: now,
            idle: false,
            caught_up: CaughtUp::Unknown,
        });
        Self {
            prefix,
            consumers: consumers.collect(),
            written: None,
        }
    }

    /// Sets the sequences to catch up with, one for each consumer: that of the last message of its
    /// keys, read after the watch had begun, or nothing if there was none. Ask the stream's leader
    /// for them. The watch's server may lag behind the leader, and would count only its own
    /// messages.
    pub fn catches_up_at(&mut self, last: impl IntoIterator<Item = Option<u64>>) {
        for (consumer, last) in self.consumers.iter_mut().zip(last) {
            consumer.caught_up = last.map_or(CaughtUp::Yes, CaughtUp::At);
        }
    }

    /// Returns whether the initial state has arrived, as of the beginning of the watch.
    pub fn has_caught_up(&self) -> bool {
        let mut all = self.consumers.iter();
        all.all(|consumer| matches!(consumer.caught_up, CaughtUp::Yes))
    }

    /// Returns when the consumer that is silent for longest was heard.
    pub(super) fn silent_since(&self) -> Moment {
        let heard = self.consumers.iter().map(|consumer| consumer.heard);
        heard.min().unwrap_or(Moment::from_nanos(u64::MAX))
    }

    /// Returns when the server stored the last message of the bucket, by its clock. The time is for
    /// people: it decides nothing.
    pub const fn written(&self) -> Option<SystemTime> {
        self.written
    }

    /// Counts the next message, whatever it says.
    ///
    /// # Errors
    ///
    /// Any irregularity ends the watch: a message is missing, or the server sends another status
    /// than its heartbeat.
    pub fn count(&mut self, message: &Message, now: Moment) -> Result<Counted, StoreError> {
        // Only messages that the bucket holds have a position. The writer of such a message chooses
        // its headers, a status among them.
        if let Some(position) = message.reply.as_deref().and_then(Position::parse) {
            let consumer = self.consumer(position.consumer, now)?;
            consumer.stored(&position)?;
            self.written = position.written;
            return Ok(Counted::Stored(position.in_stream));
        }
        match message.status {
            None => Err(broken("a message has no position")),
            Some(StatusCode::IDLE_HEARTBEAT) => {
                // The consumer's name ends the subject that it delivers to.
                let name = message.subject.rsplit('.').next().unwrap_or_default();
                let waiting = self.consumer(name, now)?.heartbeat(message)?;
                Ok(waiting.map_or_else(|| self.rests(), Counted::Waiting))
            }
            Some(status) => Err(broken(&format!("the server says {status}"))),
        }
    }

    fn consumer(&mut self, name: &str, now: Moment) -> Result<&mut Consumer, StoreError> {
        let mut all = self.consumers.iter_mut();
        let consumer = all.find(|consumer| consumer.name == name);
        let consumer = consumer.ok_or_else(|| broken("a message is of another consumer"))?;
        consumer.heard = now;
        Ok(consumer)
    }

    /// Tells whether more is to be expected, where one consumer has nothing to send.
    fn rests(&self) -> Counted {
        let lags = |it: &Consumer| it.idle && matches!(it.caught_up, CaughtUp::At(_));
        if self.consumers.iter().all(|it| it.idle) || self.consumers.iter().any(lags) {
            Counted::Idle
        } else {
            Counted::Nothing
        }
    }

    /// Interprets a message that the bucket holds at this sequence.
    pub fn read(&self, message: &Message, sequence: u64) -> Delivery {
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
}

impl Consumer {
    fn stored(&mut self, position: &Position<'_>) -> Result<(), StoreError> {
        self.received += 1;
        if position.in_consumer != self.received {
            return Err(broken("a message is missing"));
        }
        self.idle = false;
        if let CaughtUp::At(last) = self.caught_up
            && position.in_stream >= last
        {
            self.caught_up = CaughtUp::Yes;
        }
        Ok(())
    }

    /// Takes a heartbeat. Returns the subject on which the server waits for an answer, if it does;
    /// else it has sent all that it has.
    fn heartbeat(&mut self, message: &Message) -> Result<Option<String>, StoreError> {
        let header = |name: &str| Some(message.headers.as_ref()?.get_last(name)?.as_str());
        if header(NATS_LAST_CONSUMER.as_ref()).is_some_and(|last| last.parse() != Ok(self.received))
        {
            return Err(broken("a message is missing"));
        }
        let flow = message.reply.as_deref().or_else(|| header(STALLED));
        self.idle = flow.is_none();
        Ok(flow.map(ToOwned::to_owned))
    }
}

/// The position of a message, from its reply subject.
#[derive(Debug, PartialEq, Eq)]
struct Position<'a> {
    consumer: &'a str,
    in_stream: u64,
    in_consumer: u64,
    written: Option<SystemTime>,
}

impl<'a> Position<'a> {
    /// Parses `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer
    /// seq>.<time>.<pending>`. The longer form has a domain and an account hash before the stream.
    fn parse(reply: &'a str) -> Option<Self> {
        let tokens: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
        let before = match tokens.len() {
            7 => 0,
            9.. => 2,
            _ => return None,
        };
        Some(Self {
            consumer: tokens[before + 1],
            in_stream: tokens[before + 3].parse().ok()?,
            in_consumer: tokens[before + 4].parse().ok()?,
            written: tokens[before + 5].parse().ok().and_then(time),
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

    const NOW: Moment = Moment::from_nanos(1_000);

    fn feed(consumers: &[&str]) -> Feed {
        let names = consumers.iter().map(ToString::to_string);
        Feed::new("$KV.b.".to_owned(), names, NOW)
    }

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

    fn stored(consumer: &str, sequence: u64, number: u64) -> Message {
        let position = format!("$JS.ACK.KV_b.{consumer}.1.{sequence}.{number}.1700000000.0");
        message(Some(&position), None)
    }

    fn idle(consumer: &str) -> Message {
        let subject = format!("_INBOX.x.watch.{consumer}").into();
        let heartbeat = message(None, Some(StatusCode::IDLE_HEARTBEAT));
        Message {
            subject,
            ..heartbeat
        }
    }

    #[test]
    fn a_stored_message_with_a_status_is_not_taken_for_a_server_message() {
        let mut feed = feed(&["c"]);
        for (n, status) in [StatusCode::IDLE_HEARTBEAT, StatusCode::NO_RESPONDERS]
            .into_iter()
            .enumerate()
        {
            let position = format!("$JS.ACK.KV_b.c.1.7.{}.1700000000.0", n + 1);
            let message = message(Some(&position), Some(status));
            assert_eq!(feed.count(&message, NOW), Ok(Counted::Stored(7)));
            let told = feed.read(&message, 7);
            assert!(matches!(told, Delivery::Entry(..)), "{told:?}");
        }
    }

    #[test]
    fn a_watch_catches_up_with_the_streams_leader_and_not_with_a_lagging_server() {
        let mut feed = feed(&["c"]);
        feed.catches_up_at([Some(20)]);
        // That server has no other messages.
        let told = feed.count(&stored("c", 11, 1), NOW);
        assert_eq!(told, Ok(Counted::Stored(11)));
        assert!(!feed.has_caught_up());
        assert_eq!(feed.count(&idle("c"), NOW), Ok(Counted::Idle));
        assert!(!feed.has_caught_up());
        let told = feed.count(&stored("c", 20, 2), NOW);
        assert_eq!(told, Ok(Counted::Stored(20)));
        assert!(feed.has_caught_up());
        feed.catches_up_at([None]);
        assert!(feed.has_caught_up(), "there is nothing");
    }

    #[test]
    fn a_watch_has_caught_up_with_each_kind_of_keys() {
        let mut feed = feed(&["roles", "fences"]);
        feed.catches_up_at([Some(20), Some(7)]);
        feed.count(&stored("fences", 7, 1), NOW).expect("a message");
        let told = feed.count(&idle("fences"), NOW);
        assert_eq!(told, Ok(Counted::Nothing), "roles are still to come");
        assert!(!feed.has_caught_up());
        feed.count(&stored("roles", 20, 1), NOW).expect("a message");
        assert!(feed.has_caught_up());
        assert_eq!(feed.count(&idle("roles"), NOW), Ok(Counted::Idle));
    }

    #[test]
    fn a_kind_of_keys_that_lacks_some_will_not_catch_up() {
        let mut feed = feed(&["roles", "fences"]);
        feed.catches_up_at([Some(20), Some(7)]);
        feed.count(&stored("roles", 11, 1), NOW).expect("a message");
        assert_eq!(feed.count(&idle("fences"), NOW), Ok(Counted::Idle));
        feed.count(&stored("fences", 7, 1), NOW).expect("a message");
        assert_eq!(feed.count(&idle("fences"), NOW), Ok(Counted::Nothing));
    }

    #[test]
    fn a_consumer_is_silent_though_another_one_is_not() {
        let mut feed = feed(&["roles", "fences"]);
        let later = Moment::from_nanos(2_000);
        feed.count(&stored("roles", 1, 1), later)
            .expect("a message");
        assert_eq!(feed.silent_since(), NOW);
        feed.count(&idle("fences"), later).expect("a heartbeat");
        assert_eq!(feed.silent_since(), later);
    }

    #[test]
    fn each_consumer_counts_its_own_messages() {
        let mut feed = feed(&["roles", "fences"]);
        for number in 1..=2 {
            for consumer in ["roles", "fences"] {
                let told = feed.count(&stored(consumer, number, number), NOW);
                assert!(told.is_ok(), "{told:?}");
            }
        }
        for (broken, what) in [
            (stored("fences", 9, 4), "a message is missing"),
            (stored("other", 9, 1), "a message is of another consumer"),
            (idle("other"), "a message is of another consumer"),
        ] {
            let error = feed.count(&broken, NOW).expect_err(what).to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn both_forms_of_a_position_are_read() {
        let position = Some(Position {
            consumer: "c",
            in_stream: 1_700_000_000_000_001,
            in_consumer: 3,
            written: time(1_700_000_000_123_456_789),
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
