use uuid::Uuid;

use crate::assignment::UnitFence;
use crate::token::{CorrelationId, FencingToken};

const CREATED: u64 = 1_790_000_000_000_000_000;

fn fence() -> UnitFence {
    UnitFence {
        token: FencingToken {
            epoch: CREATED,
            sequence: 7,
        },
        term: CorrelationId::new(Uuid::from_u128(1), 2, 7),
    }
}

#[test]
fn a_fence_is_read_as_it_was_written() {
    let json = fence().to_json();
    assert_eq!(
        String::from_utf8_lossy(&json),
        r#"{"token":"18d75b8423f300000000000000000007","term":"000000000000-2-7"}"#
    );
    assert_eq!(UnitFence::read(8, &json, CREATED), Some(fence()));
}

#[test]
fn a_fence_that_no_member_can_have_written_says_nothing() {
    let json = fence().to_json();
    // Copied from another bucket, or put there before its map.
    assert_eq!(UnitFence::read(8, &json, CREATED + 1), None);
    assert_eq!(UnitFence::read(7, &json, CREATED), None);
    let mut long = json.clone();
    long.resize(2000, b' ');
    for rubbish in [&b""[..], b"{}", b"rubbish", b"[7]", &long] {
        assert_eq!(UnitFence::read(8, rubbish, CREATED), None);
    }
}
