//! One member: its process with the real machine, the real election of each epoch, the watch, the
//! requests under way and the terms of its units.

use std::collections::BTreeMap;
use std::sync::Arc;

use nats_elect_core::config::Membership;
use nats_elect_core::group::{
    Epoch, EpochKey, Group, GroupKey, GroupWrite, Identity, MemberContent, MemberInfo, SeenMember,
    Support, UnitKey,
};
use nats_elect_core::record::{Content, Record};
use nats_elect_core::release::ReleaseSecret;
use nats_elect_core::{Candidate, Election, Moment, OpId, TermId, WriteKind, WriteOutcome};
use uuid::Uuid;

use super::configuration::{Configuration, group};
use super::stream::{Body, Stored, Stream};
use crate::bucket::seen;
use crate::scribe::{BEAT_SHIFT, NAME_MARK};

/// A process that is not dead.
#[derive(Clone, Debug)]
pub struct Process {
    pub group: Group,
    /// The elections of its epochs.
    pub keepers: Vec<Keeper>,
    pub present: Option<Epoch>,
    /// When it may claim another epoch.
    pub next_epoch_at: Moment,
    pub watch: Option<Watch>,
    pub wants_watch: bool,
    pub requests: Vec<Request>,
    pub terms: BTreeMap<UnitKey, Term>,
    pub paused: bool,
    pub leaves: bool,
}

/// One epoch, and the election that keeps its lease.
#[derive(Clone, Debug)]
pub struct Keeper {
    pub epoch: Epoch,
    pub identity: Identity,
    pub election: Election,
    pub term: Option<TermId>,
    pub info: MemberInfo,
    pub leaving: bool,
}

#[derive(Clone, Debug)]
pub struct Watch {
    /// It has shown all messages up to this sequence, but for those that it left out.
    pub position: u64,
    /// It has caught up when it has shown this sequence.
    pub target: Option<u64>,
    /// It is as slow as it likes.
    pub lags: bool,
    /// What had been overwritten when it began. It shows nothing of that.
    pub hidden: Vec<u64>,
}

impl Watch {
    /// The message that it shows next.
    pub fn next<'a>(&self, stream: &'a Stream) -> Option<&'a Arc<Stored>> {
        stream.next(self.position, &self.hidden)
    }
}

/// A request under way. Reads are answered at once.
#[derive(Clone, Debug)]
pub struct Request {
    /// The epoch whose election sent it. `None`: the machine did.
    pub whose: Option<Epoch>,
    pub op: OpId,
    pub asks: Asks,
    pub progress: Progress,
    pub sent: Moment,
    /// Its sender has given it up. An answer may come yet.
    pub given_up: bool,
}

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there are only a few of them")]
pub enum Asks {
    Read,
    Write {
        key: GroupKey,
        over: u64,
        body: Body,
    },
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub enum Progress {
    Sent,
    /// It takes effect at any later time, or never.
    Adrift,
    Answered(WriteOutcome),
}

/// A term of a unit, as the driver and the application share it.
#[derive(Clone, Debug, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "any of them may hold beside the others"
)]
pub struct Term {
    pub sequence: u64,
    pub epoch: Option<Epoch>,
    pub until: Moment,
    pub revoked: bool,
    pub cancelled: bool,
    /// It does not listen when it is asked to end.
    pub deaf: bool,
    /// It does not end when it is aborted.
    pub blocked: bool,
}

impl Term {
    pub fn is_valid(&self, now: Moment) -> bool {
        !self.revoked && now < self.until
    }

    /// Whether its handler ends now.
    pub const fn ends(&self) -> bool {
        (self.revoked && !self.blocked) || (self.cancelled && !self.revoked && !self.deaf)
    }
}

