//! Which signatures to trust.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nats_elect_signing::{LeaderProof, TrustedKeys};

use crate::config_file::text_of;
use crate::exit::Failure;
use crate::options::duration;

/// The keys to trust, and how far clocks may differ.
pub type Trusted = (TrustedKeys, Duration);

/// Keys are missing.
pub fn no_key() -> Failure {
    Failure::usage("there is no key to trust")
        .advice("give the signers' public nkeys with --key or --keys-file")
}

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
    max_skew: Duration,
}

impl Trust {
    pub const fn is_given(&self) -> bool {
        !self.keys.is_empty() || self.keys_file.is_some()
    }

    /// The keys, and how far clocks may differ; nothing if no key is named.
    pub fn keys(&self) -> Result<Option<Trusted>, Failure> {
        if self.max_skew > LeaderProof::MAX_SKEW {
            return Err(Failure::usage("--max-skew must be at most 60s"));
        }
        let mut keys = self.keys.clone();
        if let Some(path) = &self.keys_file {
            let text = text_of(path)?;
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
            return Err(no_key());
        }
        match TrustedKeys::parse(&keys) {
            Ok(keys) => Ok(Some((keys, self.max_skew))),
            Err(error) => Err(Failure::usage(error.to_string())),
        }
    }
}
