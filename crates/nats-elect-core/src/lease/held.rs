//! A lease that is held: its heartbeats, and what follows from one that is not simply confirmed.

use super::attempts::{Attempt, Attempts, Secrets};
use super::input::TermId;
use crate::event::{BucketRequest, EndCause};
use crate::moment::Moment;
use crate::record::Nonce;

/// The lease that this instance holds on a key, and how certain it is.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Held {
    pub term: TermId,
    pub secrets: Secrets,
    pub revision: u64,
    /// When the last confirmed write was sent.
    pub sent: Moment,
    /// The end of the lease.
    pub until: Moment,
    /// When the next heartbeat is due.
    pub renew_at: Moment,
    doubt: Doubt,
    /// The number of compare-and-sets that were refused since the last confirmed one.
    refusals: u32,
}

/// The doubt that the last heartbeat left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Doubt {
    None,
    /// It was not answered. It may have been stored.
    Unanswered,
    /// It was refused. Another client wrote, or an earlier write of ours came late.
    Refused,
    /// Another message was shown at our own revision. NATS lost writes and gave their sequences
    /// again.
    Impostor,
}

/// The message that a read showed under the key.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    pub revision: u64,
    pub nonce: Option<Nonce>,
    pub kind: Kind,
}

/// What kind of message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Record,
    /// A delete marker that one of our kind wrote.
    Release,
    /// A delete marker of another client.
    ForeignMarker,
}

/// What a read tells of a held lease.
#[derive(Clone, Copy, Debug)]
pub enum Found {
    /// Nothing, or nothing that the next compare-and-set does not decide.
    Undecided,
    /// A write of ours that was never answered is stored at this revision.
    Landed(Attempt, u64),
    /// The lease is lost. If another client deleted the key, the revision of its marker is given.
    Lost(EndCause, Option<u64>),
}

impl Held {
    /// The lease of a claim that is stored at this revision.
    pub const fn of(claim: &Attempt, revision: u64, until: Moment, renew_at: Moment) -> Self {
        Self {
            term: claim.term,
            secrets: claim.secrets,
            revision,
            sent: claim.sent,
            until,
            renew_at,
            doubt: Doubt::None,
            refusals: 0,
        }
    }

    /// Whether a doubtful heartbeat needs a read before the next one.
    pub fn is_in_doubt(&self) -> bool {
        self.doubt != Doubt::None
    }

    /// Notes that a write of ours is stored at this revision. It extends nothing. One that is shown after
    /// a later one was confirmed ends no doubt.
    pub fn stored(&mut self, revision: u64) {
        if revision > self.revision {
            (self.revision, self.refusals) = (revision, 0);
        }
        if revision == self.revision {
            self.doubt = Doubt::None;
        }
    }

    /// Extends the lease by a heartbeat that was sent at `sent` and is stored.
    pub fn extend(&mut self, revision: u64, sent: Moment, until: Moment, renew_at: Moment) {
        self.stored(revision);
        self.sent = self.sent.max(sent);
        self.until = self.until.max(until);
        self.renew_at = renew_at;
    }

    /// Notes that a heartbeat over this sequence was refused. Returns false if an earlier one was
    /// found to be stored meanwhile.
    pub fn refused(&mut self, over: u64) -> bool {
        let counts = over >= self.revision;
        if counts {
            self.doubt = Doubt::Refused;
            self.refusals += 1;
        }
        counts
    }

    /// Notes that a heartbeat was not answered.
    pub const fn unanswered(&mut self) {
        self.doubt = Doubt::Unanswered;
    }

    /// Asks for proof at once, because the watch showed a message at this revision that is not
    /// ours.
    ///
    /// At our own revision a heartbeat would prove nothing: it would overwrite the message that
    /// stands there now.
    pub const fn suspect(&mut self, revision: u64, now: Moment) {
        if revision == self.revision {
            self.doubt = Doubt::Impostor;
        } else if revision > self.revision {
            self.renew_at = now;
        }
    }

    /// Notes that the read that a doubt asked for failed. The next compare-and-set decides.
    pub fn could_not_read(&mut self, now: Moment) {
        if self.doubt != Doubt::Impostor {
            self.doubt = Doubt::None;
            self.renew_at = now;
        }
    }

    /// Takes the message that a read showed, mostly because of a doubtful heartbeat.
    pub fn has_read(&mut self, stored: Option<Stored>, attempts: &Attempts, now: Moment) -> Found {
        let doubt = std::mem::replace(&mut self.doubt, Doubt::None);
        let refused = doubt == Doubt::Refused;
        let at = stored.map(|stored| stored.revision);
        let found = self.judge(stored, attempts);
        match found {
            Found::Landed(..) => return found,
            // A compare-and-set over another message at our very revision would prove nothing.
            Found::Lost(..) if at == Some(self.revision) => return found,
            Found::Undecided if doubt == Doubt::None => return found,
            // The server shows less than was confirmed. One that no longer leads the stream does
            // so, too. But it is tried only once more.
            Found::Lost(EndCause::Regressed, _) if refused && self.refusals < 2 => {}
            Found::Lost(..) if refused => return found,
            // It was refused twice although the key seems ours. So the read is stale.
            Found::Undecided if refused && self.refusals > 1 => {
                return Found::Lost(EndCause::Superseded, None);
            }
            // A read does not prove a loss. The next compare-and-set decides.
            Found::Undecided | Found::Lost(..) => {}
        }
        self.renew_at = now;
        Found::Undecided
    }

    fn judge(&self, stored: Option<Stored>, attempts: &Attempts) -> Found {
        let Some(Stored {
            revision,
            nonce,
            kind,
        }) = stored
        else {
            return Found::Lost(EndCause::Deleted, None);
        };
        let attempt = attempts.find(nonce).filter(|it| it.term == self.term);
        if let Some(attempt) = attempt {
            let is_record = matches!(
                attempt.request,
                BucketRequest::Claim | BucketRequest::Heartbeat
            );
            if attempt.settled == Some(revision) && revision == self.revision {
                return Found::Undecided;
            }
            if is_record && attempt.settled.is_none() && revision > self.revision {
                return Found::Landed(attempt, revision);
            }
        }
        match kind {
            _ if revision <= self.revision => Found::Lost(EndCause::Regressed, None),
            Kind::ForeignMarker => Found::Lost(EndCause::Deleted, Some(revision)),
            Kind::Release => Found::Lost(EndCause::Deleted, None),
            Kind::Record => Found::Lost(EndCause::Superseded, None),
        }
    }
}
