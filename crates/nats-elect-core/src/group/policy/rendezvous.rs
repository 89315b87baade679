//! Rendezvous hashing: an order of members for each unit, which needs no planner.
//!
//! Every version computes the same order, so the function is part of the protocol:
//!
//! - The hash of a text is the first 8 bytes of its SHA-256, as a big-endian number.
//! - A unit's hash is that of: the length of the group's name in bytes as 8 big-endian bytes, the
//!   group's name, the unit's name.
//! - A member's hash is that of its epoch's text.
//! - The score of a unit and a member is `mix(unit xor member)`. `mix` is the finalizer of
//!   `SplitMix64`, all modulo 2^64: `z ^= z >> 30; z *= 0xbf58476d1ce4e5b9; z ^= z >> 27;
//!   z *= 0x94d049bb133111eb; z ^= z >> 31`.
//! - Members come by their scores, the highest first. Of equal scores the lesser epoch comes
//!   first, as bytes.

use std::cmp::Reverse;

use sha2::{Digest, Sha256};

use crate::group::Epoch;
use crate::name::{GroupName, UnitName};

/// The members in the order in which they try to take the unit when it is free and no planner says
/// to whom it goes.
///
/// The units of a member that leaves are spread over all others, and no other unit changes its
/// first member. Members that may not take the unit are to be left out before.
pub fn rendezvous(
    group: &GroupName,
    unit: &UnitName,
    members: impl IntoIterator<Item = Epoch>,
) -> Vec<Epoch> {
    let unit = unit_hash(group, unit.as_str());
    let mut members: Vec<Epoch> = members.into_iter().collect();
    members.sort_by_cached_key(|epoch| rank(unit, *epoch));
    members
}

/// A unit's hash.
pub(in crate::group) fn unit_hash(group: &GroupName, unit: &str) -> u64 {
    let group = group.as_str();
    let mut hasher = Sha256::new();
    hasher.update((group.len() as u64).to_be_bytes());
    hasher.update(group);
    hasher.update(unit);
    number(&hasher.finalize())
}

/// The order in which members take the unit with this hash: the least one first.
pub(in crate::group) fn rank(unit: u64, epoch: Epoch) -> (Reverse<u64>, Epoch) {
    let score = mix(unit ^ hash(epoch.to_string().as_bytes()));
    (Reverse(score), epoch)
}

/// The first of these members for a unit. With an empty name of a unit: for the group as such.
pub(in crate::group) fn first(
    group: &GroupName,
    unit: &str,
    members: impl IntoIterator<Item = Epoch>,
) -> Option<Epoch> {
    let unit = unit_hash(group, unit);
    members.into_iter().min_by_key(|epoch| rank(unit, *epoch))
}

/// The first 8 bytes of a text's SHA-256, as a big-endian number.
fn hash(text: &[u8]) -> u64 {
    number(&Sha256::digest(text))
}

fn number(digest: &[u8]) -> u64 {
    digest[..8]
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(count: usize) -> Vec<Epoch> {
        let epoch = |n: usize| Epoch::new((n as u128).to_be_bytes());
        (0..count).map(epoch).collect()
    }

    fn group() -> GroupName {
        GroupName::new("partitions").expect("a name")
    }

    fn unit(n: usize) -> UnitName {
        UnitName::shard(u32::try_from(n).expect("few"))
    }

    #[test]
    fn the_mixer_is_that_of_splitmix64() {
        // The first outputs of SplitMix64 with seed 0, from its author's reference code.
        let gamma = 0x9e37_79b9_7f4a_7c15_u64;
        assert_eq!(mix(gamma), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(gamma.wrapping_mul(2)), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(mix(gamma.wrapping_mul(3)), 0x06c4_5d18_8009_454f);
    }

    #[test]
    fn the_hash_is_the_beginning_of_sha_256() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(hash(b"abc"), 0xba78_16bf_8f01_cfea);
    }

    #[test]
    fn the_order_is_the_same_in_every_version() {
        let members = members(5);
        let order = |group, n| {
            let group = GroupName::new(group).expect("a name");
            let order = rendezvous(&group, &unit(n), members.iter().copied());
            order.iter().map(|id| id.as_bytes()[15]).collect::<Vec<_>>()
        };
        let orders = [
            order("partitions", 0),
            order("partitions", 1),
            order("partitions", 255),
            order("control", 0),
        ];
        assert_eq!(
            orders,
            [
                [0, 1, 2, 3, 4],
                [3, 0, 4, 2, 1],
                [2, 4, 1, 3, 0],
                [3, 1, 0, 4, 2]
            ]
        );
    }

    #[test]
    fn units_are_spread_evenly() {
        let members = members(10);
        let mut owned = vec![0_u32; 10];
        for n in 0..10_000 {
            let order = rendezvous(&group(), &unit(n), members.iter().copied());
            let first = members.iter().position(|id| *id == order[0]);
            owned[first.expect("a member")] += 1;
        }
        // The standard deviation is 30.
        assert!(
            owned.iter().all(|owned| (850..=1150).contains(owned)),
            "{owned:?}"
        );
    }

    #[test]
    fn only_the_units_of_a_member_that_leaves_move_and_to_all_others() {
        let members = members(10);
        let mut heirs = vec![0_u32; 10];
        for n in 0..10_000 {
            let before = rendezvous(&group(), &unit(n), members.iter().copied());
            let after = rendezvous(&group(), &unit(n), members[1..].iter().copied());
            let rest: Vec<_> = before.iter().filter(|id| **id != members[0]).collect();
            assert!(rest.into_iter().eq(&after));
            if before[0] == members[0] {
                let heir = members.iter().position(|id| *id == after[0]);
                heirs[heir.expect("a member")] += 1;
            }
        }
        assert_eq!(heirs[0], 0);
        assert!(
            heirs[1..].iter().all(|units| (60..=165).contains(units)),
            "{heirs:?}"
        );
    }
}
