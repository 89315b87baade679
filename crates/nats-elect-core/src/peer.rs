//! What instances ask one another about a role, apart from the bucket: who could lead next, and whether the leader would
//! hand over.
//!
//! Nothing of this decides who leads: that takes a compare-and-set. Whoever may publish to a role's subject may ask, and
//! an answer may be anyone's, so all of it is hostile until parsed, as records are.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::record::Nonce;
use crate::release::ReleaseHash;
use crate::text::printable;

/// Messages larger than this are not read.
const MAX_MESSAGE_BYTES: usize = 4096;

/// Somebody who stands for a role.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Contender {
    pub id: String,
    pub incarnation: Uuid,
    #[serde(default)]
    pub priority: i64,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum PeerRequest {
    /// Could you lead? To one instance, or to all.
    Ready {
        to: Option<String>,
        /// What the release will be known by; older versions don't tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        release: Option<ReleaseHash>,
    },
    /// Would you hand over to me? To the leader that wrote this record, in the term in which it did.
    Yield {
        incarnation: Uuid,
        beat: u64,
        by: Contender,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum PeerReply {
    /// It could lead, and will claim the role as soon as it is handed over.
    Ready { contender: Contender },
    /// It winds its handler down, and hands over then.
    Yielding,
    /// It will not, for this reason.
    Refused { why: Refusal },
}

/// Why an instance does not take, or does not hand over, a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refusal {
    /// It does not stand for this role.
    NotStanding,
    /// It does not lead, or no longer in the term that was meant: the question came late.
    NotLeader,
    /// Whoever asks has no higher priority.
    PriorityNotHigher,
    /// It is leaving the election.
    Leaving,
    /// It is busy with a term of its own, or with another handoff.
    Busy,
    /// It led not long ago and stays out for its cool-down.
    CoolingDown,
    /// It is paused: it stands for no new term until it is resumed.
    Paused,
    /// It does not reach the bucket.
    Disconnected,
    /// It has not seen this term yet, or not how the one before ended: it would wait for a lease before it believes the release. It is
    /// reading the keys.
    Behind,
    /// Its handler's health check fails.
    Unhealthy,
    /// A reason that this version does not know.
    #[serde(other)]
    Other,
}

impl Refusal {
    /// The reason's name, as it stands in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotStanding => "not_standing",
            Self::NotLeader => "not_leader",
            Self::PriorityNotHigher => "priority_not_higher",
            Self::Leaving => "leaving",
            Self::Busy => "busy",
            Self::CoolingDown => "cooling_down",
            Self::Paused => "paused",
            Self::Disconnected => "disconnected",
            Self::Behind => "behind",
            Self::Unhealthy => "unhealthy",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotStanding => "it does not stand for this role",
            Self::NotLeader => "it does not lead, or no longer in that term",
            Self::PriorityNotHigher => "the priority is not higher",
            Self::Leaving => "it is leaving the election",
            Self::Busy => "it is busy with a term of its own, or with another handoff",
            Self::CoolingDown => "it led not long ago and stays out for its cool-down",
            Self::Paused => "it is paused: resume it first",
            Self::Disconnected => "it does not reach the bucket",
            Self::Behind => "it has not seen this term, or how the one before ended: try again",
            Self::Unhealthy => "its health check fails",
            Self::Other => "it gave a reason that this version does not know",
        })
    }
}

impl PeerRequest {
    /// Asks the leader that wrote the record of this nonce.
    pub const fn hand_over(leader: Nonce, by: Contender) -> Self {
        Self::Yield {
            incarnation: leader.incarnation,
            beat: leader.beat,
            by,
        }
    }

    /// The bytes of a message.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::json!(self).to_string().into_bytes()
    }

    /// Reads a message; nothing if it is no question of this version.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut question = parse(payload)?;
        if let Self::Yield { by, .. } = &mut question {
            by.id = printable(&by.id);
        }
        Some(question)
    }
}

impl PeerReply {
    /// The bytes of a message.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::json!(self).to_string().into_bytes()
    }

    /// Reads a message; nothing if it is no answer of this version.
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

    fn contender() -> Contender {
        Contender {
            id: "node-2".into(),
            incarnation: Uuid::from_u128(2),
            priority: 7,
        }
    }

    #[test]
    fn letters_are_read_as_they_were_written() {
        let leader = Nonce {
            incarnation: Uuid::from_u128(1),
            beat: 17,
        };
        for question in [
            PeerRequest::Ready {
                to: None,
                release: None,
            },
            PeerRequest::Ready {
                to: Some("node-2".into()),
                release: Some(ReleaseSecret::new(17).hash()),
            },
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
    fn a_reason_of_a_later_version_is_still_a_refusal() {
        let answer = PeerReply::parse(br#"{"answer":"refused","why":"the moon is full"}"#);
        assert_eq!(
            answer,
            Some(PeerReply::Refused {
                why: Refusal::Other
            })
        );
    }

    #[test]
    fn a_question_of_an_older_version_does_not_tell_its_release() {
        let question = PeerRequest::parse(br#"{"ask":"ready","to":"node-2"}"#);
        let to = Some("node-2".to_owned());
        let release = None;
        assert_eq!(question, Some(PeerRequest::Ready { to, release }));
    }

    #[test]
    fn names_from_outside_are_made_printable() {
        let json =
            br#"{"ask":"yield","incarnation":"00000000-0000-0000-0000-000000000001","beat":1,
            "by":{"id":"a\nb","incarnation":"00000000-0000-0000-0000-000000000002"}}"#;
        let Some(PeerRequest::Yield { by, .. }) = PeerRequest::parse(json) else {
            panic!("not read");
        };
        assert_eq!((by.id.as_str(), by.priority), ("ab", 0));
    }

    #[test]
    fn a_letter_of_unusual_size_is_not_read() {
        let question = PeerRequest::Ready {
            to: Some("x".repeat(MAX_MESSAGE_BYTES)),
            release: None,
        };
        assert_eq!(PeerRequest::parse(&question.to_json()), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parsers_fail(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (PeerRequest::parse(&bytes), PeerReply::parse(&bytes));
        }
    }
}
