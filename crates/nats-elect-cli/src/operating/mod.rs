//! Operating instances: what several commands have in common.
//!
//! ```text
//! stepped     what became of a term that was ended on purpose
//! standby     which candidates could take a role over
//! ```

pub mod standby;
pub mod stepped;
