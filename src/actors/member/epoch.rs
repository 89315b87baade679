//! One epoch of this member: the key that signs its givings, and the election that keeps its lease.

use std::sync::Arc;

use ed25519_dalek::{Signer, SigningKey};

use crate::actors::asked::Asked;
use crate::clock;
use crate::model::config::RoleSettings;
use crate::role::Instance;
use nats_elect_core::config::Membership;
use nats_elect_core::group::{
    Epoch, EpochKey, Identity, MemberInfo, SIGNATURE_BYTES, UnitKey, UnitRecord, sign, signed_text,
};
use nats_elect_core::name::BucketName;
use nats_elect_core::release::ReleaseSecret;
use nats_elect_core::{Bequest, Candidate, Election, Input, Intent, RequestId, TermId};

/// The keeper of one epoch's lease.
pub(super) struct Keeper {
    pub epoch: Epoch,
    pub identity: Identity,
    key: SigningKey,
    pub election: Election,
    /// What a companion process was told of the lease last.
    pub bequest: Option<Bequest>,
    pub asked: Asked,
    /// The term of the lease, once it is claimed and until it is over.
    pub term: Option<TermId>,
    /// What its records say beside the lease.
    pub info: MemberInfo,
    /// Whether the election was told to end.
    pub leaving: bool,
    /// Whether the election has asked for the handlers to end. It renews the lease no more.
    pub ending: bool,
}

impl Keeper {
    /// A new epoch, whose election has not begun.
    pub fn new(
        instance: &Instance,
        settings: &RoleSettings,
        first_beat: u64,
        info: impl FnOnce(EpochKey) -> MemberInfo,
    ) -> Self {
        let key = SigningKey::from_bytes(&rand::random());
        let secret = ReleaseSecret::new(rand::random());
        let identity = Identity {
            key: EpochKey::new(key.verifying_key().to_bytes()),
            ttl: settings.ttl,
            release: secret.hash(),
        };
        let info = info(identity.key);
        let mut settings = settings.clone();
        let told = info.clone();
        settings.member = Some(Box::new(Membership { secret, info: told }));
        let candidate = Candidate {
            instance_id: instance.id.as_str().to_owned(),
            incarnation: instance.incarnation,
            first_beat,
            paused: false,
            settings,
        };
        Self {
            epoch: identity.epoch(),
            identity,
            key,
            election: Election::new(candidate, clock::now()),
            bequest: None,
            asked: Asked::default(),
            term: None,
            info,
            leaving: false,
            ending: false,
        }
    }

    /// Returns what the election is to tell from now on, if that is news.
    pub fn tell(&mut self, info: MemberInfo) -> Option<Input> {
        if self.info == info {
            return None;
        }
        self.info = info;
        Some(Input::Tell(Box::new(self.info.clone())))
    }

    /// Has the election end, and the lease given back once no handler runs under it. Returns what it
    /// is to be told, the first time.
    pub fn leave(&mut self) -> Option<Input> {
        let is_told = std::mem::replace(&mut self.leaving, true);
        let stop = Intent::Stop { release: true };
        (!is_told).then_some(Input::Intend(RequestId::NOBODY, stop))
    }

    /// Returns the value that gives a unit away over this sequence.
    pub fn sign(
        &self,
        bucket: &BucketName,
        created: u64,
        unit: &UnitKey,
        over: u64,
        record: UnitRecord,
    ) -> Vec<u8> {
        let unsigned = record.to_json();
        let text = signed_text(bucket, created, unit, over, &unsigned);
        let signature: [u8; SIGNATURE_BYTES] = self.key.sign(&text).to_bytes();
        sign(&unsigned, &signature)
    }
}

/// What this instance needs to check signatures.
pub(super) struct Checked {
    pub bucket: Arc<BucketName>,
    pub created: u64,
}

impl Checked {
    /// Returns whether the owner of this key signed that value over this sequence.
    pub fn is_signed_by(
        &self,
        key: &EpochKey,
        unit: &UnitKey,
        over: u64,
        unsigned: &[u8],
        signature: &[u8; SIGNATURE_BYTES],
    ) -> bool {
        let Ok(key) = ed25519_dalek::VerifyingKey::from_bytes(key.as_bytes()) else {
            return false;
        };
        let text = signed_text(&self.bucket, self.created, unit, over, unsigned);
        let signature = ed25519_dalek::Signature::from_bytes(signature);
        key.verify_strict(&text, &signature).is_ok()
    }
}
