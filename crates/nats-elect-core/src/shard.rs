//! The shard of a key, by jump consistent hashing.
//!
//! Every version computes the same shard, so the function is part of the protocol: the key's hash is
//! the first 8 bytes of its SHA-256, as a big-endian number. From it follows the shard as in
//! Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm", 2014.

use std::num::NonZeroU32;

use sha2::{Digest, Sha256};

/// The shard of a key in a group of so many shards, from 0 to `shards` − 1.
///
/// It depends on nothing else. When a group grows, a key either keeps its shard or gets one of the
/// new shards.
pub fn shard_of(key: &[u8], shards: NonZeroU32) -> u32 {
    let digest = Sha256::digest(key);
    let first = digest[..8].iter();
    let hash = first.fold(0, |number, byte| number << 8 | u64::from(*byte));
    jump(hash, shards)
}

// 2^31 and the high bits of a key have floating point numbers of their own, and a shard is less
// than 2^32.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss
)]
fn jump(mut key: u64, shards: NonZeroU32) -> u32 {
    let shards = u64::from(shards.get());
    let (mut shard, mut next) = (0, 0);
    while next < shards {
        shard = next;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        next = ((shard + 1) as f64 * ((1_u64 << 31) as f64 / ((key >> 33) + 1) as f64)) as u64;
    }
    shard as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(shards: u32) -> NonZeroU32 {
        NonZeroU32::new(shards).expect("not zero")
    }

    #[test]
    fn the_jump_is_that_of_other_implementations() {
        // The test vectors of github.com/lithammer/go-jump-consistent-hash.
        assert_eq!(jump(1, shards(1)), 0);
        assert_eq!(jump(42, shards(57)), 43);
        assert_eq!(jump(0xdead_10cc, shards(1)), 0);
        assert_eq!(jump(0xdead_10cc, shards(666)), 361);
        assert_eq!(jump(256, shards(1024)), 520);
    }

    #[test]
    fn a_key_has_the_same_shard_in_every_version() {
        let found: Vec<_> = ["", "abc", "tenant-42", "ключ"]
            .iter()
            .map(|key| shard_of(key.as_bytes(), shards(256)))
            .collect();
        assert_eq!(found, [22, 21, 144, 63]);
        assert_eq!(shard_of(b"abc", NonZeroU32::MAX), 374_713_141);
    }

    #[test]
    fn keys_are_spread_evenly() {
        let mut keys = [0_u32; 16];
        for n in 0..16_000 {
            keys[shard_of(format!("key-{n}").as_bytes(), shards(16)) as usize] += 1;
        }
        // The standard deviation is 31.
        assert!(
            keys.iter().all(|keys| (850..=1150).contains(keys)),
            "{keys:?}"
        );
    }

    #[test]
    fn a_group_that_grows_takes_only_what_its_new_shards_need() {
        let mut moved = 0;
        for n in 0..10_000 {
            let key = format!("key-{n}");
            let before = shard_of(key.as_bytes(), shards(256));
            let after = shard_of(key.as_bytes(), shards(320));
            assert!(after == before || after >= 256);
            moved += u32::from(after != before);
        }
        // A fifth, with a standard deviation of 40.
        assert!((1_800..=2_200).contains(&moved), "{moved}");
    }
}
