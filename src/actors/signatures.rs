//! Signatures and trust. This module signs the records that this instance writes as a leader. It
//! keeps leaders without a trusted key's signature from being reported. The election itself knows
//! nothing of this: it waits for every record alike.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use crate::clock;
use crate::model::statement::{Keyring, LeaderStatement};
use nats_elect_core::Moment;
use nats_elect_core::event::Distrust;
use nats_elect_core::name::{BucketName, RoleName};
use nats_elect_core::record::{Content, Entry, Record, SeenRecord};
use nats_elect_core::status::LeaderInfo;
use nats_elect_core::text::printable;
use nats_elect_core::token::FencingToken;

pub(crate) struct Signatures {
    role: RoleName,
    own_incarnation: Uuid,
    keyring: Keyring,
    /// The bucket, and its creation time.
    bucket: Option<(BucketName, u64)>,
    held: Option<Held>,
    /// The last reason for distrust, and the incarnation that it concerns. It is logged once.
    doubted: Option<(Option<Uuid>, Distrust)>,
}

/// A verified statement of another instance. It is valid until it expires, regardless of later
/// entries.
struct Held {
    leader: LeaderInfo,
    fencing_token: FencingToken,
    until: Moment,
    /// No other statement of the same leader is verified before this moment. At least half of the
    /// validity is left until then.
    renew_at: Moment,
}

/// A pending signature: it signs the statement when it is called.
pub(super) type Unsigned = Box<dyn FnOnce() -> String + Send>;

impl Signatures {
    pub const fn new(role: RoleName, keyring: Keyring, own_incarnation: Uuid) -> Self {
        Self {
            role,
            own_incarnation,
            keyring,
            bucket: None,
            held: None,
            doubted: None,
        }
    }

    /// Returns whether a leader is reported only if a trusted key signed for it.
    pub fn is_required(&self) -> bool {
        self.keyring.verify.is_some()
    }

    /// Returns whether this instance signs.
    pub fn signs(&self) -> bool {
        self.keyring.signer.is_some()
    }

    /// Sets the bucket in use, and its creation time.
    pub fn bucket_is(&mut self, name: &BucketName, epoch: u64) {
        if self.bucket.as_ref().is_some_and(|(_, old)| *old != epoch) {
            self.held = None;
        }
        self.bucket = Some((name.clone(), epoch));
    }

    /// Returns the statement to sign for a heartbeat that extends the lease until `lease_end`. The
    /// statement is never valid for longer than that.
    pub fn statement(
        &self,
        record: &Record,
        fencing_token: FencingToken,
        lease_end: Moment,
    ) -> Option<Unsigned> {
        let signer = self.keyring.signer.as_ref()?;
        let (bucket, _) = self.bucket.as_ref()?;
        // The wall clock is read first, so that any time between the two readings shortens the
        // proof.
        let issued_at = clock::unix_micros() / 1000;
        let left = lease_end.since(clock::now()).as_millis();
        let left = u64::try_from(left).ok().filter(|left| *left > 0)?;
        let at = |millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
        let statement = LeaderStatement {
            bucket: bucket.to_string(),
            role: self.role.clone(),
            fencing_token,
            instance_id: record.id.clone(),
            incarnation: record.nonce.incarnation,
            priority: record.priority,
            meta: record.meta.clone(),
            issued_at: at(issued_at),
            expires_at: at(issued_at + left),
            signer: signer.key.clone(),
        };
        let sign = Arc::clone(&signer.sign);
        Some(Box::new(move || sign(statement)))
    }

