//! What a hash of a machine leaves out.

use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

/// A value that decides nothing from one step to the next: a setting that never changes, a counter
/// that only has to be greater than the numbers in use, or what a step has used up. Model checkers,
/// which hash machines, tell no situations apart by it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unhashed<T>(pub T);

impl<T> Hash for Unhashed<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl<T> Deref for Unhashed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Unhashed<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
