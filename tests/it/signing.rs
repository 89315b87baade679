//! Signed leadership: what leaders sign, what others are told of it, and what becomes of forgers.

use std::time::{Duration, SystemTime};

use nats_elect::{Distrust, Event, LeaderInfo, Release, RoleState, StepDown, StopOptions, Term};
use nats_elect_signing::{
    LeaderProof, PublicKey, SigningBuilder, SigningKey, TrustedKeys, TrustingBuilder,
};
use nats_elect_testing::{NatsServer, eventually};
use serde_json::{Value, json};

use crate::support::bucket::{Piece, Stranger};
use crate::support::clock::Stamp;
use crate::support::instance::{Instance, Joining, Recorded, instance, never, standing};
use crate::support::journal::Journal;
use crate::support::{BUCKET, ROLE, SOON, comes_true, leased_for, ms, served};

/// One machine has one clock.
const SKEW: Duration = Duration::ZERO;

#[expect(clippy::disallowed_methods, reason = "proofs are about the wall clock")]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}

fn new_key() -> SigningKey {
    let seed = nkeys::KeyPair::new_user().seed().expect("a seed");
    SigningKey::from_seed(&seed).expect("a key")
}

fn trust<'a>(keys: impl IntoIterator<Item = &'a SigningKey>) -> TrustedKeys {
    let public = |key: &SigningKey| key.public_key().clone();
    keys.into_iter().map(public).collect()
}

fn signing(joining: Joining, key: &SigningKey) -> Joining {
    joining.with(|builder| builder.signing_key(key.clone()))
}

fn trusting(joining: Joining, keys: &TrustedKeys) -> Joining {
    joining.with(|builder| builder.trusted_keys(keys.clone(), SKEW))
}

fn leader(instance: &Instance) -> Option<LeaderInfo> {
    instance.role(ROLE).leader()
}

async fn wait_until_told(instance: &Instance, id: &str, key: &PublicKey) -> LeaderInfo {
    let what = format!("{} being told of {id}", instance.id);
    eventually(SOON, &what, async || {
        leader(instance)
            .filter(|one| one.instance_id == id && one.signer.as_deref() == Some(key.as_str()))
    })
    .await
}

async fn wait_until_distrusted(instance: &Instance, since: Stamp, reason: Distrust) {
    let is_it = |event: &Event| matches!(event, Event::UntrustedRecord { why } if *why == reason);
    let what = format!("a record that is {}", reason.as_str());
    instance.log().wait_for_after(since, &what, is_it).await;
}