    /// Verifies the proof of an entry, and removes it, because the election has no use for it.
    /// Returns why the entry is not trusted, if it is not.
    pub fn judge(&mut self, entry: &mut Entry, now: Moment) -> Option<Distrust> {
        let (who, judged) = match &mut entry.content {
            Content::Record(record) => {
                let proof = record.proof.take();
                if !self.is_required() || record.incarnation == Some(self.own_incarnation) {
                    return None;
                }
                (record.incarnation, self.look(record, proof, now))
            }
            Content::Opaque if self.is_required() => (None, Err(Distrust::Unsigned)),
            _ => return None,
        };
        let doubt = judged.err().map(|why| (who, why));
        if let Some((_, why)) = doubt.filter(|(_, why)| *why != Distrust::Unsigned)
            && self.doubted != doubt
        {
            tracing::warn!(
                why = why.as_str(),
                "the writer of the role's record is not trusted: its lease counts, but it is not reported as leader"
            );
        }
        self.doubted = doubt;
        doubt.map(|(_, why)| why)
    }

    fn look(
        &mut self,
        record: &SeenRecord,
        proof: Option<String>,
        now: Moment,
    ) -> Result<(), Distrust> {
        let held = self.held.as_ref().filter(|held| {
            let leader = &held.leader;
            leader.instance_id == record.id && leader.incarnation == record.incarnation
        });
        if held.is_some_and(|held| now < held.renew_at) {
            return Ok(());
        }
        let proof = proof.ok_or(Distrust::Unsigned)?;
        let verify = self.keyring.verify.as_ref().ok_or(Distrust::Unsigned)?;
        let (statement, valid_for) = verify(&proof)?;
        let of_here = |(name, epoch): &(BucketName, u64)| {
            name.as_str() == statement.bucket && *epoch == statement.fencing_token.epoch
        };
        if !self.bucket.as_ref().is_some_and(of_here)
            || statement.role != self.role
            || statement.instance_id != record.id
            || Some(statement.incarnation) != record.incarnation
        {
            return Err(Distrust::Mismatch);
        }
        let until = now + valid_for;
        // An older statement of the same leader does not shorten the validity. One of an earlier
        // leader may come late, as the answer to a read: the later leader's statement is kept.
        let is_earlier = self
            .held
            .as_ref()
            .is_some_and(|held| now < held.until && statement.fencing_token < held.fencing_token);
        if !is_earlier && held.is_none_or(|held| held.until < until) {
            let meta = statement.meta.iter();
            let mut leader = LeaderInfo::new(statement.instance_id);
            leader.incarnation = Some(statement.incarnation);
            leader.priority = statement.priority;
            leader.meta = meta
                .map(|(key, value)| (printable(key), printable(value)))
                .collect();
            leader.signer = Some(statement.signer);
            self.held = Some(Held {
                leader,
                fencing_token: statement.fencing_token,
                until,
                renew_at: now + valid_for / 2,
            });
        }
        Ok(())
    }

    /// Returns the reportable information on this leader: the signed statement of a trusted leader,
    /// and nothing of others.
    pub fn told(&self, leader: Option<LeaderInfo>, now: Moment) -> Option<LeaderInfo> {
        let mut leader = leader?;
        if leader.is_self {
            leader.signer = self
                .keyring
                .signer
                .as_ref()
                .map(|signer| signer.key.clone());
            return Some(leader);
        }
        if !self.is_required() {
            return Some(leader);
        }
        let held = self.held.as_ref()?;
        let is_it = held.leader.instance_id == leader.instance_id
            && held.leader.incarnation == leader.incarnation;
        (is_it && now < held.until).then(|| held.leader.clone())
    }

