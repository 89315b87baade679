//! At no true instant do two instances hold a valid lease on the role, but for those that a loss
//! left in the air.

use super::Note;
use super::losses::Losses;
use crate::world::World;

pub fn hear(world: &World, note: &Note, losses: &Losses) -> Result<(), String> {
    let Note::Moved { .. } = note else {
        return Ok(());
    };
    let mut sound = None;
    let mut in_the_air = None;
    for (i, node) in world.nodes.iter().enumerate() {
        for (id, term) in node.valid_terms(world.now) {
            if losses.excuse(world, i, term.proved) {
                in_the_air = Some((i, id));
            } else if let Some(other) = sound.replace((i, id)) {
                return Err(format!("two leaders: node-{other:?}, node-{:?}", (i, id)));
            }
        }
    }
    match (sound, in_the_air) {
        (Some(sound), Some(old)) if losses.must_have_waited(sound.0) => Err(format!(
            "node-{sound:?} leads before the lease of node-{old:?}, which it knew of, has ended"
        )),
        _ => Ok(()),
    }
}
