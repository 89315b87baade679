//! The server versions that elections can run on.
//!
//! nats-server 2.11 is the first version whose new stream leader applies its whole log before it
//! takes a compare-and-set (nats-server#6485). It is also the first that checks a condition on
//! another key than the message's own. The releases before 2.11.2 lose the content of a bucket of
//! ours when they restart while its first message is still stored (nats-server#6753).

use async_nats::ServerInfo;

use super::error::StoreError;
use super::settings::LARGEST_RECORD;

/// The oldest nats-server that elections can run on.
const OLDEST: (u64, u64, u64) = (2, 11, 2);

/// The placeholder for the version of a server that does not report one beside a bucket's settings.
/// All servers from 2.11 on report it.
const UNTOLD: &str = "2.10 or older";

/// Refuses a connected server that is known to be too old, or takes only small messages.
pub(super) fn require_connected_server(server: &ServerInfo) -> Result<(), StoreError> {
    require_server(&server.version)?;
    let most = server.max_payload;
    if most < LARGEST_RECORD as usize {
        return Err(StoreError::BucketUnfit(format!(
            "its server takes messages of {most} bytes at most, and records may need {LARGEST_RECORD}: raise its `max_payload`"
        )));
    }
    Ok(())
}

/// Refuses a server that is known to be too old. A version that cannot be parsed is that of a
/// custom build.
fn require_server(version: &str) -> Result<(), StoreError> {
    if parse(version).is_some_and(|version| version < OLDEST) {
        let version = version.to_owned();
        return Err(StoreError::ServerTooOld { version });
    }
    Ok(())
}

/// Checks the server that answered about a bucket in the same way, by its version if it reported
/// one.
pub(super) fn require_answering_server(version: Option<&str>) -> Result<(), StoreError> {
    match version {
        Some(version) => require_server(version),
        None => Err(StoreError::ServerTooOld {
            version: UNTOLD.to_owned(),
        }),
    }
}

fn parse(version: &str) -> Option<(u64, u64, u64)> {
    let mut parts = version.split(['.', '-', '+']).map(str::parse);
    let mut next = || parts.next()?.ok();
    Some((next()?, next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_refused_if_it_is_known_to_be_too_old() {
        for version in [
            "2.9.10",
            "2.10.26",
            "2.11.0",
            "2.11.1",
            "2.11.0-RC.2",
            "1.4.1",
        ] {
            let error = require_server(version).unwrap_err();
            assert!(error.to_string().contains(version), "{error}");
            assert!(error.to_string().contains("2.11.2"), "{error}");
            assert!(!error.is_transient());
        }
        for version in [
            "2.11.2",
            "2.11.10",
            "2.12.0-RC.1",
            "2.15.1",
            "3.0.0",
            "",
            "dev",
        ] {
            assert_eq!(require_server(version), Ok(()), "{version}");
        }
        assert!(require_answering_server(None).is_err());
        assert_eq!(require_answering_server(Some("2.15.1")), Ok(()));
    }
}