    /// Returns the fencing token in the last trusted statement.
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.held.as_ref().map(|held| held.fencing_token)
    }

    /// Returns the moment from which this reported leader must no longer be reported.
    pub fn lapses_at(&self, told: Option<&LeaderInfo>) -> Option<Moment> {
        told.filter(|leader| self.is_required() && !leader.is_self)?;
        self.held.as_ref().map(|held| held.until)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use super::*;
    use crate::model::statement::Signer;
    use nats_elect_core::heirs::Heirs;
    use nats_elect_core::record::Release;
    use nats_elect_core::release::ReleaseSecret;
    use nats_elect_core::token::LeaseToken;

    const EPOCH: u64 = 5;
    const LASTS: Duration = Duration::from_secs(10);

    fn second(n: u64) -> Moment {
        Moment::from_nanos(n * 1_000_000_000)
    }

    fn statement() -> LeaderStatement {
        LeaderStatement {
            bucket: "leaders".to_owned(),
            role: RoleName::new("r").expect("a name"),
            fencing_token: FencingToken {
                epoch: EPOCH,
                sequence: 1,
            },
            instance_id: "a".to_owned(),
            incarnation: Uuid::from_u128(1),
            priority: 7,
            meta: BTreeMap::from([("k".to_owned(), "signed\n".to_owned())]),
            issued_at: SystemTime::UNIX_EPOCH,
            expires_at: SystemTime::UNIX_EPOCH,
            signer: "U".to_owned(),
        }
    }

    /// Returns signatures that trust any proof that is a number, as its validity in seconds, and
    /// the record of the proofs that were verified. A second number is the incarnation, and the
    /// sequence of its fencing token.
    fn signatures() -> (Signatures, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&asked);
        let keyring = Keyring {
            signer: None,
            verify: Some(Arc::new(move |text| {
                noted.lock().expect("no panic").push(text.to_owned());
                let (seconds, term) = text.split_once(' ').unwrap_or((text, "1"));
                let seconds = seconds.parse().map_err(|_| Distrust::Malformed)?;
                let term = term.parse().expect("a number");
                let mut statement = statement();
                statement.incarnation = Uuid::from_u128(term);
                statement.fencing_token.sequence = u64::try_from(term).expect("a small one");
                Ok((statement, Duration::from_secs(seconds)))
            })),
        };
        let role = RoleName::new("r").expect("a name");
        let mut signatures = Signatures::new(role, keyring, Uuid::from_u128(99));
        signatures.bucket_is(&BucketName::new("leaders").expect("a name"), EPOCH);
        (signatures, asked)
    }

    fn record(incarnation: u128, proof: Option<&str>) -> Entry {
        Entry {
            revision: 1,
            content: Content::Record(Box::new(SeenRecord {
                id: "a".to_owned(),
                priority: 0,
                meta: BTreeMap::new(),
                ttl: Some(LASTS),
                incarnation: Some(Uuid::from_u128(incarnation)),
                beat: Some(1),
                release: None,
                heirs: Heirs::NONE,
                proof: proof.map(ToOwned::to_owned),
                application: None,
            })),
        }
    }

    fn known(incarnation: u128) -> LeaderInfo {
        let mut leader = LeaderInfo::new("a");
        leader.incarnation = Some(Uuid::from_u128(incarnation));
        leader
    }

    #[test]
    fn a_verified_statement_is_reported_until_it_expires() {
        let (mut signatures, _) = signatures();
        assert_eq!(signatures.told(Some(known(1)), second(100)), None);
        let mut entry = record(1, Some("10"));
        assert_eq!(signatures.judge(&mut entry, second(100)), None);
        assert_eq!(entry, record(1, None), "the election sees no proof");
        let told = signatures
            .told(Some(known(1)), second(109))
            .expect("a leader");
        assert_eq!((told.priority, &*told.meta["k"]), (7, "signed"));
        assert_eq!(told.signer.as_deref(), Some("U"));
        assert_eq!(signatures.lapses_at(Some(&told)), Some(second(110)));
        assert_eq!(signatures.told(Some(known(1)), second(110)), None);
        assert_eq!(
            signatures.told(Some(known(2)), second(101)),
            None,
            "of another"
        );
    }

    #[test]
    fn a_leaders_next_statement_is_verified_after_half_of_the_last_ones_validity() {
        let (mut signatures, asked) = signatures();
        let mut asked_at = |at, proof: &str| {
            let why = signatures.judge(&mut record(1, Some(proof)), second(at));
            let asked = std::mem::take(&mut *asked.lock().expect("no panic"));
            (!asked.is_empty(), why)
        };
        assert_eq!(asked_at(100, "10"), (true, None));
        assert_eq!(asked_at(104, "10"), (false, None));
        assert_eq!(asked_at(105, "10"), (true, None));
        // A statement that expires sooner does not shorten the validity.
        assert_eq!(asked_at(110, "1"), (true, None));
        assert_eq!(asked_at(111, "x"), (true, Some(Distrust::Malformed)));
        assert!(signatures.told(Some(known(1)), second(114)).is_some());
        assert_eq!(signatures.told(Some(known(1)), second(115)), None);
    }

    #[test]
    fn a_record_of_an_earlier_leader_that_comes_late_hides_no_leader() {
        let (mut signatures, _) = signatures();
        let mut judge = |term: u128, at| {
            let proof = format!("10 {term}");
            signatures.judge(&mut record(term, Some(&proof)), second(at))
        };
        assert_eq!((judge(1, 100), judge(2, 101)), (None, None));
        assert_eq!(judge(1, 102), None, "it is trusted all the same");
        assert!(signatures.told(Some(known(2)), second(102)).is_some());
        assert_eq!(signatures.told(Some(known(1)), second(102)), None);
        // NATS may have lost the later term. Its statement is forgotten when it has expired.
        let _ = signatures.judge(&mut record(1, Some("10 1")), second(111));
        assert!(signatures.told(Some(known(1)), second(112)).is_some());
    }

    #[test]
    fn a_statement_about_another_instance_or_bucket_is_rejected() {
        let (mut signatures, _) = signatures();
        let mismatch = Some(Distrust::Mismatch);
        let judge = |signatures: &mut Signatures, incarnation| {
            signatures.judge(&mut record(incarnation, Some("10")), second(100))
        };
        assert_eq!(judge(&mut signatures, 2), mismatch);
        assert_eq!(judge(&mut signatures, 99), None, "its own record");
        assert_eq!(judge(&mut signatures, 1), None);
        let name = BucketName::new("leaders").expect("a name");
        signatures.bucket_is(&name, EPOCH + 1);
        assert_eq!(signatures.told(Some(known(1)), second(101)), None);
        assert_eq!(judge(&mut signatures, 1), mismatch, "the bucket of before");
        let mut opaque = Entry {
            revision: 1,
            content: Content::Opaque,
        };
        let judged = signatures.judge(&mut opaque, second(100));
        assert_eq!(judged, Some(Distrust::Unsigned));
        opaque.content = Content::Release(Release::default());
        assert_eq!(signatures.judge(&mut opaque, second(100)), None);
    }

    #[test]
    fn a_signed_statement_expires_no_later_than_the_lease() {
        let (mut signatures, _) = signatures();
        let lease_end = clock::now() + LASTS;
        let mut own = Record {
            id: "me".to_owned(),
            token: LeaseToken::new(Uuid::nil()),
            priority: 1,
            meta: BTreeMap::new(),
            ttl: LASTS,
            nonce: nats_elect_core::record::Nonce {
                incarnation: Uuid::from_u128(99),
                beat: 1,
            },
            release: ReleaseSecret::new(1).hash(),
            heirs: Heirs::NONE,
            proof: None,
            application: None,
        };
        let token = statement().fencing_token;
        assert!(
            signatures.statement(&own, token, lease_end).is_none(),
            "no key"
        );
        let stated = Arc::<Mutex<Option<LeaderStatement>>>::default();
        let noted = Arc::clone(&stated);
        signatures.keyring.signer = Some(Signer {
            key: "U".to_owned(),
            sign: Arc::new(move |statement| {
                *noted.lock().expect("no panic") = Some(statement);
                "signed".to_owned()
            }),
        });
        own.priority = 3;
        let sign = signatures.statement(&own, token, lease_end).expect("a key");
        assert_eq!(sign(), "signed");
        let stated = stated.lock().expect("no panic").take().expect("it");
        let left = stated.expires_at.duration_since(stated.issued_at);
        let left = left.expect("a while");
        assert!((LASTS * 9 / 10..=LASTS).contains(&left), "{left:?}");
        assert_eq!((&*stated.instance_id, stated.priority), ("me", 3));
        assert_eq!(stated.signer, "U");
        // The process paused after the step was taken, and the lease ended meanwhile.
        let sign = signatures.statement(&own, token, clock::now());
        assert!(sign.is_none(), "nothing is left to state");
    }
}
