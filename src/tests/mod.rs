//! Tests on real servers of what no user can do: to make an actor panic, to write although the
//! lease is over.

mod crashes;
mod fenced;
mod fenced_race;
mod grace;
mod hammer;
