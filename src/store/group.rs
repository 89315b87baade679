//! The watch over the keys of groups of the former protocol, for observers.

use std::time::Duration;

use async_nats::{HeaderMap, Message as NatsMessage};

use super::bucket::Bucket;
use super::entry::{is_marker, pairs};
use super::error::StoreError;
use super::ordered::{Next, OrderedWatch};
use nats_elect_core::group::{
    GroupContent, GroupKey, GroupRecord, Identity, MemberContent, Message, SIGNATURE_BYTES,
    SeenMember, UnitRecord, split_signature, stored_condition,
};
use nats_elect_core::record::RELEASE_SECRET_HEADER;
use nats_elect_core::release::ReleaseSecret;

/// The header with which a tombstone tells what the name of its epoch proves.
const IDENTITY_HEADER: &str = "Nats-Elect-Identity";

/// A watch over all keys of groups.
pub struct GroupWatch {
    watch: OrderedWatch,
    prefix: String,
}

/// What the watch tells.
#[derive(Debug)]
pub enum GroupDelivery {
    /// A message.
    Shown(Shown),
    /// All that was stored when the watch began was shown. The stream's last sequence was this one.
    CaughtUp(u64),
    /// Nothing new, or a message under no key of groups.
    Nothing,
}

/// A message that the watch showed.
#[derive(Debug)]
pub struct Shown {
    pub message: Message,
    /// The signature of a unit's giver, if it bears one.
    pub signed: Option<Box<Signed>>,
}

/// A signature that is not verified yet.
#[derive(Debug, PartialEq, Eq)]
pub struct Signed {
    /// The value without it.
    pub unsigned: Vec<u8>,
    pub signature: [u8; SIGNATURE_BYTES],
}

impl Bucket {
    /// Watches all keys of groups, in the stream's order: first the last message of each key, then
    /// every message as it comes.
    ///
    /// The watch ends with its first error, silence included. Begin another one then.
    pub async fn watch_groups(&self, timeout: Duration) -> Result<GroupWatch, StoreError> {
        Ok(GroupWatch {
            watch: self.watch_in_order(GroupKey::ALL, timeout).await?,
            prefix: self.prefix().to_owned(),
        })
    }
}

impl GroupWatch {
    /// Returns what the watch tells next, and with it all that has arrived already, up to so many.
    pub async fn next_batch(&mut self, most: usize) -> Result<Vec<GroupDelivery>, StoreError> {
        let tell = |next| {
            Some(match next {
                Next::Stored(sequence, message) => read(&self.prefix, sequence, &message),
                Next::CaughtUp(last) => GroupDelivery::CaughtUp(last),
                Next::Nothing => GroupDelivery::Nothing,
            })
        };
        self.watch.next_batch(most, tell).await
    }
}

/// Interprets a stored message.
fn read(prefix: &str, sequence: u64, message: &NatsMessage) -> GroupDelivery {
    let key = message.subject.strip_prefix(prefix);
    let Some(key) = key.and_then(GroupKey::parse) else {
        return GroupDelivery::Nothing;
    };
    let headers = message.headers.as_ref();
    let is_value = !headers.is_some_and(is_marker);
    let mut signed = None;
    let content = match key {
        GroupKey::Member(epoch) => {
            let content = if is_value {
                MemberContent::Record(Box::new(SeenMember::parse(epoch, &message.payload)))
            } else {
                let secret = headers.and_then(secret_in);
                let identity = headers.and_then(|headers| {
                    let text = headers.get_last(IDENTITY_HEADER)?.as_str();
                    Identity::parse(text, epoch)
                });
                MemberContent::Tombstone { secret, identity }
            };
            GroupContent::Member(epoch, content)
        }
        GroupKey::Group(name) => {
            let record = is_value
                .then(|| GroupRecord::parse(&message.payload))
                .flatten();
            GroupContent::Group(name, record)
        }
        GroupKey::Unit(key) => {
            let record = is_value
                .then(|| UnitRecord::parse(&message.payload))
                .flatten();
            if record.is_some() {
                signed = split_signature(&message.payload).map(|(unsigned, signature)| {
                    Box::new(Signed {
                        unsigned,
                        signature,
                    })
                });
            }
            GroupContent::Unit {
                key,
                record,
                signed: None,
            }
        }
    };
    let message = Message {
        sequence,
        over: headers.and_then(|headers| stored_condition(pairs(headers))),
        content,
    };
    GroupDelivery::Shown(Shown { message, signed })
}

fn secret_in(headers: &HeaderMap) -> Option<ReleaseSecret> {
    ReleaseSecret::parse(headers.get_last(RELEASE_SECRET_HEADER)?.as_str())
}