impl Keeper {
    /// The epoch of this number. All processes are alike, and their epochs are numbered together.
    pub fn new(number: u8, configuration: &Configuration, now: Moment) -> Self {
        let secret = ReleaseSecret::new(number.into());
        let identity = Identity {
            key: EpochKey::new([number; 32]),
            ttl: configuration.lease.ttl,
            release: secret.hash(),
        };
        let name = Uuid::from_u64_pair(NAME_MARK, number.into());
        let mut info = MemberInfo::new(identity.key);
        info.groups = BTreeMap::from([(group(), Support::default())]);
        info.cordoned = true;
        let mut settings = configuration.lease.clone();
        let told = info.clone();
        settings.member = Some(Box::new(Membership { secret, info: told }));
        let candidate = Candidate {
            instance_id: "n".to_owned(),
            incarnation: name,
            first_beat: (u64::from(number) + 1) << BEAT_SHIFT,
            paused: false,
            settings,
        };
        Self {
            // Nobody computes the name from the identity but parsers.
            epoch: Epoch::new(*name.as_bytes()),
            identity,
            election: Election::new(candidate, now),
            term: None,
            info,
            leaving: false,
        }
    }

    /// A write of its election, as the key and the record that it is about.
    pub fn writes(&self, kind: &WriteKind) -> Option<Asks> {
        let (over, body) = match kind {
            WriteKind::Claim { over, record } | WriteKind::Renew { over, record } => {
                (*over, self.heartbeat(record))
            }
            WriteKind::Release { over, release } => {
                let tombstone = MemberContent::Tombstone {
                    secret: release.secret,
                    identity: Some(self.identity),
                };
                (*over, Body::Member(Content::Release(*release), tombstone))
            }
            WriteKind::Fence { .. } => return None,
        };
        let key = GroupKey::Member(self.epoch);
        Some(Asks::Write { key, over, body })
    }

    fn heartbeat(&self, record: &Record) -> Body {
        let told = SeenMember {
            id: record.id.clone(),
            nonce: Some(record.nonce),
            identity: Some(self.identity),
            info: record.member.as_deref().cloned(),
        };
        Body::Member(seen(record), MemberContent::Record(Box::new(told)))
    }
}

/// A write of the machine, as the key and the record that it is about.
pub fn written(write: GroupWrite) -> Asks {
    let (key, over, body) = match write {
        GroupWrite::Unit {
            key,
            over,
            record,
            sign,
        } => (GroupKey::Unit(key), over, Body::Unit(Some(record), sign)),
        GroupWrite::Depose {
            epoch,
            over,
            identity,
        } => {
            let secret = None;
            let tombstone = MemberContent::Tombstone { secret, identity };
            let body = Body::Member(Content::ForeignMarker, tombstone);
            (GroupKey::Member(epoch), over, body)
        }
        GroupWrite::Group {
            group,
            over,
            record,
        } => (GroupKey::Group(group), over, Body::Group(record)),
    };
    Asks::Write { key, over, body }
}

impl Process {
    pub fn new(configuration: &Configuration, now: Moment) -> Self {
        Self {
            group: Group::new(configuration.group.clone(), now),
            keepers: Vec::new(),
            present: None,
            next_epoch_at: now,
            watch: None,
            wants_watch: true,
            requests: Vec::new(),
            terms: BTreeMap::new(),
            paused: false,
            leaves: false,
        }
    }

    pub fn keeper(&mut self, epoch: Epoch) -> Option<&mut Keeper> {
        self.keepers.iter_mut().find(|it| it.epoch == epoch)
    }

    /// Whether a timer has fired.
    pub fn is_due(&self, now: Moment) -> bool {
        let claims = (self.present.is_none() && !self.leaves).then_some(self.next_epoch_at);
        let timers = self.keepers.iter().map(|it| it.election.next_wakeup());
        let timers = timers.chain([self.group.next_wakeup(), claims]);
        timers.flatten().any(|due| due <= now)
    }

    pub fn valid_terms(&self, now: Moment) -> impl Iterator<Item = &UnitKey> {
        let valid = self.terms.iter().filter(move |(_, it)| it.is_valid(now));
        valid.map(|(unit, _)| unit)
    }

    /// Something that its users must put right first keeps units from having an owner.
    pub fn is_troubled(&self) -> bool {
        let stuck = self
            .terms
            .values()
            .any(|it| (it.cancelled || it.revoked) && !it.ends());
        self.paused || stuck || self.watch.as_ref().is_some_and(|watch| watch.lags)
    }
}
