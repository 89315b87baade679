//! Somebody retires the role.

use crate::world::World;

/// An operator who sees none of the instances.
#[derive(Clone, Debug)]
pub struct Retirement;

impl Retirement {
    pub fn strike(world: &mut World) {
        world.retire();
    }
}
