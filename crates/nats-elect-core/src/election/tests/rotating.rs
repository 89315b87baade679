//! Lease tokens that are replaced while a term goes on.

use super::solo::{OLD_FENCE, Solo, entry, ms, own, settings};
use crate::election::{Effect, Write, WriteKind};
use crate::token::LeaseToken;

fn leading(rotation_interval: Option<std::time::Duration>) -> Solo {
    Solo::leading(settings(|config| {
        config.fencing.rotation_interval = rotation_interval;
        // No reads in between.
        config.fencing.validation_interval = Some(ms(60_000));
        config.health.interval = Some(ms(60_000));
    }))
}

fn token(write: &Write) -> LeaseToken {
    match &write.kind {
        WriteKind::Claim { record, .. } | WriteKind::Renew { record, .. } => record.token,
        other => panic!("no record: {other:?}"),
    }
}

fn rotated(solo: &Solo) -> Option<LeaseToken> {
    solo.effects.iter().find_map(|effect| match effect {
        Effect::Rotate { lease_token, .. } => Some(*lease_token),
        _ => None,
    })
}

/// The next heartbeat, which is due within 200 ms.
fn heartbeat(solo: &mut Solo) -> Write {
    solo.take();
    solo.wait(ms(200));
    solo.find_write().expect("a heartbeat")
}

#[test]
fn after_the_interval_a_heartbeat_carries_a_new_token_and_the_fencing_token_stays() {
    let mut solo = leading(Some(ms(500)));
    let fencing_token = solo.election.status().fencing_token;
    let mut tokens = Vec::new();
    for revision in 103..112 {
        let beat = heartbeat(&mut solo);
        let before = tokens.last().copied();
        tokens.push(token(&beat));
        solo.ack(&beat, revision);
        let changed = before.filter(|before| *before != token(&beat));
        assert_eq!(rotated(&solo).is_some(), changed.is_some());
    }
    tokens.dedup();
    assert_eq!(tokens.len(), 4, "each 500 ms, at the next heartbeat");
    assert_eq!(solo.election.status().fencing_token, fencing_token);
}

#[test]
fn without_an_interval_the_token_stays() {
    let mut solo = leading(None);
    for revision in 103..120 {
        let beat = heartbeat(&mut solo);
        solo.ack(&beat, revision);
        assert_eq!(rotated(&solo), None);
    }
}

#[test]
fn a_new_token_counts_only_once_its_heartbeat_is_known_to_stand() {
    let mut solo = leading(Some(ms(500)));
    for revision in 103..105 {
        let beat = heartbeat(&mut solo);
        solo.ack(&beat, revision);
    }
    let beat = heartbeat(&mut solo);
    let new = token(&beat);
    solo.time_out(&beat);
    assert_eq!(rotated(&solo), None);
    // The read shows that it was written.
    solo.wait(ms(60));
    let ttl = solo.settings.ttl;
    solo.read(Some(entry(105, own(&beat, ttl))), Some(OLD_FENCE));
    assert_eq!(rotated(&solo), Some(new));
}

#[test]
fn a_token_whose_heartbeat_was_not_written_is_never_used_again() {
    let mut solo = leading(Some(ms(500)));
    let mut last = None;
    for revision in 103..105 {
        let beat = heartbeat(&mut solo);
        solo.ack(&beat, revision);
        last = Some(beat);
    }
    let unwritten = heartbeat(&mut solo);
    solo.time_out(&unwritten);
    solo.wait(ms(60));
    let ttl = solo.settings.ttl;
    let stands = own(&last.expect("a heartbeat"), ttl);
    solo.read(Some(entry(104, stands)), Some(OLD_FENCE));
    let next = solo.write();
    assert_ne!(token(&next), token(&unwritten));
    solo.ack(&next, 106);
    assert_eq!(rotated(&solo), Some(token(&next)));
}
