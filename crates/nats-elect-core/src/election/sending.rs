//! The messages to the bucket: our writes, and the reads of both keys.

use super::effect::{Effect, Write, WriteKind};
use super::scene::Scene;
use crate::heirs::Heirs;
use crate::lease::{Purpose, Secrets, TermId};
use crate::record::{Content, FenceRecord, Nonce, Record, SeenRecord};

impl Scene {
    /// Sends one write over this sequence of its key, and remembers it. `fence` is that of the fence
    /// key when the role was judged free.
    pub fn send(
        &mut self,
        purpose: Purpose,
        term: TermId,
        secrets: Secrets,
        over: u64,
        fence: u64,
        kind: impl FnOnce(&Self, Nonce) -> WriteKind,
    ) {
        let now = self.now;
        let (op, within, nonce) = self.wire.send(purpose, term, secrets, over, fence, now);
        let kind = kind(self, nonce);
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

    pub fn record(&self, secrets: Secrets, nonce: Nonce, heirs: Heirs) -> Record {
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
            heirs,
            proof: None,
            application: None,
            member: self
                .settings
                .member
                .as_ref()
                .map(|it| it.info.clone().into()),
        }
    }

    pub fn fence_record(&self, secrets: Secrets, nonce: Nonce) -> FenceRecord {
        FenceRecord {
            id: self.candidate.instance_id.clone(),
            ttl: self.settings.ttl,
            nonce,
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
