//! What the error codes of `JetStream` mean to a client that writes, reads, watches and creates a
//! bucket: one table for nats-server 2.11 to 2.15.

/// What an error code means, by the reaction that it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The key has another sequence than the expected one.
    Conflict,
    /// Another write on the same condition is in progress.
    Contended,
    /// The server cannot take the request at the moment. It stored nothing.
    Unavailable,
    /// The server failed after it had taken the write. It may be stored.
    Uncertain,
    /// A limit of the bucket, the account or the server leaves no room. Nothing was stored.
    Full,
    /// `JetStream` is off on the server or for the account.
    Off,
    /// The bucket does not exist.
    Gone,
    /// The server or the bucket lacks the operation.
    Unsupported,
    /// The bucket refuses records by its settings.
    Unfit,
    /// The request is at fault, or settings that it asks for, or what it asks for is not there. The
    /// same request never succeeds.
    Refused,
}

use Meaning::{
    Conflict, Contended, Full, Gone, Off, Refused, Unavailable, Uncertain, Unfit, Unsupported,
};

/// Codes by meaning. No code is in it twice.
const TABLE: &[(Meaning, &[u64])] = &[
    (Conflict, &[10071]),
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
    (Uncertain, &[10063, 10077]),
    (
        Full,
        &[
            10002, 10120, // limits of the account
            10023, 10028, 10047, // resources of the server or the account
            10026, 10027, 10053, // consumers, streams, limits of a stream
        ],
    ),
    (Off, &[10039, 10076]),
    (Gone, &[10059]),
    // Batches.
    (Unsupported, &[10174, 10177, 10205]),
    (
        Unfit,
        &[
            10065, // its subjects are another stream's
            10109, // it is sealed
            10169, // it counts, and takes counters alone
        ],
    ),
    (
        Refused,
        &[
            // A consumer, a message or a template that is not there.
            10014, 10149, 10037, 10043, 10068, //
            // Requests that the server can't read, or not for this stream or server.
            10003, 10025, 10038, 10056, 10060, 10070, 10073, 10096, 10157, 10185, 10193, 10225,
            10227, //
            // Sizes.
            10054, 10097, //
            // Creating and changing streams; 10005 says that servers are missing.
            10005, 10006, 10011, 10021, 10022, 10024, 10030, 10031, 10032, 10033, 10034, 10046,
            10048, 10049, 10050, 10051, 10052, 10055, 10058, 10061, 10066, 10067, 10069, 10074,
            10113, 10117, 10122, 10123, 10128, 10133, 10140, 10141, 10142, 10143, 10144, 10145,
            10146, 10147, 10150, 10151, 10152, 10154, 10155, 10156, 10173, 10186, 10187, 10198,
            10209, 10213, 10214, 10215, 10216, 10217, //
            // Mirrors, sources, backups, purges, and the cluster's administration.
            10015, 10029, 10040, 10042, 10044, 10045, 10057, 10062, 10064, 10072, 10110, 10111,
            10129, 10130, 10224, //
            // Consumers.
            10012, 10013, 10016, 10017, 10018, 10019, 10020, 10078, 10079, 10080, 10081, 10082,
            10083, 10084, 10085, 10086, 10087, 10088, 10089, 10090, 10091, 10092, 10093, 10094,
            10095, 10098, 10099, 10100, 10101, 10102, 10103, 10104, 10105, 10106, 10107, 10108,
            10112, 10114, 10115, 10116, 10121, 10125, 10126, 10127, 10131, 10132, 10134, 10135,
            10136, 10137, 10138, 10139, 10148, 10153, 10159, 10160, 10161, 10162, 10178, 10181,
            10182, 10183, 10184, 10196, 10197, 10204, 10218, 10219, 10220, 10221, 10222, //
            // Headers that no record carries: lifetimes, counters, schedules, conditions.
            10165, 10166, 10168, 10170, 10171, 10172, 10180, 10188, 10189, 10190, 10191, 10192,
            10203, 10212, 10223, //
            // Batches that are put together wrongly.
            10175, 10179, 10199, 10200, 10201, 10206, 10207, 10208,
        ],
    ),
];

impl Meaning {
    /// Returns the meaning of a code. A code that is not known means the same as others of its
    /// HTTP status: 429 and 503 say that the server cannot take the request at the moment.
    pub fn of(code: u64, status: usize) -> Option<Self> {
        let row = TABLE.iter().find(|(_, codes)| codes.contains(&code));
        match row {
            Some((meaning, _)) => Some(*meaning),
            None => matches!(status, 429 | 503).then_some(Unavailable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The codes that nats-server 2.11.0 to 2.15 knows, by its `server/errors.json`.
    const KNOWN: std::ops::RangeInclusive<u64> = 10002..=10227;
    /// Those of them with the HTTP status 429, or 500 and above.
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
    fn each_code_that_servers_know_has_one_meaning() {
        for code in KNOWN {
            let rows = TABLE.iter().filter(|(_, codes)| codes.contains(&code));
            assert_eq!(rows.count(), 1, "{code}");
        }
        let codes = TABLE.iter().map(|(_, codes)| codes.len()).sum::<usize>();
        assert_eq!(
            codes,
            KNOWN.count(),
            "no code twice, and none that is not known"
        );
    }

    #[test]
    fn a_failure_of_the_server_is_no_fault_of_a_heartbeat_and_ends_no_term() {
        for code in OF_THE_SERVER {
            let meaning = Meaning::of(code, 500).unwrap();
            assert!(
                !matches!(meaning, Conflict | Gone | Unsupported | Unfit),
                "{code} is {meaning:?}"
            );
            let is_refused = meaning == Refused;
            assert_eq!(is_refused, OF_OTHER_REQUESTS.contains(&code), "{code}");
        }
    }

    #[test]
    fn what_is_offline_being_changed_or_not_there_yet_is_unavailable() {
        let passing = [
            10008, 10010, 10036, 10118, 10119, 10124, 10158, 10163, 10194, 10195, 10202, 10226,
        ];
        for code in passing {
            assert_eq!(Meaning::of(code, 500), Some(Unavailable), "{code}");
        }
    }

    #[test]
    fn a_code_that_is_not_known_is_told_by_its_status() {
        assert_eq!(Meaning::of(19_999, 400), None);
        assert_eq!(Meaning::of(19_999, 500), None);
        for status in [429, 503] {
            assert_eq!(Meaning::of(19_999, status), Some(Unavailable));
        }
    }

    #[test]
    fn limits_of_the_account_and_the_server_mean_that_there_is_no_room() {
        for code in [10002, 10023, 10026, 10027, 10028, 10047, 10053, 10120] {
            assert_eq!(Meaning::of(code, 500), Some(Full), "{code}");
        }
    }
}
