//! Each rule of groups, by what it promises.

mod planner;
mod rules;
mod schedules;
mod shown;
mod size;
mod world;
