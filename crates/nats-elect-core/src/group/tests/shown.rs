//! The view of a member, for others to read.

use super::super::*;
use super::world::*;

#[test]
fn all_members_show_the_same_owners_and_the_same_planner() {
    let world = World::settled(3, 4);
    let planner = world.nodes[0].group.planner_of(&group()).unwrap();
    for node in &world.nodes {
        let group = group();
        let shown: Vec<ShownUnit<'_>> = node.group.owners(&group).collect();
        assert_eq!(shown.len(), 4);
        for (number, it) in (0..).zip(&shown) {
            let owner = &world.nodes[world.owner(number)];
            assert_eq!(it.key, &unit(number));
            assert_eq!(it.owner, Some(epoch(owner.epoch)));
            assert_eq!(it.sequence, owner.terms[it.key].sequence);
            assert_eq!(it.state, UnitState::Owned);
        }
        assert_eq!(node.group.planner_of(&group), Some(planner));
        assert_eq!(node.group.own_epoch(), Some(epoch(node.epoch)));
        let members: Vec<ShownMember<'_>> = node.group.members().collect();
        assert_eq!(members.len(), 3);
        assert!(members.iter().all(|it| it.state == MemberState::Living));
        let own = members.iter().find(|it| it.epoch == epoch(node.epoch));
        assert_eq!(own.unwrap().instance, format!("node-{}", node.epoch));
    }
}

#[test]
fn a_dead_member_is_silent_and_then_deposed_and_its_units_are_taken() {
    let mut world = World::settled(2, 2);
    let dead = world.owner(0);
    let gone = epoch(world.nodes[dead].epoch);
    world.nodes[dead].alive = false;
    let state = |world: &World| {
        let mut members = world.nodes[1 - dead].group.members();
        members.find(|it| it.epoch == gone).unwrap().state
    };
    assert_eq!(state(&world), MemberState::Living);
    world.until(TTL, |world| state(world) != MemberState::Living);
    world.until(TTL, |world| state(world) == MemberState::Deposed);
    world.until(TTL, |world| {
        let group = group();
        let mut units = world.nodes[1 - dead].group.owners(&group);
        units.all(|it| it.state == UnitState::Owned && it.owner != Some(gone))
    });
    let planner = world.nodes[1 - dead].group.planner_of(&group());
    assert_eq!(planner, Some(epoch(world.nodes[1 - dead].epoch)));
}
