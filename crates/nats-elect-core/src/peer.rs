//! Messages between instances about a role, apart from the bucket.
//!
//! A leader asks candidates whether they could lead next. A candidate asks the leader whether it
//! would hand over. None of these messages decides who leads: that takes a compare-and-set. Any
//! client that may publish to a role's subject can send a request, and any client can send a reply.
//! So messages are hostile until parsed, as records are.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::labels;
use crate::record::{Nonce, json};
use crate::release::ReleaseHash;
use crate::text::printable;

/// The largest message that is read, in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;

/// A candidate for a role.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Contender {
    /// Its instance id.
    pub id: String,
    /// The start of that instance.
    pub incarnation: Uuid,
    /// Its priority. A missing priority reads as 0.
    #[serde(default)]
    pub priority: i64,
}

/// A peer request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum PeerRequest {
    /// Asks whether the receiver could lead. It goes to one instance, or to all.
    Ready {
        /// The instance id of the receiver. `None` means every candidate.
        to: Option<String>,
        /// The hash that the release of the asker's term will prove. Older versions send none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        release: Option<ReleaseHash>,
        /// How long the leader of now will stay out by that order, in milliseconds. Only a request to
        /// one instance has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold_off_ms: Option<u64>,
        /// Whether the asker's term is ending. Then the release waits for the first answer. Older
        /// versions don't say.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        urgent: bool,
    },
    /// Asks a leader to hand over to a candidate of higher priority.
    Yield {
        /// The leader's incarnation, from its record.
        incarnation: Uuid,
        /// The beat of a record of its present term. A request for an earlier term is refused.
        beat: u64,
        /// The candidate that asks.
        by: Contender,
    },
}

/// A peer reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum PeerReply {
    /// The instance could lead. It claims the role as soon as it is handed over.
    Ready {
        /// The instance that answers.
        contender: Contender,
    },
    /// The leader winds its handler down, and then hands over.
    Yielding,
    /// The instance refuses.
    Refused {
        /// The reason.
        why: Refusal,
    },
}

/// Why an instance does not take or hand over a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refusal {
    /// It is no candidate for this role.
    NotStanding,
    /// It does not lead, or no longer in the term that was meant. The request came late.
    NotLeader,
    /// The priority of the candidate that asks is not higher.
    PriorityNotHigher,
    /// It leads by an order: an operator, or the application, named it as the next leader.
    Ordered,
    /// It is leaving the election.
    Leaving,
    /// It is busy with a term of its own, or with another handoff.
    Busy,
    /// It led shortly before and is in its cool-down.
    CoolingDown,
    /// It is paused, and does not take part in elections until resumed.
    Paused,
    /// It cannot reach the bucket.
    Disconnected,
    /// It has not seen this term yet, or not the end of the one before. It would not believe the
    /// release, but wait for a lease. It is reading the keys, so the asker may try again.
    Behind,
    /// The health check of its handler fails.
    Unhealthy,
    /// Its terms, or those of earlier processes of its id, failed one after the other. It gets
    /// another chance after a pause.
    Failing,
    /// A reason that this version does not know.
    #[serde(other)]
    Other,
}

labels!(Refusal {
    NotStanding => "not_standing",
    NotLeader => "not_leader",
    PriorityNotHigher => "priority_not_higher",
    Ordered => "ordered",
    Leaving => "leaving",
    Busy => "busy",
    CoolingDown => "cooling_down",
    Paused => "paused",
    Disconnected => "disconnected",
    Behind => "behind",
    Unhealthy => "unhealthy",
    Failing => "failing",
    Other => "other",
});

impl Refusal {
    /// The reason in words, to follow "the successor can't take the role:".
    pub const fn describe(self) -> &'static str {
        match self {
            Self::NotStanding => "it does not stand for this role",
            Self::NotLeader => "it does not lead, or no longer in that term",
            Self::PriorityNotHigher => "the priority is not higher",
            Self::Ordered => "it leads by an operator's order",
            Self::Leaving => "it is leaving the election",
            Self::Busy => "it is busy with a term of its own, or with another handoff",
            Self::CoolingDown => "it led not long ago and stays out for its cool-down",
            Self::Paused => "it is paused: resume it first",
            Self::Disconnected => "it does not reach the bucket",
            Self::Behind => "it has not seen this term, or how the one before ended: try again",
            Self::Unhealthy => "its health check fails",
            Self::Failing => {
                "its last terms failed one after the other: when it is mended, resume it and try again"
            }
            Self::Other => "it gave a reason that this version does not know",
        }
    }
}

