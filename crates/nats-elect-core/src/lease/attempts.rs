//! The attempts: every write of this instance, with the time at which it was sent.

use std::collections::VecDeque;

use uuid::Uuid;

use super::input::TermId;
use crate::event::BucketRequest;
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::record::Nonce;
use crate::release::ReleaseSecret;
use crate::token::LeaseToken;
use crate::unhashed::Unhashed;

/// The most attempts that are kept one by one. A term's unanswered heartbeats beyond that are known
/// too, but not when each was sent.
const KEPT: usize = 128;

/// The secrets of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Secrets {
    pub token: LeaseToken,
    pub release: ReleaseSecret,
}

/// One attempt to write.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Attempt {
    pub beat: u64,
    /// A fence record is written under another key, which has sequences of its own.
    pub request: BucketRequest,
    pub term: TermId,
    pub secrets: Secrets,
    /// The expected sequence of the key that it writes.
    pub over: u64,
    /// The sequence of the other key when this one was judged free, in this acquisition.
    pub beside: u64,
    /// When it was sent, measured before the client got the message. A lease counts from here.
    pub sent: Moment,
    /// The revision at which it is known to be stored.
    pub settled: Option<u64>,
}

/// The attempts of one incarnation on one key. No beat is ever used twice.
#[derive(Clone, Debug, Hash)]
pub struct Attempts {
    incarnation: Uuid,
    first_beat: Unhashed<u64>,
    /// The beat of the next attempt. Attempts from this beat on are sent after now.
    pub next_beat: Unhashed<u64>,
    kept: VecDeque<Attempt>,
    /// Unanswered heartbeats of one term that are not kept one by one: the first of them, and the
    /// last beat.
    older_heartbeats: Option<(Attempt, u64)>,
}

impl Attempts {
    pub fn new(incarnation: Uuid, first_beat: u64) -> Self {
        Self {
            incarnation,
            first_beat: Unhashed(first_beat),
            next_beat: Unhashed(first_beat),
            kept: VecDeque::new(),
            older_heartbeats: None,
        }
    }

    /// Records an attempt that is sent now.
    ///
    /// An unconfirmed attempt over an earlier sequence of the same key can't be stored any more. It
    /// is forgotten.
    pub fn open(
        &mut self,
        request: BucketRequest,
        term: TermId,
        secrets: Secrets,
        over: u64,
        beside: u64,
        sent: Moment,
    ) -> Attempt {
        let beat = *self.next_beat;
        *self.next_beat += u64::from(!mutated!(ReuseNonce) || !self.in_doubt(term));
        let is_beside = request == BucketRequest::Fence;
        let may_come = |attempt: &Attempt| {
            attempt.settled.is_some()
                || (attempt.request == BucketRequest::Fence) != is_beside
                || attempt.over >= over
        };
        self.kept.retain(may_come);
        self.older_heartbeats.take_if(|(first, _)| !may_come(first));
        self.make_room();
        let attempt = Attempt {
            beat,
            request,
            term,
            secrets,
            over,
            beside,
            sent,
            settled: None,
        };
        self.kept.push_back(attempt);
        attempt
    }

    /// Forgets all attempts, because the bucket was replaced. None of them is stored in the new
    /// one.
    pub fn forget_all(&mut self) {
        self.kept.clear();
        self.older_heartbeats = None;
    }

    /// Makes room for one more attempt. Confirmed attempts are kept, because the held lease may
    /// rest on one of them.
    fn make_room(&mut self) {
        if self.kept.len() < KEPT {
            return;
        }
        let unanswered = |attempt: &Attempt| attempt.settled.is_none();
        let oldest = if mutated!(ForgetWhatIsHeld) {
            Some(0)
        } else {
            self.kept.iter().position(unanswered)
        };
        let oldest = oldest.and_then(|oldest| self.kept.remove(oldest));
        let heartbeat = oldest.filter(|it| it.request == BucketRequest::Heartbeat);
        match (&mut self.older_heartbeats, heartbeat) {
            (Some((first, last)), Some(it)) if first.term == it.term => *last = it.beat,
            (older_heartbeats, Some(it)) => *older_heartbeats = Some((it, it.beat)),
            (_, None) => {}
        }
    }

    /// Notes that an attempt is stored at this revision.
    pub fn settle(&mut self, beat: u64, revision: u64) {
        if let Some(attempt) = self.kept.iter_mut().find(|a| a.beat == beat) {
            attempt.settled = Some(revision);
        } else if let Some(mut attempt) = self.older_heartbeat(beat) {
            attempt.settled = Some(revision);
            self.kept.push_front(attempt);
        }
        // Only the last few confirmed writes can still matter: the one that stands, and a record
        // over its claim. The last four are kept.
        let settled: Vec<u64> = self
            .kept
            .iter()
            .filter(|a| a.settled.is_some())
            .map(|a| a.beat)
            .collect();
        let old = &settled[..settled.len().saturating_sub(4)];
        self.kept.retain(|a| !old.contains(&a.beat));
    }

    /// A heartbeat that is not kept one by one. It was sent no earlier than the first of them.
    fn older_heartbeat(&self, beat: u64) -> Option<Attempt> {
        let (first, last) = self.older_heartbeats?;
        let among = (first.beat..=last).contains(&beat);
        among.then_some(Attempt { beat, ..first })
    }

