//! Setters of settings.

/// Gives a type setters to chain from [`Default`]. Each sets the field of its name. To unset an
/// optional field, assign `None` to the field. For this project's crates.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($config:ident { $($field:ident: $given:ty => $value:expr;)* }) => {
        impl $config {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](field@Self::", stringify!($field), ").")]
                #[must_use]
                pub fn $field(mut self, $field: $given) -> Self {
                    self.$field = $value;
                    self
                }
            )*
        }
    };
}
