//! The messages to the bucket: our writes, and the reads of both keys.

use super::effect::{Effect, Write, WriteKind};
use super::machine::Election;
use super::phase::Phase;
use crate::heirs::Heirs;
use crate::lease::{Expected, Operation, Purpose, Secrets, SentWrite, TermId};
use crate::record::{Content, FenceRecord, Nonce, Record, SeenRecord};

impl Election {
    /// Sends one write and remembers it. Its send time is `now`.
    pub(super) fn send(
        &mut self,
        purpose: Purpose,
        term: TermId,
        secrets: Secrets,
        expected: Expected,
        kind: impl FnOnce(&Self, Nonce) -> WriteKind,
    ) {
        debug_assert!(
            self.may_send(),
            "one lease write at a time, and none without a link"
        );
        let sent = self.now;
        let nonce = self.attempts.open(purpose, term, secrets, expected, sent);
        let kind = kind(self, nonce);
        let write = SentWrite {
            purpose,
            term,
            beat: nonce.beat,
            over: expected.over,
            sent,
        };
        let (op, within) = self.operations.begin(Operation::Write(write));
        self.emit(Effect::Write(Write {
            op,
            term,
            nonce,
            within,
            kind,
        }));
    }

    pub(super) fn send_read(&mut self) {
        debug_assert!(
            self.may_send(),
            "one request at a time, and none without a link"
        );
        let what = Operation::Read { sent: self.now };
        let (op, within) = self.operations.begin(what);
        let may_wait = match &self.phase {
            Phase::Waiting(waiting) => waiting.looks_first() && self.stopping.is_none(),
            _ => false,
        };
        self.emit(Effect::Read {
            op,
            within,
            may_wait,
        });
    }

    pub(super) fn record(&self, secrets: Secrets, nonce: Nonce) -> Record {
        Record {
            id: self.candidate.instance_id.clone(),
            token: secrets.token,
            priority: self.settings.priority,
            #[cfg(feature = "__mutations")]
            meta: self.stamped_meta(),
            #[cfg(not(feature = "__mutations"))]
            meta: self.settings.meta.clone(),
            ttl: self.settings.ttl,
            nonce,
            release: secrets.release.hash(),
            heirs: self.phase.heirs(),
            proof: None,
            application: None,
            member: self
                .settings
                .member
                .as_ref()
                .map(|it| it.info.clone().into()),
        }
    }

    pub(super) fn fence_record(&self, secrets: Secrets, nonce: Nonce) -> FenceRecord {
        FenceRecord {
            id: self.candidate.instance_id.clone(),
            ttl: self.settings.ttl,
            nonce,
            release: secrets.release.hash(),
        }
    }

    pub(super) fn own_nonce(&self, beat: u64) -> Nonce {
        Nonce {
            incarnation: self.candidate.incarnation,
            beat,
        }
    }

    /// Our record, as other instances see it.
    pub(super) fn own_content(&self, beat: u64) -> Content {
        let attempt = self.attempts.find(Some(self.own_nonce(beat)));
        Content::Record(Box::new(SeenRecord {
            id: self.candidate.instance_id.clone(),
            priority: self.settings.priority,
            meta: self.settings.meta.clone(),
            ttl: Some(self.settings.ttl),
            incarnation: Some(self.candidate.incarnation),
            beat: Some(beat),
            release: attempt.map(|attempt| attempt.secrets.release.hash()),
            heirs: Heirs::NONE,
            proof: None,
            application: None,
        }))
    }
}
