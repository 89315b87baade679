//! Deliberate breakages of the protocol, one at a time, to show that the simulation notices them.
//!
//! They are compiled in only with the feature `__mutations`, and chosen at run time.

/// Whether this breakage is on. In an ordinary build it never is.
macro_rules! mutated {
    ($name:ident => $instead:stmt) => {
        #[cfg(feature = "__mutations")]
        if $crate::mutation::Mutation::$name.is_on() {
            $instead
        }
    };
    ($name:ident) => {{
        #[cfg(feature = "__mutations")]
        {
            $crate::mutation::Mutation::$name.is_on()
        }
        #[cfg(not(feature = "__mutations"))]
        {
            false
        }
    }};
}
pub(crate) use mutated;

#[cfg(feature = "__mutations")]
mod list;

#[cfg(feature = "__mutations")]
pub use list::{MEMBER_MUTATIONS, MUTATIONS, Mutation, mend};
