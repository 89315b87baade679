//! Questions and answers between instances, made up.

use arbitrary::{Arbitrary, Result, Unstructured};
use nats_elect_core::peer::Refusal;
use nats_elect_core::peer::{Contender, PeerReply, PeerRequest};
use nats_elect_core::record::Nonce;
use nats_elect_core::release::ReleaseSecret;
use uuid::Uuid;

pub fn name(u: &mut Unstructured<'_>) -> Result<String> {
    Ok((*u.choose(&["own", "node-2", ""])?).to_owned())
}

fn contender(u: &mut Unstructured<'_>) -> Result<Contender> {
    Ok(Contender {
        id: name(u)?,
        incarnation: Uuid::from_u128(u.int_in_range(1..=3)?),
        priority: u.int_in_range(-2..=2)?,
    })
}

/// About the record of this nonce, where it is about one.
pub fn question(u: &mut Unstructured<'_>, record: Nonce) -> Result<PeerRequest> {
    Ok(if bool::arbitrary(u)? {
        PeerRequest::hand_over(record, contender(u)?)
    } else {
        let to = bool::arbitrary(u)?.then(|| name(u)).transpose()?;
        let release = bool::arbitrary(u)?.then(|| ReleaseSecret::new(1).hash());
        PeerRequest::Ready {
            to,
            release,
            hold_off_ms: None,
            urgent: false,
        }
    })
}

pub fn answer(u: &mut Unstructured<'_>) -> Result<PeerReply> {
    Ok(match u.int_in_range(0..=2)? {
        0 => PeerReply::Yielding,
        1 => PeerReply::Refused {
            why: *u.choose(&[Refusal::Unhealthy, Refusal::NotLeader])?,
        },
        _ => PeerReply::Ready {
            contender: contender(u)?,
        },
    })
}
