//! Which writes are ours: every attempt, with the time at which it was sent.

use std::collections::VecDeque;

use uuid::Uuid;

use super::input::TermId;
use super::mutation::mutated;
use crate::clock::Moment;
use crate::model::record::Nonce;
use crate::model::token::LeaseToken;

/// Attempts kept. An older one of ours that turns up in the bucket is treated as a stranger's.
const KEPT: usize = 128;

/// What an attempt was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    Claim,
    /// A claim where nothing stands: its condition does not tell whether somebody came, and was purged. That the fence key still
    /// is at this sequence does.
    BareClaim {
        fence: u64,
    },
    /// A claim over a living lease of lower priority, as last seen at this revision.
    ForcedClaim {
        over: u64,
    },
    Fence,
    Renew,
    Release,
}

impl Purpose {
    /// For a claim where nothing stood, the fence key's sequence before it.
    pub const fn bare(self) -> Option<u64> {
        match self {
            Self::BareClaim { fence } => Some(fence),
            _ => None,
        }
    }

    pub const fn is_claim(self) -> bool {
        matches!(
            self,
            Self::Claim | Self::BareClaim { .. } | Self::ForcedClaim { .. }
        )
    }
}

/// One attempt to write.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    pub beat: u64,
    pub purpose: Purpose,
    pub term: TermId,
    pub token: LeaseToken,
    /// Fixed before the client got the message: a lease counts from here.
    pub sent: Moment,
    /// The revision at which it is known to be committed.
    pub settled: Option<u64>,
}

/// The attempts of one incarnation on one role. No beat is ever given twice.
#[derive(Clone, Debug)]
pub struct Ledger {
    incarnation: Uuid,
    next_beat: u64,
    attempts: VecDeque<Attempt>,
}

impl Ledger {
    pub fn new(incarnation: Uuid, first_beat: u64) -> Self {
        Self {
            incarnation,
            next_beat: first_beat,
            attempts: VecDeque::new(),
        }
    }

    /// Opens an attempt sent now.
    pub fn open(
        &mut self,
        purpose: Purpose,
        term: TermId,
        token: LeaseToken,
        sent: Moment,
    ) -> Nonce {
        let beat = self.next_beat;
        self.next_beat += u64::from(!mutated!(ReuseNonce) || !self.in_doubt(term));
        if self.attempts.len() == KEPT {
            self.attempts.pop_front();
        }
        self.attempts.push_back(Attempt {
            beat,
            purpose,
            term,
            token,
            sent,
            settled: None,
        });
        Nonce {
            incarnation: self.incarnation,
            beat,
        }
    }

    /// The attempt was committed at this revision.
    pub fn settle(&mut self, beat: u64, revision: u64) {
        if let Some(attempt) = self.attempts.iter_mut().find(|a| a.beat == beat) {
            attempt.settled = Some(revision);
        }
        // Of confirmed writes only the last two can still matter: the standing one, and a record over its claim.
        let settled: Vec<u64> = self
            .attempts
            .iter()
            .filter(|a| a.settled.is_some())
            .map(|a| a.beat)
            .collect();
        let old = &settled[..settled.len().saturating_sub(4)];
        self.attempts.retain(|a| !old.contains(&a.beat));
    }

    /// The attempt was refused: it will never be committed.
    pub fn refuse(&mut self, beat: u64) {
        self.attempts.retain(|a| a.beat != beat);
    }

    /// The beat of the next attempt: those from here on are sent after now.
    pub const fn next_beat(&self) -> u64 {
        self.next_beat
    }

    /// The attempt that bears this nonce, if it is ours and remembered.
    pub fn find(&self, nonce: Option<Nonce>) -> Option<Attempt> {
        let nonce = nonce.filter(|n| n.incarnation == self.incarnation)?;
        let found = self.attempts.iter().find(|a| a.beat == nonce.beat).copied();
        if mutated!(AdoptFromLaterSend) {
            let latest = self.attempts.iter().map(|a| a.sent).max();
            return found.map(|found| Attempt {
                sent: latest.unwrap_or(found.sent),
                ..found
            });
        }
        found
    }

    #[cfg(feature = "testing")]
    pub fn hash_situation(&self, hasher: &mut impl std::hash::Hasher) {
        use std::hash::Hash;

        let Self {
            incarnation,
            // Only to be greater than those in use.
            next_beat: _,
            attempts,
        } = self;
        (incarnation, attempts.len()).hash(hasher);
        for attempt in attempts {
            let Attempt {
                beat,
                purpose,
                term,
                token,
                sent,
                settled,
            } = attempt;
            // No lease is counted twice from the same write.
            let sent = settled.is_none().then_some(sent);
            (beat, purpose, term, token, sent, settled).hash(hasher);
        }
    }

    /// The attempt that is known to stand at this revision.
    pub fn at(&self, revision: u64) -> Option<Attempt> {
        let settled = |attempt: &&Attempt| attempt.settled == Some(revision);
        self.attempts.iter().find(settled).copied()
    }

    /// Whether a write that was never answered might still turn up.
    pub fn in_doubt(&self, term: TermId) -> bool {
        self.attempts
            .iter()
            .any(|a| a.term == term && a.settled.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: TermId = TermId(1);
    const TOKEN: LeaseToken = LeaseToken::new(Uuid::nil());

    fn ledger() -> Ledger {
        Ledger::new(Uuid::from_u128(1), 0)
    }

    #[test]
    fn no_beat_is_given_twice_whatever_becomes_of_it() {
        let mut ledger = ledger();
        let mut beats = std::collections::HashSet::new();
        for i in 0..1000u64 {
            let nonce = ledger.open(Purpose::Renew, TERM, TOKEN, Moment::from_nanos(i));
            assert!(beats.insert(nonce.beat));
            match i % 3 {
                0 => ledger.settle(nonce.beat, i),
                1 => ledger.refuse(nonce.beat),
                _ => {}
            }
        }
        assert!(ledger.attempts.len() <= KEPT);
    }

    #[test]
    fn an_attempt_is_found_with_its_own_send_time() {
        let mut ledger = ledger();
        let first = ledger.open(Purpose::Renew, TERM, TOKEN, Moment::from_nanos(10));
        ledger.open(Purpose::Renew, TERM, TOKEN, Moment::from_nanos(20));
        assert_eq!(
            ledger.find(Some(first)).unwrap().sent,
            Moment::from_nanos(10)
        );
    }

    #[test]
    fn another_incarnations_nonce_is_a_strangers() {
        let mut ledger = ledger();
        let own = ledger.open(Purpose::Claim, TERM, TOKEN, Moment::from_nanos(1));
        assert!(
            ledger
                .find(Some(Nonce {
                    incarnation: Uuid::from_u128(2),
                    ..own
                }))
                .is_none()
        );
        assert!(ledger.find(None).is_none());
    }

    #[test]
    fn a_refused_attempt_is_forgotten() {
        let mut ledger = ledger();
        let nonce = ledger.open(Purpose::Claim, TERM, TOKEN, Moment::from_nanos(1));
        assert!(ledger.in_doubt(TERM));
        ledger.refuse(nonce.beat);
        assert!(ledger.find(Some(nonce)).is_none());
        assert!(!ledger.in_doubt(TERM));
    }
}
