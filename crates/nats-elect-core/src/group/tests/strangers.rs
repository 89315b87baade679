//! Rule 12: what strangers write over units. The numbers are
//! those in `docs/protocol.md`.

use std::time::Duration;

use super::super::*;
use super::world::*;

const SECOND: Duration = Duration::from_secs(1);

/// 12: an owner ends its term as soon as another record is shown.
#[test]
fn a_foreign_record_over_its_unit_ends_the_owners_term() {
    let mut world = World::settled(2, 1);
    let owner = world.owner(0);
    world.forge(0, Some(UnitRecord::Nobody), None);
    world.run(SECOND / 2);
    assert!(world.nodes[owner].terms[&unit(0)].revoked);
}

/// 12: a forged record that names a living member makes no second owner.
#[test]
fn a_forged_owner_begins_after_the_longest_lease() {
    let mut world = World::settled(2, 1);
    let (owner, other) = (world.owner(0), 1 - world.owner(0));
    let named = UnitRecord::Owned(epoch(world.nodes[other].epoch));
    world.nodes[owner].silent = true;
    world.forge(0, Some(named), None);
    world.run_short_of(LONGEST_LEASE, SECOND);
    assert!(world.owners(&unit(0)).is_empty());
    world.until(3 * SECOND, |world| world.owners(&unit(0)) == [other]);
}

/// 6: its age proves nothing if it was purged before the owner was shown it.
#[test]
fn a_forged_owner_never_begins_on_a_record_that_the_owner_was_not_shown() {
    let mut world = World::settled(2, 1);
    let (owner, other) = (world.owner(0), 1 - world.owner(0));
    let key = GroupKey::Unit(unit(0));
    let named = UnitRecord::Owned(epoch(world.nodes[other].epoch));
    world.forge(0, Some(named), None);
    let forged = world.keys[&key].message.clone();
    world.tell(other, GroupInput::Shown(forged));
    world.purge(&key);
    world.run_short_of(LONGEST_LEASE, SECOND);
    assert_eq!(world.owners(&unit(0)), [owner]);
    world.run(LONGEST_LEASE + TTL);
    world.until(TTL, |world| world.owners(&unit(0)).len() == 1);
}

/// 12: nobody gives on, under its signature, what it was given by nobody known.
#[test]
fn a_forged_owner_gives_nothing_away_before_its_record_is_of_age() {
    let mut world = World::settled(3, 1);
    let owner = world.owner(0);
    let (second, third) = ((owner + 1) % 3, (owner + 2) % 3);
    world.nodes[owner].silent = true;
    let named = UnitRecord::Owned(epoch(world.nodes[second].epoch));
    world.forge(0, Some(named), None);
    world.run(SECOND / 2);
    let to = epoch(world.nodes[third].epoch);
    let hint = world.hint(0, to);
    world.tell(second, hint);
    world.run_short_of(LONGEST_LEASE, 2 * SECOND);
    assert_eq!(world.stands(0), Some(named));
}

/// 12: a giving that the owner signed counts at once. No other signature and none does. The owner
/// has died, so that its own term does not last: with its key a stranger could forge the first.
#[test]
fn a_giving_without_the_owners_signature_costs_the_longest_lease() {
    for signer in [Some(true), Some(false), None] {
        let mut world = World::settled(2, 1);
        let (owner, other) = (world.owner(0), 1 - world.owner(0));
        let [giver, heir] = [owner, other].map(|index| epoch(world.nodes[index].epoch));
        world.nodes[owner].alive = false;
        let signed = signer.map(|is_owner| if is_owner { giver } else { heir });
        world.forge(0, Some(UnitRecord::Owned(heir)), signed);
        world.run(SECOND);
        let counts = world.owners(&unit(0)) == [other];
        assert_eq!(counts, signer == Some(true));
        world.run_short_of(LONGEST_LEASE, 3 * SECOND);
        assert_eq!(!world.owners(&unit(0)).is_empty(), counts);
    }
}

/// 12: a signed giving that is stored a second time was not written over what it says.
#[test]
fn a_signed_giving_that_is_repeated_counts_for_nothing() {
    let mut world = World::settled(2, 1);
    let (owner, other) = (world.owner(0), 1 - world.owner(0));
    world.nodes[owner].silent = true;
    let repeated = GroupContent::Unit {
        key: unit(0),
        record: Some(UnitRecord::Owned(epoch(world.nodes[other].epoch))),
        signed: Some(epoch(world.nodes[owner].epoch)),
    };
    world.store(GroupKey::Unit(unit(0)), None, repeated);
    world.run_short_of(LONGEST_LEASE, SECOND);
    assert!(world.owners(&unit(0)).is_empty());
}

/// 12: a stranger that makes a unit and its group's record look new.
#[test]
fn a_unit_that_only_looks_new_has_no_second_owner() {
    let mut world = World::settled(1, 1);
    world.nodes[0].silent = true;
    let key = GroupKey::Unit(unit(0));
    world.purge(&key);
    let nobody = GroupContent::Unit {
        key: unit(0),
        record: Some(UnitRecord::Nobody),
        signed: None,
    };
    world.store(key, Some(0), nobody);
    let key = GroupKey::Group(group());
    let made = world.keys[&key].message.clone();
    world.store(key, Some(made.sequence), made.content);
    let joined = world.join(1);
    world.until(LONGEST_LEASE + TTL, |world| {
        world.owners(&unit(0)) == [joined]
    });
}

/// 12: rubbish and delete markers cost time, and the unit has an owner again.
#[test]
fn a_unit_under_rubbish_gets_an_owner_again() {
    let mut world = World::settled(2, 1);
    world.forge(0, None, None);
    world.run(LONGEST_LEASE);
    assert!(world.owners(&unit(0)).is_empty());
    world.until(LONGEST_LEASE + 3 * HEARTBEAT, |world| {
        world.owners(&unit(0)).len() == 1
    });
}
