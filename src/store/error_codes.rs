//! What the error codes of `JetStream` mean to a client that writes, reads, watches and creates a
//! bucket: one table for nats-server 2.11 to 2.15.

use super::error::StoreError;
use StoreError::{BucketFull, BucketUnfit, Contended, JetStreamDisabled, Unavailable, Unsupported};

type Meaning = fn(String) -> StoreError;

/// Codes by meaning. No code is in it twice.
const TABLE: &[(Meaning, &[u64])] = &[
    (
        |detail| StoreError::Conflict {
            current: last_sequence(&detail),
        },
        &[10071],
    ),
    (Contended, &[10164]),
    (
        Unavailable,
        &[
            10004, // a cluster's answer is incomplete
            10007, 10008, 10009, // no server of the cluster, or not this one, takes it
            10010,
            10036, // the server is not in a cluster, or in another mode, as while it starts
            10035, // the account is not known yet
            10041, 10075, // Raft, a change of peers
            10118, 10119, 10194, 10195, // the stream or the consumer is offline
            10124, 10202, 10226, // the stream or the cluster is being changed
            10158, // a message with the same id is in progress
            10163, // the last sequence is not known yet
            10167, 10210, 10211, // too many requests or batches
            // The rest of a batch whose first message was refused, because too many batches were
            // open or the server had abandoned it.
            10176,
        ],
    ),
    // Both occur when the server applies a message that the replicas have agreed on. The other
    // replicas may have stored it. The text of 10077 may also say that the bucket is full.
    (uncertain, &[10063, 10077]),
    (
        BucketFull,
        &[
            10002, 10120, // limits of the account
            10023, 10028, 10047, // resources of the server or the account
            10026, 10027, 10053, // consumers, streams, limits of a stream
        ],
    ),
    (JetStreamDisabled, &[10039, 10076]),
    // Batches.
    (Unsupported, &[10174, 10177, 10205]),
    (
        BucketUnfit,
        &[
            10065, // its subjects are another stream's
            10109, // it is sealed
            10169, // it counts, and takes counters alone
        ],
    ),
];

/// Returns the error of a code. A code that is not known means the same as others of its HTTP
/// status: 429 and 503 say that the server cannot take the request at the moment.
pub(super) fn error_of(code: u64, status: usize, detail: String) -> StoreError {
    let row = TABLE.iter().find(|(_, codes)| codes.contains(&code));
    match row {
        Some((error, _)) => error(detail),
        None if matches!(status, 429 | 503) => Unavailable(detail),
        None => StoreError::Rejected { code, detail },
    }
}

fn uncertain(detail: String) -> StoreError {
    let full = ["maximum bytes exceeded", "maximum messages exceeded"];
    if full.iter().any(|limit| detail.contains(limit)) {
        BucketFull(detail)
    } else {
        StoreError::Uncertain(detail)
    }
}

fn last_sequence(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("wrong last sequence: ")?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: u64, status: usize) -> StoreError {
        error_of(code, status, String::new())
    }

    /// The codes that nats-server 2.11.0 to 2.15 knows, by its `server/errors.json`, with the HTTP
    /// status 429, or 500 and above.
    const OF_THE_SERVER: [u64; 48] = [
        10004, 10006, 10007, 10008, 10009, 10010, 10012, 10023, 10028, 10029, 10035, 10036, 10039,
        10041, 10042, 10045, 10047, 10048, 10049, 10050, 10051, 10052, 10053, 10057, 10062, 10063,
        10064, 10066, 10067, 10069, 10072, 10074, 10075, 10076, 10077, 10096, 10104, 10110, 10111,
        10117, 10118, 10119, 10163, 10167, 10194, 10195, 10210, 10211,
    ];
    /// Those of them that no heartbeat gets: they answer requests that create, change, back up and
    /// restore streams and consumers, or read what is in them.
    const OF_OTHER_REQUESTS: [u64; 23] = [
        10006, 10012, 10029, 10042, 10045, 10048, 10049, 10050, 10051, 10052, 10057, 10062, 10064,
        10066, 10067, 10069, 10072, 10074, 10096, 10104, 10110, 10111, 10117,
    ];

    #[test]
    fn no_code_has_two_meanings() {
        let mut codes: Vec<_> = TABLE.iter().flat_map(|(_, codes)| *codes).collect();
        let all = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), all);
    }

    #[test]
    fn a_failure_of_the_server_is_no_fault_of_a_heartbeat_and_ends_no_term() {
        for code in OF_THE_SERVER {
            let error = told(code, 500);
            assert!(
                !matches!(
                    error,
                    StoreError::Conflict { .. } | Unsupported(_) | BucketUnfit(_)
                ),
                "{code} is {error:?}"
            );
            let is_other = matches!(error, StoreError::Rejected { .. });
            assert_eq!(is_other, OF_OTHER_REQUESTS.contains(&code), "{code}");
        }
    }

    #[test]
    fn what_is_offline_being_changed_or_not_there_yet_is_unavailable() {
        let passing = [
            10008, 10010, 10036, 10118, 10119, 10124, 10158, 10163, 10194, 10195, 10202, 10210,
            10226,
        ];
        for code in passing {
            assert!(matches!(told(code, 500), Unavailable(_)), "{code}");
        }
    }

    #[test]
    fn a_code_that_is_not_known_is_told_by_its_status() {
        for status in [400, 500] {
            assert!(matches!(told(19_999, status), StoreError::Rejected { .. }));
        }
        for status in [429, 503] {
            assert!(matches!(told(19_999, status), Unavailable(_)));
        }
    }

    #[test]
    fn limits_of_the_account_and_the_server_mean_that_there_is_no_room() {
        for code in [10002, 10023, 10026, 10027, 10028, 10047, 10053, 10120] {
            assert!(matches!(told(code, 500), BucketFull(_)), "{code}");
        }
    }
}
