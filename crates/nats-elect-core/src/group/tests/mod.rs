//! Each rule of groups, by what it promises.

mod ageing;
mod failing;
mod growth;
mod leases;
mod leaving;
mod placing;
mod planner;
mod rules;
mod schedules;
mod shown;
mod size;
mod strangers;
mod world;
