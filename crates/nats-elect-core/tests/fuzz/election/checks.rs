//! What must hold of every effect.

use nats_elect_core::event::Event;
use nats_elect_core::peer::{PeerReply, PeerRequest};
use nats_elect_core::{Effect, Moment, OpId, TermId, TermStart, Write, WriteKind};

use super::{Life, Office, Request};

impl Life {
    /// The end of a lease by a write that was sent then.
    pub(super) fn lease_from(&self, sent: Moment) -> Moment {
        sent + self.settings.ttl - self.settings.drift_margin()
    }

    pub(super) fn is_pending(&self, op: OpId) -> bool {
        self.pending
            .as_ref()
            .is_some_and(|request| request.op() == op)
    }

    pub(super) fn office(&mut self, term: TermId) -> &mut Office {
        self.terms.get_mut(&term).expect("a term that began")
    }

    pub(super) fn check(&mut self, effect: Effect) {
        match effect {
            Effect::Write(write) => self.check_write(write),
            Effect::Read { op, .. } => self.requested(Request::Read(op)),
            Effect::StartTerm(start) => self.check_start(&start),
            Effect::Extend {
                term,
                lease,
                acting,
                proved,
            } => {
                let (now, until) = (self.now, self.lease_from(self.now));
                let office = self.office(term);
                assert!(office.running && !office.revoked, "extended after its end");
                assert!(acting.is_none() || !office.resigned, "it resigned");
                assert!(acting.is_none_or(|acting| acting <= lease));
                assert!(office.lease > now, "a lease that was over");
                assert!(lease >= office.lease && lease <= until && proved <= now);
                office.lease = lease;
            }
            Effect::Suspend { term, acting } => {
                let office = self.office(term);
                assert!(acting <= office.lease && !office.resigned);
            }
            Effect::Resign { term } => {
                let office = self.office(term);
                assert!(!std::mem::replace(&mut office.resigned, true), "twice");
            }
            Effect::Revoke { term } => {
                let office = self.office(term);
                assert!(!std::mem::replace(&mut office.revoked, true), "twice");
            }
            Effect::Cancel { term } => {
                let office = self.office(term);
                assert!(office.resigned && !std::mem::replace(&mut office.cancelled, true));
            }
            Effect::Abort { term } => {
                let office = self.office(term);
                assert!(office.cancelled && !std::mem::replace(&mut office.aborted, true));
            }
            Effect::CheckHealth { term } => assert!(!self.office(term).resigned),
            Effect::AskPeers { id, question, .. } => {
                let bids = matches!(question, PeerRequest::Yield { .. });
                assert!(!(bids && self.paused), "a bid although it is paused");
                assert_eq!(id.0, self.questions + 1, "each question has its own number");
                assert!(self.link.is_some(), "asked without a link");
                self.questions = id.0;
            }
            Effect::AnswerPeer {
                reply_to, answer, ..
            } => {
                let ready = matches!(answer, PeerReply::Ready { .. });
                assert!(!(ready && self.paused), "ready although it is paused");
                assert_eq!(
                    self.reply_to.take(),
                    Some(reply_to),
                    "answered unasked, or twice"
                );
            }
            Effect::Reply { request, .. } => {
                assert!(self.asked.remove(&request), "{request:?} is answered twice");
            }
            Effect::Event(Event::StateChanged { from, to }) => {
                assert_eq!(from, self.state);
                assert!(from.may_become(to), "from {from} to {to}");
                self.state = to;
            }
            Effect::Event(Event::Paused) => {
                assert!(!std::mem::replace(&mut self.told_paused, true), "twice");
            }
            Effect::Event(Event::Resumed) => {
                assert!(std::mem::replace(&mut self.told_paused, false), "twice");
            }
            Effect::Reopen if self.elsewhere => self.link = None,
            Effect::Event(_) | Effect::Reopen => {}
        }
    }

    pub(super) fn check_write(&mut self, write: Write) {
        assert!(self.nonces.insert(write.nonce), "a nonce is used twice");
        self.wrote.push(write.nonce);
        let claims = matches!(write.kind, WriteKind::Claim { .. });
        assert!(!(claims && self.paused), "a claim although it is paused");
        let (over, shown) = match &write.kind {
            WriteKind::Claim { over, .. }
            | WriteKind::Renew { over, .. }
            | WriteKind::Release { over, .. } => (over, &self.shown),
            WriteKind::Fence { over, .. } => (over, &self.shown_fence),
        };
        let blind = *over == 0 && matches!(write.kind, WriteKind::Fence { .. });
        assert!(
            blind || shown.contains(over),
            "over what it was never shown: {write:?}"
        );
        if !matches!(write.kind, WriteKind::Renew { .. }) {
            assert_eq!(self.running().count(), 0, "while a handler runs: {write:?}");
            assert!(
                self.terms.values().all(|office| office.revoked),
                "a lease still lasts: {write:?}"
            );
        }
        self.sent = Some(self.now);
        self.requested(Request::Write(write));
    }

    /// Whether this is a heartbeat over a sequence below one that was shown since.
    fn is_superseded(&self, kind: &WriteKind) -> bool {
        match kind {
            WriteKind::Renew { over, .. } => self.shown.iter().any(|shown| shown > over),
            _ => false,
        }
    }

    pub(super) fn requested(&mut self, request: Request) {
        // Once a write is known to be stored, nothing is read for it any more. A heartbeat over an
        // earlier sequence can't be stored then.
        let forgotten = self.overtaken
            && match &self.pending {
                Some(Request::Read(_)) => true,
                Some(Request::Write(write)) => self.is_superseded(&write.kind),
                None => false,
            };
        assert!(
            self.pending.is_none() || forgotten,
            "two requests at a time: {:?} and {request:?}",
            self.pending
        );
        assert!(self.link.is_some(), "without a link");
        self.last_op = request.op().0;
        self.pending = Some(request);
        self.overtaken = false;
        self.untold = None;
        self.void = false;
    }

    pub(super) fn check_start(&mut self, start: &TermStart) {
        assert_eq!(self.running().count(), 0, "two handlers");
        assert!(!self.paused, "a term although it is paused");
        assert!(
            self.now < start.lease - self.settings.stop_budget,
            "too late to wind down"
        );
        assert!(
            start.lease <= self.lease_from(start.proved)
                && self.sent.is_some_and(|sent| start.proved <= sent)
        );
        let token = start.fencing_token;
        assert!(
            self.last_token.is_none_or(|last| last < token),
            "{token} after {:?}",
            self.last_token
        );
        self.last_token = Some(token);
        let office = Office {
            lease: start.lease,
            running: true,
            resigned: false,
            revoked: false,
            cancelled: false,
            aborted: false,
        };
        assert!(
            self.terms.insert(start.term, office).is_none(),
            "a term begins once"
        );
    }
}
