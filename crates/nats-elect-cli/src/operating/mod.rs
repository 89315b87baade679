//! Operating instances: what several commands have in common.
//!
//! ```text
//! orders      an instance stands for election, or does not
//! stepped     what became of a term that was ended on purpose
//! standby     which candidates could take a role over
//! ```

pub mod orders;
pub mod standby;
pub mod stepped;
