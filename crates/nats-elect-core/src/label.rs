//! Enums whose values are labels: in metrics, logs, JSON and on screens they have one name.

/// Gives an enum its `ALL`, `as_str` and `Display`. For this project's crates.
#[doc(hidden)]
#[macro_export]
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::event::FailureKind;
    use crate::handoff::Handoff;
    use crate::peer::Refusal;
    use crate::status::{ConnectionStatus, RoleState};

    #[test]
    fn a_label_is_the_same_in_json_and_in_text() {
        for label in FailureKind::ALL {
            assert_eq!(json!(label), label.to_string());
        }
        for label in Handoff::ALL {
            assert_eq!(json!(label), label.to_string());
        }
        for label in Refusal::ALL {
            assert_eq!(json!(label), label.to_string());
        }
        for label in ConnectionStatus::ALL {
            assert_eq!(json!(label), label.to_string());
        }
        for label in RoleState::ALL {
            assert_eq!(json!(label), label.to_string());
        }
    }
}
