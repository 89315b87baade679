//! `verify`: whether a leader proof is true.

use std::io::{IsTerminal, Read, stdin};

use clap::Args;
use nats_elect::LeaderStatement;
use nats_elect_signing::{LeaderProof, ProofError};
use serde_json::json;

use crate::exit::{Failure, Outcome};
use crate::output::Output;
use crate::text::{lasted, row, stamp, wall_clock};
use crate::trust::{Trust, no_key};

const EXAMPLES: &str = "\
Examples:
  nats-elect verify --key UABC... leader-proof-1.eyJi...
  nats-elect verify --keys-file trusted.txt < proof
  curl -s https://leader/proof | nats-elect verify --keys-file trusted.txt";

/// Verify a leader's proof
///
/// A leader with a signing key signs a statement: the role, its instance id, its fencing token and
/// an expiry. Anyone who has the public key can check this proof. It may come from the argument or
/// from stdin. The command does not connect to NATS. `inspect` checks the proof in a role's record.
///
/// The exit code is 0 if a trusted key signed the proof and it is valid now. It is 3 if there is no
/// proof, as with an empty input, and 4 if the proof is not valid; stderr says why. A valid proof does
/// not show that the instance still leads: see docs/signing.md.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Verify {
    /// The proof. Without it, the command reads stdin
    proof: Option<String>,

    #[command(flatten)]
    trust: Trust,
}

impl Verify {
    pub fn run(self, output: Output) -> Outcome {
        let (trusted, max_skew) = self.trust.keys()?.ok_or_else(no_key)?;
        let text = self.proof.map_or_else(typed, Ok)?;
        if text.trim().is_empty() {
            let what = "there is no proof to verify: the input is empty";
            return Err(Failure::not_found(what));
        }
        let refused =
            |error: ProofError| Failure::refused(format!("the proof is not valid: {error}"));
        let proof: LeaderProof = text.trim().parse().map_err(refused)?;
        let leader = proof.verify(&trusted, wall_clock(), max_skew);
        tell(&leader.map_err(refused)?, output)?;
        Ok(0)
    }
}

/// What stdin has.
fn typed() -> Result<String, Failure> {
    if stdin().is_terminal() {
        return Err(Failure::usage("there is no proof to verify")
            .advice("pass it as an argument or on stdin"));
    }
    let mut read = Vec::new();
    stdin().lock().read_to_end(&mut read)?;
    // What is no text is no proof, as other rubbish.
    Ok(String::from_utf8_lossy(&read).into_owned())
}

fn tell(leader: &LeaderStatement, output: Output) -> std::io::Result<()> {
    let left = leader.expires_at.duration_since(wall_clock());
    let left = lasted(left.unwrap_or_default());
    let (issued, expires) = (stamp(leader.issued_at), stamp(leader.expires_at));
    let told = json!({
        "valid": true,
        "bucket": leader.bucket,
        "role": leader.role.as_str(),
        "leader": leader.instance_id,
        "incarnation": leader.incarnation,
        "fencing_token": leader.fencing_token,
        "priority": leader.priority,
        "meta": leader.meta,
        "issued_at": issued,
        "expires_at": expires,
        "signer": leader.signer,
    });
    let mut lines = vec![
        "valid".to_owned(),
        row("role", leader.role.as_str()),
        row("bucket", &leader.bucket),
        row("leader", &leader.instance_id),
        row("incarnation", &leader.incarnation.to_string()),
        row("fencing token", &leader.fencing_token.to_string()),
        row("priority", &leader.priority.to_string()),
        row("issued at", &issued),
        row("expires at", &format!("{expires} (in {left})")),
        row("signed by", &leader.signer),
    ];
    let meta = leader.meta.iter();
    lines.extend(meta.map(|(key, value)| row(&format!("meta.{key}"), value)));
    output.tell(&told, lines)
}
