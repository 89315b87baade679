//! At no true instant do two instances hold a valid lease on the role, but for those that a loss left in the air.

use super::Note;
use super::losses::Losses;
use crate::world::World;

pub fn hear(world: &World, note: &Note, losses: &Losses) -> Result<(), String> {
    let Note::Moved { .. } = note else {
        return Ok(());
    };
    let mut valid = world.nodes.iter().enumerate().flat_map(|(i, node)| {
        node.valid_terms(world.now)
            .filter(move |(_, term)| !losses.excuse(world, i, term.proved))
            .map(move |(id, _)| (i, id))
    });
    match (valid.next(), valid.next()) {
        (Some(one), Some(other)) => Err(format!("two leaders: node-{one:?}, node-{other:?}")),
        _ => Ok(()),
    }
}
