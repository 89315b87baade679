//! Each rule of groups, by what it promises.

mod rules;
mod schedules;
mod shown;
mod world;
