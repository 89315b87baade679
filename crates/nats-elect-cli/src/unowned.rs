//! Why units have no owner that is known to live.

use nats_elect::{ObservedMember, ObservedUnit, UnitStanding};

/// A record names a member that was not seen alive yet.
pub const UNCONFIRMED: &str = "unconfirmed";
/// A record names a member of which no heartbeat was seen for its whole lease.
const EXPIRED: &str = "expired";

/// Why a unit has no owner that is known to live, as one word, if it has none. The member is the one
/// that its record names.
pub fn lack(
    unit: &ObservedUnit,
    owner: Option<&ObservedMember>,
    is_current: bool,
) -> Option<&'static str> {
    let owner = owner.filter(|_| unit.standing == UnitStanding::Owned);
    let Some(owner) = owner else {
        return Some(unit.standing.as_str());
    };
    if lives(owner) {
        return None;
    }
    Some(if is_over(owner, is_current) {
        EXPIRED
    } else {
        UNCONFIRMED
    })
}

/// Whether no heartbeat of a member was seen for its whole lease. Who sees nothing can't tell.
pub fn is_over(member: &ObservedMember, is_current: bool) -> bool {
    is_current && member.ttl.is_some_and(|ttl| member.age >= ttl)
}

/// All that [`lack`] says.
pub fn lacks() -> impl Iterator<Item = &'static str> {
    let standings = UnitStanding::ALL.iter().map(|it| it.as_str());
    let standings = standings.filter(|it| *it != UnitStanding::Owned.as_str());
    standings.chain([UNCONFIRMED, EXPIRED])
}

/// Whether a member is known to live. Who writes a record that does not fit its epoch may be anyone.
pub const fn lives(member: &ObservedMember) -> bool {
    member.confirmed && member.understood
}
