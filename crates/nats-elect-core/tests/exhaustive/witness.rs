//! The events that a configuration must be able to bring about, as a set and as properties.

/// For a space and its `Witness`es, each with the name of its property: the set of those that were
/// seen, and the property that one can be brought about. A property's condition can capture nothing,
/// hence one for each.
macro_rules! witnesses {
    ($space:ty; $($witness:ident: $name:literal)*) => {
        /// A set of witnesses.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Witnessed(u32);

        impl Witnessed {
            pub const fn add(&mut self, witness: Witness) {
                self.0 |= 1 << witness as u32;
            }

            const fn has(self, witness: Witness) -> bool {
                self.0 & 1 << witness as u32 != 0
            }
        }

        /// The property that this can be brought about.
        fn possible(witness: Witness) -> Property<$space> {
            match witness {
                $(Witness::$witness => Property::sometimes($name, |_, state: &State| {
                    state.witnessed.has(Witness::$witness)
                }),)*
            }
        }
    };
}

pub(crate) use witnesses;
