//! The default policy of groups: what its plans promise, for made-up fleets and for some that users
//! will have.

mod carry_out;
mod cases;
mod fleets;
mod joins_and_leaves;
mod least_moves;
mod limits;
mod properties;
mod rolling_restart;
mod size;
