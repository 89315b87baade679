//! `verify`: whether a leader proof is true.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use nats_elect::{LeaderProof, ProofError, RoleName, VerifiedLeader};
use serde::Deserialize;

use crate::cli::Shared;
use crate::exit::{Code, Failure, Outcome};
use crate::output::Output;
use crate::text::{lasted, stamp, wall_clock};
use crate::trust::Trust;

const EXAMPLES: &str = "\
Examples:
  nats-elect verify --key UABC... leader-proof-1.eyJi...
  nats-elect verify --keys-file trusted.txt --role scheduler
  curl -s https://leader/proof | nats-elect verify --keys-file trusted.txt";

/// Verify a leader's proof
///
/// A leader with a signing key signs a statement: the role, its instance id, its fencing token and
/// an expiry. Anyone who has the public key can check this proof. It may come from the argument, a
/// file, stdin, or the role's record in the bucket. The command connects to NATS only with --role.
///
/// The exit code is 0 if a trusted key signed the proof and it is valid now. It is 2 if a file can't
/// be read, 3 if there is no proof, as with an empty input, and 4 if the proof is not valid; stderr
/// says why. A valid proof does not show that the instance still leads: see docs/signing.md.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Verify {
    /// The proof. Without it, --file and --role, the command reads stdin
    #[arg(conflicts_with_all = ["file", "role"])]
    proof: Option<String>,

    /// A file with the proof, or - for stdin
    #[arg(short, long, conflicts_with = "role")]
    file: Option<PathBuf>,

    /// Take the proof from this role's record in the bucket
    #[arg(short, long)]
    role: Option<String>,

    #[command(flatten)]
    trust: Trust,
}

/// What of a role's record is looked at.
#[derive(Deserialize)]
struct Record {
    proof: Option<String>,
}

impl Verify {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let trusted = self.trust.keys()?.ok_or_else(|| {
            Failure::usage("there is no key to trust")
                .advice("give the signers' public nkeys with --key or --keys-file")
        })?;
        let text = self.text(shared).await?;
        if text.trim().is_empty() {
            return Err(Failure::not_found(
                "there is no proof to verify: the input is empty",
            ));
        }
        let proof: LeaderProof = text.trim().parse().map_err(|error| refused(&error))?;
        let now = wall_clock();
        let leader = proof
            .verify(&trusted, now, self.trust.max_skew)
            .map_err(|error| refused(&error))?;
        if let Some(role) = &self.role
            && leader.role.as_str() != role
        {
            return Err(Failure::new(
                Code::Refused,
                format!(
                    "the record of role {role:?} has a proof for role {:?}: somebody copied it there",
                    leader.role.as_str()
                ),
            ));
        }
        tell(&leader, now, output)?;
        Ok(0)
    }

    async fn text(&self, shared: &Shared) -> Result<String, Failure> {
        if let Some(role) = &self.role {
            return of_record(role, shared).await;
        }
        if let Some(proof) = &self.proof {
            return Ok(proof.clone());
        }
        let read = match &self.file {
            Some(path) if path.as_os_str() != "-" => std::fs::read(path),
            _ if self.file.is_none() && std::io::stdin().is_terminal() => {
                return Err(Failure::usage("there is no proof to verify")
                    .advice("pass it as an argument, with --file or on stdin, or name a --role"));
            }
            _ => all_of(std::io::stdin().lock()),
        };
        let read =
            read.map_err(|error| Failure::usage(format!("the proof can't be read: {error}")))?;
        // What is no text is no proof, as other rubbish.
        Ok(String::from_utf8_lossy(&read).into_owned())
    }
}

fn all_of(mut input: impl Read) -> std::io::Result<Vec<u8>> {
    let mut read = Vec::new();
    input.read_to_end(&mut read)?;
    Ok(read)
}

async fn of_record(role: &str, shared: &Shared) -> Result<String, Failure> {
    RoleName::new(role).map_err(|error| Failure::usage(error.to_string()))?;
    let reading = async |client, name: String| {
        let bucket = shared.bucket_of(client, &name).await?;
        bucket.get(role).await.map_err(|error| {
            Failure::new(
                Code::Unreachable,
                format!("the record of role {role:?} could not be read: {error}"),
            )
        })
    };
    let value = shared.reading(reading).await?;
    let value = value.ok_or_else(|| {
        Failure::not_found(format!("role {role:?} has no leader: there is no record"))
    })?;
    let record = serde_json::from_slice::<Record>(&value).ok();
    record.and_then(|record| record.proof).ok_or_else(|| {
        Failure::not_found(format!("the record of role {role:?} has no proof")).advice(
            "its leader has no signing key, is winding down, or was just elected: then try again",
        )
    })
}

fn refused(error: &ProofError) -> Failure {
    Failure::new(Code::Refused, format!("the proof is not valid: {error}"))
}

fn tell(leader: &VerifiedLeader, now: SystemTime, output: Output) -> std::io::Result<()> {
    let left = leader.expires_at.duration_since(now).unwrap_or_default();
    if output.is_data() {
        return output.data(&serde_json::json!({
            "valid": true,
            "bucket": leader.bucket.as_str(),
            "role": leader.role.as_str(),
            "leader": leader.instance_id.as_str(),
            "incarnation": leader.incarnation,
            "fencing_token": leader.fencing_token,
            "priority": leader.priority,
            "meta": leader.meta,
            "issued_at": stamp(leader.issued_at),
            "expires_at": stamp(leader.expires_at),
            "signer": leader.signer.as_str(),
        }));
    }
    output.line("valid")?;
    for (name, value) in [
        ("role", leader.role.to_string()),
        ("bucket", leader.bucket.to_string()),
        ("leader", leader.instance_id.to_string()),
        ("incarnation", leader.incarnation.to_string()),
        ("fencing token", leader.fencing_token.to_string()),
        ("priority", leader.priority.to_string()),
        ("issued at", stamp(leader.issued_at)),
        (
            "expires at",
            format!("{} (in {})", stamp(leader.expires_at), lasted(left)),
        ),
        ("signed by", leader.signer.to_string()),
    ] {
        output.line(format!("  {name:<14} {value}"))?;
    }
    for (key, value) in &leader.meta {
        output.line(format!("  meta.{key:<9} {value}"))?;
    }
    Ok(())
}