impl PeerRequest {
    /// The request to the leader that wrote the record with this nonce.
    pub const fn hand_over(leader: Nonce, by: Contender) -> Self {
        Self::Yield {
            incarnation: leader.incarnation,
            beat: leader.beat,
            by,
        }
    }

    /// The message as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        json(self)
    }

    /// Parses a message. Returns `None` if it is too large or not a request that this version
    /// knows.
    ///
    /// Control and invisible characters are removed from names.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut question = parse(payload)?;
        if let Self::Yield { by, .. } = &mut question {
            by.id = printable(&by.id);
        }
        Some(question)
    }
}

impl PeerReply {
    /// The message as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        json(self)
    }

    /// Parses a message. Returns `None` if it is too large or not a reply that this version knows.
    ///
    /// Control and invisible characters are removed from names.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut answer = parse(payload)?;
        if let Self::Ready { contender } = &mut answer {
            contender.id = printable(&contender.id);
        }
        Some(answer)
    }
}

fn parse<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Option<T> {
    if payload.len() > MAX_MESSAGE_BYTES {
        return None;
    }
    serde_json::from_slice(payload).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::release::ReleaseSecret;

    fn ready(to: Option<&str>, release: Option<ReleaseHash>, urgent: bool) -> PeerRequest {
        PeerRequest::Ready {
            to: to.map(ToOwned::to_owned),
            release,
            hold_off_ms: None,
            urgent,
        }
    }

    fn contender() -> Contender {
        Contender {
            id: "node-2".into(),
            incarnation: Uuid::from_u128(2),
            priority: 7,
        }
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let leader = Nonce {
            incarnation: Uuid::from_u128(1),
            beat: 17,
        };
        for question in [
            ready(None, None, true),
            ready(Some("node-2"), Some(ReleaseSecret::new(17).hash()), false),
            PeerRequest::hand_over(leader, contender()),
        ] {
            assert_eq!(PeerRequest::parse(&question.to_json()), Some(question));
        }
        for answer in [
            PeerReply::Ready {
                contender: contender(),
            },
            PeerReply::Yielding,
            PeerReply::Refused {
                why: Refusal::Unhealthy,
            },
        ] {
            assert_eq!(PeerReply::parse(&answer.to_json()), Some(answer));
        }
    }

    #[test]
    fn an_unknown_reason_is_still_a_refusal() {
        let answer = PeerReply::parse(br#"{"answer":"refused","why":"the moon is full"}"#);
        let why = Refusal::Other;
        assert_eq!(answer, Some(PeerReply::Refused { why }));
    }

    #[test]
    fn a_request_of_an_older_version_has_no_release_hash() {
        let question = PeerRequest::parse(br#"{"ask":"ready","to":"node-2"}"#);
        assert_eq!(question, Some(ready(Some("node-2"), None, false)));
    }

    #[test]
    fn received_names_are_made_printable() {
        let json =
            br#"{"ask":"yield","incarnation":"00000000-0000-0000-0000-000000000001","beat":1,
            "by":{"id":"a\nb","incarnation":"00000000-0000-0000-0000-000000000002"}}"#;
        let Some(PeerRequest::Yield { by, .. }) = PeerRequest::parse(json) else {
            panic!("not read");
        };
        assert_eq!((by.id.as_str(), by.priority), ("ab", 0));
    }

    #[test]
    fn a_message_above_the_size_limit_is_not_read() {
        let question = ready(Some(&"x".repeat(MAX_MESSAGE_BYTES)), None, false);
        assert_eq!(PeerRequest::parse(&question.to_json()), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parsers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (PeerRequest::parse(&bytes), PeerReply::parse(&bytes));
        }
    }
}
