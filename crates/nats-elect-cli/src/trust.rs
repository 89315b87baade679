//! Which signatures to trust.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nats_elect::TrustedKeys;

use crate::exit::Failure;
use crate::options::duration;

/// The keys to trust, as they are named on the command line.
#[derive(Debug, Default, Args)]
pub struct Trust {
    /// A key to trust: the public nkey of a signer, which begins with U; may be repeated
    #[arg(short, long = "key", value_name = "KEY", help_heading = "Signatures")]
    keys: Vec<String>,

    /// A file with keys to trust, one per line. Empty lines and text after a # are ignored
    #[arg(long, value_name = "FILE", help_heading = "Signatures")]
    keys_file: Option<PathBuf>,

    /// The largest difference between this machine's clock and the signer's, at most 60s
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s", help_heading = "Signatures")]
    pub max_skew: Duration,
}

impl Trust {
    pub const fn is_given(&self) -> bool {
        !self.keys.is_empty() || self.keys_file.is_some()
    }

    /// The keys; nothing if none are named.
    pub fn keys(&self) -> Result<Option<TrustedKeys>, Failure> {
        if self.max_skew > nats_elect::LeaderProof::MAX_SKEW {
            return Err(Failure::usage("--max-skew must be at most 60s"));
        }
        let mut keys = self.keys.clone();
        if let Some(path) = &self.keys_file {
            let text = std::fs::read_to_string(path).map_err(|error| {
                Failure::usage(format!("{} can't be read: {error}", path.display()))
            })?;
            let lines = text.lines().map(|line| {
                let key = line.split('#').next().unwrap_or("");
                key.trim().to_owned()
            });
            keys.extend(lines.filter(|key| !key.is_empty()));
        } else if keys.is_empty() {
            return Ok(None);
        }
        if keys.is_empty() {
            // An empty file must not come to trusting everybody.
            return Err(Failure::usage("there is no key to trust")
                .advice("give the signers' public nkeys with --key or --keys-file"));
        }
        let keys = TrustedKeys::parse(&keys);
        keys.map(Some)
            .map_err(|error| Failure::usage(error.to_string()))
    }
}
