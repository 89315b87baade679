//! The keys of groups: members, groups and units. Their watch, and the writes under them.

use std::time::Duration;

use async_nats::{HeaderMap, Message as NatsMessage, Request};
use futures::{Stream, StreamExt};

use super::bucket::Bucket;
use super::entry::{DELETE, OPERATION_HEADER, is_marker, pairs, role_entry};
use super::error::StoreError;
use super::ordered::{Next, OrderedWatch};
use super::read::standing_role;
use super::write::{expecting, releasing};
use crate::clock;
use nats_elect_core::group::{
    Epoch, GroupContent, GroupKey, GroupRecord, Hint, Identity, MemberContent, Message,
    SIGNATURE_BYTES, SeenMember, Support, UnitKey, UnitRecord, split_signature, stored_condition,
};
use nats_elect_core::name::GroupName;
use nats_elect_core::record::{Entry, RELEASE_SECRET_HEADER, Record, Release, Snapshot};
use nats_elect_core::release::ReleaseSecret;

/// The header of a tombstone that another member wrote.
const DEPOSED_HEADER: &str = "Nats-Elect-Deposed";

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
    /// A member's record as the election of its lease takes it.
    pub entry: Option<Box<Entry>>,
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

    /// Returns the members that have a record or a tombstone. The stream's leader must have come to
    /// this sequence.
    pub async fn members_since(
        &self,
        last: u64,
        timeout: Duration,
    ) -> Result<Vec<Epoch>, StoreError> {
        let filter = self.subject(GroupKey::MEMBERS);
        let (subjects, stands) = self.subjects(&filter, timeout).await?;
        if stands < last {
            let behind = "the stream's leader is behind what the watch has shown";
            return Err(StoreError::Unavailable(behind.into()));
        }
        let epoch = |subject: &String| {
            let key = subject.strip_prefix(self.prefix())?;
            GroupKey::parse(key)?.member()
        };
        Ok(subjects.iter().filter_map(epoch).collect())
    }

    /// Writes a member's record over the sequence of its last one, or 0. Returns the new sequence.
    pub fn write_member(
        &self,
        epoch: Epoch,
        over: u64,
        record: &Record,
        timeout: Duration,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send + use<'_> {
        let subject = self.subject(GroupKey::Member(epoch));
        self.put(subject, over, record.to_json(), timeout)
    }

    /// Returns the record as the bucket has room for it, at the end of the epoch as at its beginning:
    /// its beat grows. What a plan can do without is left out where it has no room: the loads of single
    /// units first, then the units that fail, and then all loads.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if it has no room without them.
    pub fn fitting_member(&self, mut record: Record) -> Result<Record, StoreError> {
        if self.takes_any_record() {
            return Ok(record);
        }
        let leave_out: [fn(&mut Support); 3] = [
            |it| it.heavy.clear(),
            |it| it.failing.clear(),
            |it| it.load = 0,
        ];
        let mut measured = record.clone();
        measured.nonce.beat = u64::MAX;
        let mut left_out = leave_out.iter();
        while let Err(misfit) = self.require_room(&measured) {
            let next = left_out.next().ok_or(misfit)?;
            for record in [&mut record, &mut measured] {
                let groups = record
                    .member
                    .iter_mut()
                    .flat_map(|it| it.groups.values_mut());
                groups.for_each(next);
            }
        }
        Ok(record)
    }

    /// Checks that there is room for all records of an epoch that begins with this one. Its groups may
    /// be made and grow meanwhile.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if there is none.
    pub fn require_room_for_member(&self, record: &Record) -> Result<(), StoreError> {
        let mut largest = record.clone();
        if let Some(member) = &mut largest.member {
            member.cordoned = true;
            for support in member.groups.values_mut() {
                (support.generation, support.waits) = (u32::MAX, true);
            }
        }
        self.fitting_member(largest).map(drop)
    }

    /// Writes the tombstone of one's own epoch, with its secret.
    pub fn retire_member(
        &self,
        identity: &Identity,
        over: u64,
        release: &Release,
        timeout: Duration,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send + use<'_> {
        let subject = self.subject(GroupKey::Member(identity.epoch()));
        let mut headers = releasing(over, release);
        headers.insert(IDENTITY_HEADER, identity.to_string());
        self.publish(subject, Request::new().headers(headers), timeout)
    }

    /// Writes the tombstone of another member's epoch over the sequence of its last record, or 0 if
    /// that is missing.
    pub async fn depose(
        &self,
        epoch: Epoch,
        over: u64,
        identity: Option<Identity>,
        timeout: Duration,
    ) -> Result<u64, StoreError> {
        let mut headers = expecting(over);
        headers.insert(OPERATION_HEADER, DELETE);
        headers.insert(DEPOSED_HEADER, "1");
        if let Some(identity) = identity {
            headers.insert(IDENTITY_HEADER, identity.to_string());
        }
        let subject = self.subject(GroupKey::Member(epoch));
        let request = Request::new().headers(headers);
        self.publish(subject, request, timeout).await
    }

    /// Writes a unit's record, which may be signed, over the sequence of its last one, or 0.
    pub fn write_unit(
        &self,
        unit: &UnitKey,
        over: u64,
        value: Vec<u8>,
        timeout: Duration,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send + use<'_> {
        self.put(self.subject(unit), over, value, timeout)
    }

    /// Writes a group's record over the sequence of its last one, or 0.
    pub fn write_group(
        &self,
        group: &GroupName,
        over: u64,
        record: &GroupRecord,
        timeout: Duration,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send + use<'_> {
        let subject = self.subject(GroupKey::Group(group.clone()));
        self.put(subject, over, record.to_json(), timeout)
    }

    /// Returns the hints that come for this epoch. The stream ends with the connection.
    pub async fn hints(
        &self,
        epoch: Epoch,
    ) -> Result<impl Stream<Item = Vec<Hint>> + Send + Unpin + use<>, StoreError> {
        let subjects = vec![(self.member_subject(epoch), ())];
        let messages = self.requests(subjects).await?;
        Ok(messages.map(|((), message)| Hint::parse(&message.payload)))
    }

    /// Sends hints to a member. They may be lost.
    pub async fn send_hints(&self, to: Epoch, hints: &[Hint]) -> Result<(), StoreError> {
        self.require_connection()?;
        let body = Hint::to_json(hints).into();
        let sent = self.client().publish(self.member_subject(to), body).await;
        sent.map_err(|error| StoreError::Unavailable(error.to_string()))
    }

    fn member_subject(&self, epoch: Epoch) -> String {
        format!("nats-elect.{}._member.{epoch}", self.name())
    }

    /// Reads a member's key from the stream leader, and then the bucket's epoch and last sequence,
    /// as [`snapshot`](Self::snapshot) does for a role.
    pub async fn read_member(
        &self,
        epoch: Epoch,
        timeout: Duration,
    ) -> Result<Snapshot, StoreError> {
        let begun = clock::now();
        let subject = self.subject(GroupKey::Member(epoch));
        let member = self.last(subject, timeout).await?;
        let answered = clock::now();
        let left = timeout.saturating_sub(answered.since(begun));
        let standing = self.standing_since(answered, left).await?;
        Ok(Snapshot {
            role: member.map(standing_role),
            fence: None,
            epoch: Some(standing.epoch),
            last_sequence: Some(standing.last_sequence),
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
    let (mut signed, mut entry) = (None, None);
    let content = match key {
        GroupKey::Member(epoch) => {
            entry = Some(Box::new(role_entry(sequence, headers, &message.payload)));
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
    GroupDelivery::Shown(Shown {
        message,
        signed,
        entry,
    })
}

fn secret_in(headers: &HeaderMap) -> Option<ReleaseSecret> {
    ReleaseSecret::parse(headers.get_last(RELEASE_SECRET_HEADER)?.as_str())
}
