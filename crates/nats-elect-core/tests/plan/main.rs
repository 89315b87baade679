//! Plans: which member should own which unit of a group.

mod balance;
mod cases;
mod fleets;
mod random;
mod restart;
mod size;
