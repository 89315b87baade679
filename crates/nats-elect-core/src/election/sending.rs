//! The messages to the bucket: our writes, and the reads of both keys.

use super::effect::{Effect, Write, WriteKind};
use super::machine::Election;
use super::phase::Phase;
use crate::heirs::Heirs;
use crate::lease::{Purpose, Secrets, TermId};
use crate::record::{Content, FenceRecord, Nonce, Record, Release, SeenRecord};

impl Election {
    /// Sends one write over this sequence of its key, and remembers it. `fence` is that of the fence
    /// key when the role was judged free.
    pub(super) fn send(
        &mut self,
        purpose: Purpose,
        term: TermId,
        secrets: Secrets,
        over: u64,
        fence: u64,
    ) {
        let now = self.now;
        let (op, within, nonce) = self.wire.send(purpose, term, secrets, over, fence, now);
        let kind = match purpose {
            Purpose::Claim => WriteKind::Claim {
                over,
                record: self.record(secrets, nonce),
            },
            Purpose::Beside => WriteKind::Fence {
                over,
                fence: self.fence_record(secrets, nonce),
            },
            Purpose::Renew => WriteKind::Renew {
                over,
                record: self.record(secrets, nonce),
            },
            Purpose::Release => WriteKind::Release {
                over,
                release: self.release_record(secrets, nonce),
            },
        };
        self.emit(Effect::Write(Write {
            op,
            term,
            nonce,
            within,
            kind,
        }));
    }

    pub(super) fn send_read(&mut self) {
        let (op, within) = self.wire.read(self.now);
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

    fn record(&self, secrets: Secrets, nonce: Nonce) -> Record {
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

    fn fence_record(&self, secrets: Secrets, nonce: Nonce) -> FenceRecord {
        FenceRecord {
            id: self.candidate.instance_id.clone(),
            ttl: self.settings.ttl,
            nonce,
            release: secrets.release.hash(),
        }
    }

    pub(super) fn release_record(&self, secrets: Secrets, nonce: Nonce) -> Release {
        let (heir, line) = self.phase.named();
        Release {
            nonce: Some(nonce),
            heir,
            line,
            secret: Some(secrets.release),
        }
    }

    /// Our record, as other instances see it.
    pub(super) fn own_content(&self, beat: u64) -> Content {
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