    /// The attempt with this nonce, if it is ours and remembered.
    pub fn find(&self, nonce: Option<Nonce>) -> Option<Attempt> {
        let nonce = nonce.filter(|n| n.incarnation == self.incarnation)?;
        let kept = self.kept.iter().find(|a| a.beat == nonce.beat).copied();
        let found = kept.or_else(|| self.older_heartbeat(nonce.beat));
        if mutated!(AdoptFromLaterSend) {
            let latest = self.kept.iter().map(|a| a.sent).max();
            return found.map(|found| Attempt {
                sent: latest.unwrap_or(found.sent),
                ..found
            });
        }
        found
    }

    /// The nonce of the attempt with this beat.
    pub const fn nonce(&self, beat: u64) -> Nonce {
        Nonce {
            incarnation: self.incarnation,
            beat,
        }
    }

    /// The attempt with this beat, if it is remembered.
    pub fn find_beat(&self, beat: u64) -> Option<Attempt> {
        self.find(Some(self.nonce(beat)))
    }

    /// Whether a write of ours bears this nonce. It is one of these:
    ///
    /// - a remembered write that is confirmed at this revision, or was never answered
    /// - a write of an earlier machine of this incarnation
    pub fn wrote(&self, nonce: Option<Nonce>, revision: u64) -> bool {
        let own = nonce.filter(|nonce| nonce.incarnation == self.incarnation);
        own.is_some_and(|nonce| {
            let attempt = self.find(Some(nonce));
            let earlier = nonce.beat < *self.first_beat;
            earlier || attempt.is_some_and(|it| it.settled.is_none_or(|at| at == revision))
        })
    }

    /// Forgets when confirmed writes were sent.
    pub fn forget_sending(&mut self) {
        for attempt in self.kept.iter_mut().filter(|it| it.settled.is_some()) {
            attempt.sent = Moment::default();
        }
    }

    /// Whether an unanswered write of this term may still turn up.
    pub fn in_doubt(&self, term: TermId) -> bool {
        self.kept
            .iter()
            .any(|a| a.term == term && a.settled.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: TermId = TermId(1);
    const SECRETS: Secrets = Secrets {
        token: LeaseToken::new(Uuid::nil()),
        release: ReleaseSecret::new(0),
    };

    fn attempts() -> Attempts {
        Attempts::new(Uuid::from_u128(1), 0)
    }

    fn open(attempts: &mut Attempts, request: BucketRequest, sent: u64) -> Nonce {
        let sent = Moment::from_nanos(sent);
        let attempt = attempts.open(request, TERM, SECRETS, 7, 3, sent);
        attempts.nonce(attempt.beat)
    }

    #[test]
    fn no_beat_is_used_twice() {
        let mut attempts = attempts();
        let mut beats = std::collections::HashSet::new();
        for i in 0..1000u64 {
            let nonce = open(&mut attempts, BucketRequest::Heartbeat, i);
            assert!(beats.insert(nonce.beat));
            if i % 3 == 0 {
                attempts.settle(nonce.beat, i);
            }
        }
        assert!(attempts.kept.len() <= KEPT);
    }

    #[test]
    fn an_attempt_keeps_its_own_send_time() {
        let mut attempts = attempts();
        let first = open(&mut attempts, BucketRequest::Heartbeat, 10);
        open(&mut attempts, BucketRequest::Heartbeat, 20);
        assert_eq!(
            attempts.find(Some(first)).unwrap().sent,
            Moment::from_nanos(10)
        );
    }

    #[test]
    fn the_nonce_of_another_incarnation_is_not_ours() {
        let mut attempts = attempts();
        let own = open(&mut attempts, BucketRequest::Claim, 1);
        let strangers = Nonce {
            incarnation: Uuid::from_u128(2),
            ..own
        };
        assert!(attempts.find(Some(strangers)).is_none());
        assert!(attempts.find(None).is_none());
    }

    #[test]
    fn a_copy_of_a_confirmed_write_is_not_ours() {
        let mut attempts = attempts();
        let claim = open(&mut attempts, BucketRequest::Claim, 1);
        assert!(attempts.wrote(Some(claim), 8), "it may stand anywhere");
        attempts.settle(claim.beat, 8);
        assert!(attempts.wrote(Some(claim), 8));
        assert!(!attempts.wrote(Some(claim), 9));
    }

    #[test]
    fn the_held_lease_is_remembered_through_any_number_of_unanswered_heartbeats() {
        let mut attempts = attempts();
        let held = open(&mut attempts, BucketRequest::Heartbeat, 1);
        attempts.settle(held.beat, 7);
        let lost: Vec<_> = (2..2000)
            .map(|i| open(&mut attempts, BucketRequest::Heartbeat, i))
            .collect();
        assert!(attempts.kept.len() <= KEPT);
        assert_eq!(attempts.find(Some(held)).unwrap().settled, Some(7));
        for (nonce, sent) in lost.iter().zip(2u64..) {
            let found = attempts.find(Some(*nonce)).expect("each is known");
            assert!(found.sent <= Moment::from_nanos(sent), "never too late");
            assert_eq!((found.beat, found.settled), (nonce.beat, None));
        }
        let landed = lost[900];
        attempts.settle(landed.beat, 9);
        assert_eq!(attempts.find(Some(landed)).unwrap().settled, Some(9));
    }

    #[test]
    fn an_attempt_over_an_earlier_sequence_is_forgotten() {
        let mut attempts = attempts();
        let first = open(&mut attempts, BucketRequest::Heartbeat, 1);
        assert!(attempts.in_doubt(TERM));
        let sent = Moment::from_nanos(2);
        attempts.open(BucketRequest::Heartbeat, TERM, SECRETS, 8, 3, sent);
        assert!(attempts.find(Some(first)).is_none());
    }
}
