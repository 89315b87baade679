//! Each rule of groups, by what it promises.

mod failing;
mod growth;
mod placing;
mod planner;
mod rules;
mod schedules;
mod shown;
mod size;
mod world;