fn told_leaders(instance: &Instance) -> Vec<LeaderInfo> {
    let events = instance.log().all().into_iter();
    let told = events.filter_map(|(_, event)| match event {
        Event::LeaderChanged(leader) => leader,
        _ => None,
    });
    told.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_proves_to_anyone_what_it_leads_until_its_term_ends() {
    let (server, journal) = served();
    let ttl = ms(4000);
    let key = new_key();
    let trusted = trust([&key]);
    let config = leased_for(ttl).priority(3).meta("address", "10.0.0.1:80");
    let a = signing(instance("a", server.url(), &journal), &key);
    let a = a.standing(config).start().await;
    let first = journal.started(ROLE, 0).await;
    let proof = eventually(SOON, "a proof", async || first.term().proof()).await;
    let proof: LeaderProof = proof.parse().expect("well formed");

    let at = wall_clock();
    let verified = proof.verify(&trusted, at, SKEW).expect("valid");
    assert_eq!(verified.bucket, BUCKET);
    assert_eq!(verified.role, ROLE);
    assert_eq!(verified.fencing_token, first.fencing_token);
    assert_eq!(verified.instance_id, "a");
    assert_eq!(verified.priority, 3);
    assert_eq!(verified.meta["address"], "10.0.0.1:80");
    assert_eq!(verified.signer, key.public_key().as_str());
    let own = leader(&a).expect("itself");
    assert_eq!(own.incarnation, Some(verified.incarnation));
    assert_eq!(own.signer.as_deref(), Some(key.public_key().as_str()));
    let lasts = verified.expires_at.duration_since(verified.issued_at);
    assert!(lasts.expect("a while") < ttl, "not beyond the lease");
    let lasts = verified.expires_at.duration_since(at).expect("a while");
    assert!(
        lasts <= first.term().remaining() + ms(1) + ttl / 5,
        "{lasts:?}"
    );

    // The same in the bucket, and renewed with the lease.
    let stranger = Stranger::connect(&server.url()).await;
    let later = eventually(SOON, "a newer proof", async || {
        let record = stranger.record().await;
        let text = record["proof"].as_str().expect("a proof").to_owned();
        let stored: LeaderProof = text.parse().expect("well formed");
        let stored = stored.verify(&trusted, wall_clock(), SKEW);
        let stored = stored.expect("valid");
        (stored.expires_at > verified.expires_at).then_some(stored)
    })
    .await;
    assert_eq!(later.fencing_token, verified.fencing_token);

    a.stop().await;
    assert_eq!(first.term().proof(), None, "the term is over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_proof_does_not_wait_for_the_first_heartbeat() {
    let (server, journal) = served();
    let config = leased_for(ms(60_000)).heartbeat_interval(ms(20_000));
    let (one, other) = (new_key(), new_key());
    let trusted = trust([&one, &other]);
    let join = |id, key| {
        let joining = trusting(instance(id, server.url(), &journal), &trusted);
        signing(joining, key).standing(config.clone())
    };
    let a = join("a", &one).start().await;
    journal.started(ROLE, 0).await;
    let b = join("b", &other).start().await;
    wait_until_told(&b, "a", one.public_key()).await;

    // And where a role changes hands: the claim is seen without a proof, then the heartbeat with
    // it.
    let c = join("c", &one).start().await;
    wait_until_told(&c, "a", one.public_key()).await;
    a.stop().await;
    let second = journal.started(ROLE, 1).await;
    let (next, follower, key) = if second.instance == "b" {
        (&b, &c, &other)
    } else {
        (&c, &b, &one)
    };
    wait_until_told(follower, &next.id, key.public_key()).await;
    assert!(
        Stamp::now().since(second.start) < ms(10_000),
        "a heartbeat later"
    );
    // The record may be seen before its writer hears that it stands.
    let own = async || second.term().proof();
    eventually(SOON, "its own proof", own).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_term_that_winds_down_is_renewed_without_a_proof() {
    let (server, journal) = served();
    let config = leased_for(ms(10_000))
        .heartbeat_interval(ms(100))
        .stop_budget(ms(5000));
    let (let_go, gone) = tokio::sync::watch::channel(false);
    let a = signing(instance("a", server.url(), &journal), &new_key());
    let a = a.working(ROLE, config, move |term: Term| {
        let mut gone = gone.clone();
        async move {
            term.cancelled().await;
            gone.wait_for(|gone| *gone).await?;
            Ok(())
        }
    });
    let a = a.start().await;
    let first = journal.started(ROLE, 0).await;
    let stranger = Stranger::connect(&server.url()).await;
    let tape = stranger.tape(ROLE).await;
    let is_signed = |piece: &Piece| piece.value["proof"].is_string();
    let signed = tape.wait_for("a signed record", is_signed).await;
    // It may be seen before its writer hears that it stands.
    let own = async || first.term().proof();
    eventually(SOON, "its own proof", own).await;

    let role = a.role(ROLE);
    let down = tokio::spawn(async move { role.step_down(StepDown::any()).await });
    let renewal = tape
        .wait_for("an unsigned heartbeat", |piece| {
            piece.sequence > signed.sequence && piece.value.is_object() && !is_signed(piece)
        })
        .await;
    assert_eq!(renewal.value["token"], signed.value["token"], "of one term");
    assert!(first.term().is_valid(), "it still has its lease");
    assert_eq!(first.term().proof(), None);
    let_go.send_replace(true);
    let down = down.await.expect("no panic").expect("a leader");
    assert!(down.released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_signs_nothing_is_waited_for_and_not_told_where_keys_are_trusted() {
    let (server, journal) = served();
    let ttl = ms(5000);
    let a = standing("a", server.url(), &journal, leased_for(ttl)).await;
    let first = journal.started(ROLE, 0).await;
    let handler = Recorded::obedient("b", &journal);
    let b = trusting(instance("b", server.url(), &journal), &trust([&new_key()]))
        .handler(ROLE, leased_for(ttl), handler.clone())
        .start()
        .await;
    wait_until_distrusted(&b, first.start, Distrust::Unsigned).await;
    let told = b.role(ROLE);
    let told = tokio::spawn(async move { told.wait_for_leader().await });
    never(
        "a second term, or a word of the first",
        ttl + ms(1000),
        || {
            let leader = leader(&b).is_some() || told.is_finished();
            leader || journal.terms(ROLE).len() != 1
        },
    )
    .await;
    assert_eq!(b.state(), RoleState::Follower);
    assert_eq!(b.role(ROLE).status().leader, None);
    assert!(told_leaders(&b).is_empty());
    assert!(handler.announced().is_empty());
    assert!(
        b.log()
            .count(|event| matches!(event, Event::UntrustedRecord { .. }))
            > 2
    );

    a.stop().await;
    let second = journal.started(ROLE, 1).await;
    assert_eq!(second.instance, "b");
    let itself = told.await.expect("no panic").expect("a leader");
    assert!(itself.is_self, "its own word it takes");
}

/// A record by a foreign client.
fn forged(id: &str, incarnation: &Value, beat: u64, proof: Option<&str>) -> Value {
    let mut record = json!({
        "id": id, "token": "t", "v": 1, "ttl_ms": 60_000, "incarnation": incarnation, "beat": beat,
        "meta": { "address": "evil" }, "priority": 9,
    });
    if let Some(proof) = proof {
        record["proof"] = proof.into();
    }
    record
}

/// A follower that was told of the leader `a`, whose lease was left to stand, and the hand of a
/// forger.
struct Forgery {
    _server: NatsServer,
    journal: Journal,
    follower: Instance,
    /// What it was told of the leader.
    told: LeaderInfo,
    stranger: Stranger,
    /// The leader's last record: a copy for the forger.
    record: Value,
}

impl Forgery {
    async fn prepare() -> Self {
        let (server, journal) = served();
        let key = new_key();
        let trusted = trust([&key]);
        let a = signing(instance("a", server.url(), &journal), &key)
            .standing(leased_for(ms(60_000)).meta("address", "good"))
            .start()
            .await;
        let follower = trusting(instance("b", server.url(), &journal), &trusted);
        let follower = follower.standing(leased_for(ms(60_000))).start().await;
        // It looks on.
        follower.role(ROLE).pause().await.expect("it runs");
        let told = wait_until_told(&follower, "a", key.public_key()).await;
        let stranger = Stranger::connect(&server.url()).await;
        let record = eventually(SOON, "a signed record", async || {
            let record = stranger.record_of(ROLE).await;
            record["proof"].is_string().then_some(record)
        })
        .await;
        let keep = StopOptions::default().release(Release::Keep);
        a.stop_with(keep).await.expect("stop");
        Self {
            _server: server,
            journal,
            follower,
            told,
            stranger,
            record,
        }
    }

    async fn write(&self, record: &Value) -> Stamp {
        let since = Stamp::now();
        let value = serde_json::to_vec(record).expect("json");
        let store = self.stranger.store().await;
        store.put(ROLE, value.into()).await.expect("put");
        since
    }

    async fn is_distrusted(&self, since: Stamp, why: Distrust) {
        wait_until_distrusted(&self.follower, since, why).await;
        // It is judged first, then seen.
        comes_true("nobody to be told of", async || {
            leader(&self.follower).is_none()
        })
        .await;
        assert_eq!(
            self.follower.state(),
            RoleState::Follower,
            "it is waited for"
        );
        assert_eq!(self.journal.terms(ROLE).len(), 1, "nobody led but a");
    }
}

fn proof_in(record: &Value) -> &str {
    record["proof"].as_str().expect("a proof")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_record_is_not_told_whatever_proof_it_carries() {
    let forgery = Forgery::prepare().await;
    let nobody = json!("00000000-0000-0000-0000-00000000000e");
    let own = proof_in(&forgery.record);
    let a = &forgery.record["incarnation"];
    let last = own.len() - 10;
    let other = if own.as_bytes()[last] == b'A' {
        "B"
    } else {
        "A"
    };
    let mut turned = own.to_owned();
    turned.replace_range(last..=last, other);
    for (beat, id, incarnation, proof, why) in [
        (1, "evil", &nobody, None, Distrust::Unsigned),
        (2, "evil", &nobody, Some("x"), Distrust::Malformed),
        (3, "evil", &nobody, Some(own), Distrust::Mismatch),
        (4, "a", &nobody, Some(own), Distrust::Mismatch),
        (5, "evil", a, Some(own), Distrust::Mismatch),
        (6, "evil", a, Some(&*turned), Distrust::BadSignature),
    ] {
        let record = forged(id, incarnation, beat, proof);
        let since = forgery.write(&record).await;
        forgery.is_distrusted(since, why).await;
    }
    let since = Stamp::now();
    let store = forgery.stranger.store().await;
    store.put(ROLE, "no record".into()).await.expect("put");
    forgery.is_distrusted(since, Distrust::Unsigned).await;
    let told = told_leaders(&forgery.follower);
    assert!(
        told.iter().all(|leader| *leader == forgery.told),
        "{told:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_replaced_while_everyone_knows_who_leads() {
    let (server, journal) = served();
    let ttl = ms(60_000);
    let (old, new) = (new_key(), new_key());
    let both = trust([&old, &new]);
    let join = |id| instance(id, server.url(), &journal);
    let member = |id, key| trusting(signing(join(id), key), &both).standing(leased_for(ttl));

    // First everyone trusts both keys; one still signs with the old one.
    let a = member("a", &old).start().await;
    journal.started(ROLE, 0).await;
    let watcher = trusting(join("w"), &both).standing(leased_for(ttl));
    let watcher = watcher.start().await;
    // Whoever stops hands over to the first who is ready: not to this one.
    watcher.role(ROLE).pause().await.expect("it runs");
    wait_until_told(&watcher, "a", old.public_key()).await;

    // Then one after the other is started anew with the new key.
    let b = member("b", &new).start().await;
    wait_until_told(&b, "a", old.public_key()).await;
    a.stop().await;
    journal.started(ROLE, 1).await;
    wait_until_told(&watcher, "b", new.public_key()).await;
    let a = member("a", &new).start().await;
    wait_until_told(&a, "b", new.public_key()).await;
    let told = eventually(SOON, "a word of b", async || {
        let told = told_leaders(&watcher).into_iter();
        let told: Vec<_> = told.map(|leader| leader.instance_id).collect();
        told.iter().any(|id| id == "b").then_some(told)
    })
    .await;
    // The first may have been told before the recording began.
    let once = told == ["a", "b"] || told == ["b"];
    assert!(once, "each once, and nobody else: {told:?}");

    // Last the old key is trusted no more.
    let strict = trusting(join("s"), &trust([&new])).standing(leased_for(ttl));
    let strict = strict.start().await;
    strict.role(ROLE).pause().await.expect("it runs");
    wait_until_told(&strict, "b", new.public_key()).await;
    let late = member("late", &old).start().await;
    wait_until_told(&late, "b", new.public_key()).await;
    a.stop().await;
    b.stop().await;
    // Of those that are left only this one can lead.
    let third = journal.started(ROLE, 2).await;
    assert_eq!(third.instance, "late");
    wait_until_told(&watcher, "late", old.public_key()).await;
    wait_until_distrusted(&strict, third.start, Distrust::UntrustedKey).await;
    comes_true("nobody to be told of", async || leader(&strict).is_none()).await;
    assert_eq!(strict.state(), RoleState::Follower);
    assert!(!strict.is_leader() && late.is_leader());
}
