//! Deliberate breakages of the rules, one at a time, to show that the world of members notices them.
//!
//! They are compiled in only with the feature `__mutations`, and chosen at run time.

/// Whether this breakage is on. In an ordinary build it never is.
macro_rules! broken {
    ($name:ident) => {{
        #[cfg(feature = "__mutations")]
        {
            $crate::member::mutation::Mutation::$name.is_on()
        }
        #[cfg(not(feature = "__mutations"))]
        {
            false
        }
    }};
}
pub(crate) use broken;

#[cfg(feature = "__mutations")]
pub use list::{MUTATIONS, Mutation};

#[cfg(feature = "__mutations")]
mod list {
    use std::sync::atomic::{AtomicU8, Ordering};

    static ON: AtomicU8 = AtomicU8::new(0);

    macro_rules! mutations {
        ($($(#[$doc:meta])* $name:ident,)*) => {
            /// A broken rule.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[repr(u8)]
            pub enum Mutation {
                /// None.
                None,
                $($(#[$doc])* $name,)*
            }

            /// All of them.
            pub const MUTATIONS: &[Mutation] = &[$(Mutation::$name),*];
        };
    }

    mutations! {
        /// Rule 1: a unit begins while others may still act on it.
        NobodyWaitedFor,
        /// Rule 1: a unit begins beside a handler of another generation in the same process.
        BeginsBesideGeneration,
        /// Rule 2: a handler that was told to end is no exception.
        ToldIsNoException,
        /// Rule 2: exceptions of other generations count for nothing.
        OtherGenerationsIgnored,
        /// Rule 3: the former owner of a unit is not waited for.
        FormerOwnerForgotten,
        /// Rule 4: an epoch is told over by its member before its handlers have ended.
        EndedEarly,
        /// Rule 4: an epoch is told over by others before its lease is.
        MarkedEarly,
        /// Rule 4: *ended* is written over whatever is stored.
        MarkedOverAnything,
        /// Rule 4: an epoch that is over comes back with its record.
        OverEnds,
        /// Rule 5: a collect leaves out who is in no map that the collector follows.
        CollectsKnownAlone,
        /// Rule 5: a member collects although others know later maps.
        CollectsBehind,
        /// Rule 5: the reads need not show a heartbeat that was sent before.
        ReadsBeforeHeartbeat,
        /// Rule 7: the next generation opens before the former owners are clear.
        OpensEarly,
    }

    impl Mutation {
        /// Breaks this rule, and mends the one that was broken before.
        pub fn turn_on(self) {
            ON.store(self as u8, Ordering::Relaxed);
        }

        pub(crate) fn is_on(self) -> bool {
            ON.load(Ordering::Relaxed) == self as u8
        }
    }
}
