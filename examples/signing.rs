//! A leader signs that it leads. A third party verifies that with the leader's public key alone.
//!
//! ```text
//! cargo run --example signing
//! cargo run --example signing -- user.nk      # with the key of `nk -gen user`
//! ```
//!
//! It needs `nats-server -js` at `NATS_URL` (by default `nats://127.0.0.1:4222`). It ends
//! after one proof.

use std::time::{Duration, SystemTime};

use nats_elect::{
    BoxError, LeaderStatement, RoleConfig, RoleManager, StopOptions, Term, handler_fn,
};
use nats_elect_signing::{LeaderProof, ProofError, SigningBuilder, SigningKey, TrustedKeys};
use tokio::sync::mpsc;

/// How far apart the clocks of the leader and of the third party may be.
const MAX_SKEW: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt()
        .with_env_filter("info,async_nats=off") // nats-elect itself tells of the connection
        .with_writer(std::io::stderr)
        .init();
    let key = match std::env::args().nth(1) {
        Some(file) => SigningKey::from_seed_file(file)?,
        None => new_key()?,
    };
    // The third party knows the public key beforehand, for example from its configuration.
    let trusted = TrustedKeys::from(key.public_key().clone());

    // A leader sends its proof with its requests to others. Here it goes through a channel.
    let (sender, mut proofs) = mpsc::channel(1);
    let lead = handler_fn(move |term: Term| send_proofs(term, sender.clone()));
    let manager = RoleManager::builder()
        .with_env()
        .bucket("leaders")
        .bucket_auto_create()
        .signing_key(key)
        .role("payments", RoleConfig::default(), lead)
        .start()
        .await?;

    let proof = proofs.recv().await.ok_or("the leader has gone")?;
    println!("{proof}\n");
    let now = now();
    let leader = verify(&proof, &trusted, now)?;
    println!("{} leads {}", leader.instance_id, leader.role);
    println!("with token {}", leader.fencing_token);

    let others = TrustedKeys::from(new_key()?.public_key().clone());
    let refused = verify(&proof, &others, now).err();
    println!("with other keys: {refused:?}");
    let later = now + Duration::from_secs(60);
    let refused = verify(&proof, &trusted, later).err();
    println!("a minute later: {refused:?}");
    manager.stop(StopOptions::default()).await?;
    Ok(())
}

/// The leader's side. A proof is good until the lease ends, and each heartbeat brings a newer one.
async fn send_proofs(term: Term, to: mpsc::Sender<String>) -> Result<(), BoxError> {
    let pause = || tokio::time::sleep(Duration::from_millis(200));
    while term.run_until_cancelled(pause()).await.is_some() {
        // Nothing for a moment after the promotion, until the first heartbeat is confirmed.
        if let Some(proof) = term.proof() {
            term.run_until_cancelled(to.send(proof)).await;
        }
    }
    Ok(())
}

/// The third party's side. It asks nobody: it needs the text, the keys and a clock.
fn verify(text: &str, keys: &TrustedKeys, at: SystemTime) -> Result<LeaderStatement, ProofError> {
    text.parse::<LeaderProof>()?.verify(keys, at, MAX_SKEW)
}

#[expect(clippy::disallowed_methods, reason = "a verifier has a wall clock")]
fn now() -> SystemTime {
    SystemTime::now()
}

fn new_key() -> Result<SigningKey, BoxError> {
    Ok(SigningKey::from_seed(&nkeys::KeyPair::new_user().seed()?)?)
}
