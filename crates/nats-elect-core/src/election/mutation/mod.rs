//! Deliberate breakages of the protocol, one at a time, to show that the simulation notices them.
//!
//! They are compiled in only with `--cfg nats_elect_mutations`, and chosen at run time.

/// Whether this breakage is on. In an ordinary build it never is.
macro_rules! mutated {
    ($name:ident => $instead:stmt) => {
        #[cfg(nats_elect_mutations)]
        if $crate::election::mutation::Mutation::$name.is_on() {
            $instead
        }
    };
    ($name:ident) => {{
        #[cfg(nats_elect_mutations)]
        {
            $crate::election::mutation::Mutation::$name.is_on()
        }
        #[cfg(not(nats_elect_mutations))]
        {
            false
        }
    }};
}
pub(crate) use mutated;

#[cfg(nats_elect_mutations)]
mod breakages;
#[cfg(nats_elect_mutations)]
mod list;

#[cfg(nats_elect_mutations)]
pub(super) use breakages::free_at;
#[cfg(nats_elect_mutations)]
pub use list::{GROUP_MUTATIONS, MUTATIONS, Mutation, mend};
