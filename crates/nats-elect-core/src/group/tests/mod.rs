//! Each rule of groups, by what it promises.

mod growth;
mod planner;
mod rules;
mod schedules;
mod shown;
mod size;
mod world;
