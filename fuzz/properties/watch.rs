//! What a watch delivers: any subjects, positions, headers, statuses, values.

use arbitrary::{Arbitrary, Result, Unstructured};
use async_nats::{Message, StatusCode};

use crate::store::{Counted, Delivery, Feed, fence_entry, role_entry};
use nats_elect_core::Moment;

use super::{message, names, record};

const PREFIX: &str = "$KV.leaders.";
const NOW: Moment = Moment::from_nanos(0);

/// The bytes as a stream of messages; and as the subject and the position of one.
pub fn holds(data: &[u8]) {
    if let Ok(text) = str::from_utf8(data) {
        let mut raw = Message {
            subject: format!("{PREFIX}{text}").into(),
            reply: Some(position(1, 1).into()),
            payload: data.to_vec().into(),
            headers: None,
            status: None,
            description: None,
            length: data.len(),
        };
        take(&mut feed(), &raw);
        raw.reply = Some(text.into());
        take(&mut feed(), &raw);
        raw.subject = text.into();
        take(&mut feed(), &raw);
    }
    let _ = stream(&mut Unstructured::new(data));
}

fn feed() -> Feed {
    Feed::new(PREFIX.to_owned(), ["c".to_owned(), "f".to_owned()], NOW)
}

fn stream(u: &mut Unstructured<'_>) -> Result<()> {
    let mut feed = feed();
    let mut delivered = 0;
    while !u.is_empty() {
        let message = any_message(u, delivered + 1)?;
        delivered += u64::from(at(&message).is_some());
        if !take(&mut feed, &message) {
            break;
        }
    }
    Ok(())
}

fn any_message(u: &mut Unstructured<'_>, next: u64) -> Result<Message> {
    let role = match u.int_in_range(0..=4)? {
        0 => "scheduler",
        1 => "_fence.scheduler",
        2 => "network/1",
        // A consumer's name ends the subject of its heartbeats.
        3 => "c",
        _ => <&str>::arbitrary(u)?,
    };
    let prefix = if u.ratio(9, 10)? { PREFIX } else { "$KV.x." };
    let reply = match u.int_in_range(0..=9)? {
        0 => None,
        1 => Some(String::arbitrary(u)?),
        2 => Some(position(message::number(u)?, message::number(u)?)),
        3 => Some("$JS.FC.KV_leaders.x.1".to_owned()),
        4 => Some(position(message::number(u)?, next).replace("ACK.", "ACK.hub.hash.")),
        _ => Some(position(message::number(u)?, next)),
    };
    let status = match u.int_in_range(0..=5)? {
        0 => Some(StatusCode::IDLE_HEARTBEAT),
        1 => StatusCode::from_u16(u.arbitrary()?).ok(),
        _ => None,
    };
    let payload = message::value(u)?;
    Ok(Message {
        subject: format!("{prefix}{role}").into(),
        reply: reply.map(Into::into),
        length: payload.len(),
        payload: payload.into(),
        headers: message::headers(u)?,
        status,
        description: None,
    })
}

/// Takes one message; whether the watch goes on.
fn take(feed: &mut Feed, message: &Message) -> bool {
    match feed.count(message, NOW) {
        Ok(Counted::Stored(sequence)) => {
            assert_eq!(Some(sequence), at(message), "the sequence it stands at");
            read(feed.read(message, sequence), message, sequence);
            true
        }
        Ok(Counted::Nothing) => true,
        Ok(Counted::Idle) => {
            assert_eq!(message.status, Some(StatusCode::IDLE_HEARTBEAT));
            assert!(at(message).is_none(), "a stored message is no heartbeat");
            true
        }
        Ok(Counted::Waiting(subject)) => {
            assert_eq!(message.status, Some(StatusCode::IDLE_HEARTBEAT));
            assert!(at(message).is_none(), "a stored message is no heartbeat");
            let asked = message.reply.as_deref() == Some(&subject)
                || message.headers.as_ref().is_some_and(|headers| {
                    headers
                        .iter()
                        .any(|(_, values)| values.iter().any(|value| value.as_str() == subject))
                });
            assert!(asked, "an answer to nobody");
            true
        }
        Err(error) => {
            // Nothing that comes this way ends an election: the next watch may do better.
            assert!(error.is_transient(), "{error}");
            false
        }
    }
}

/// What was read is what the message says.
fn read(told: Delivery, message: &Message, sequence: u64) {
    let key = message.subject.strip_prefix(PREFIX);
    let headers = message.headers.as_ref();
    match told {
        Delivery::Entry(role, entry) => {
            let key = key.expect("a key of the bucket");
            assert_eq!(role, key);
            names::hold_for(key);
            assert_eq!(entry, role_entry(sequence, headers, &message.payload));
            record::is_sound(headers, &entry.content);
        }
        Delivery::Fence(role, fence) => {
            assert_eq!(Some(format!("_fence.{role}").as_str()), key);
            names::hold_for(role.as_str());
            assert_eq!(fence, fence_entry(sequence, headers, &message.payload));
        }
        Delivery::Nothing | Delivery::Idle => {}
    }
}

fn position(in_stream: u64, in_consumer: u64) -> String {
    format!("$JS.ACK.KV_leaders.c.1.{in_stream}.{in_consumer}.1700000000.0")
}

/// The sequence in a position, if it is one.
fn at(message: &Message) -> Option<u64> {
    let tokens: Vec<_> = message
        .reply
        .as_deref()?
        .strip_prefix("$JS.ACK.")?
        .split('.')
        .collect();
    let first = match tokens.len() {
        7 => 3,
        9.. => 5,
        _ => return None,
    };
    let _: u64 = tokens[first + 1].parse().ok()?;
    tokens[first].parse().ok()
}
