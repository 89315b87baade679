//! Enums whose values are labels: in metrics, logs, JSON and on screens they have one name.

/// Gives an enum its `ALL`, `as_str` and `Display`.
macro_rules! labels {
    ($name:ident { $($variant:ident => $label:literal,)* }) => {
        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The value's name in metrics, logs and JSON.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $label,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

pub(crate) use labels;
