//! The messages to the bucket: our writes, and the reads of both keys.

use super::effect::{Effect, Write, WriteKind};
use super::scene::Scene;
use crate::event::BucketRequest;
use crate::heirs::Heirs;
use crate::lease::{Secrets, TermId};
use crate::record::{Content, FenceRecord, Nonce, Record, SeenRecord};

impl Scene {
    /// Sends one write, and remembers it. `fence` is the sequence of the fence key when the role was
    /// judged free.
    pub fn send(&mut self, term: TermId, secrets: Secrets, fence: u64, kind: WriteKind) {
        let (request, over) = match kind {
            WriteKind::Claim { over, .. } => (BucketRequest::Claim, over),
            WriteKind::Fence { over, .. } => (BucketRequest::Fence, over),
            WriteKind::Renew { over, .. } => (BucketRequest::Heartbeat, over),
            WriteKind::Release { over, .. } => (BucketRequest::Release, over),
        };
        let now = self.now;
        let (op, within, nonce) = self.wire.send(request, term, secrets, over, fence, now);
        self.emit(Effect::Write(Write {
            op,
            term,
            nonce,
            within,
            kind,
        }));
    }

    pub fn send_read(&mut self, may_wait: bool) {
        let (op, within) = self.wire.read(self.now);
        self.emit(Effect::Read {
            op,
            within,
            may_wait,
        });
    }

    /// The nonce of the write that is sent next.
    pub const fn next_nonce(&self) -> Nonce {
        let attempts = &self.wire.attempts;
        attempts.nonce(attempts.next_beat.0)
    }

    /// The record that is sent next.
    pub fn record(&self, secrets: Secrets, heirs: Heirs) -> Record {
        Record {
            id: self.candidate.instance_id.clone(),
            token: secrets.token,
            priority: self.settings.priority,
            #[cfg(feature = "__mutations")]
            meta: self.stamped_meta(),
            #[cfg(not(feature = "__mutations"))]
            meta: self.settings.meta.clone(),
            ttl: self.settings.ttl,
            nonce: self.next_nonce(),
            release: secrets.release.hash(),
            heirs,
            proof: None,
            application: None,
        }
    }

    /// The fence record that is sent next.
    pub fn fence_record(&self, secrets: Secrets) -> FenceRecord {
        FenceRecord {
            id: self.candidate.instance_id.clone(),
            ttl: self.settings.ttl,
            nonce: self.next_nonce(),
            release: secrets.release.hash(),
        }
    }

    /// Our record, as other instances see it.
    pub fn own_content(&self, beat: u64) -> Content {
        let attempt = self.wire.attempts.find_beat(beat);
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
