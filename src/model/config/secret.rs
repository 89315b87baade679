//! Secret text that only NATS receives.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A password, a token, a seed or the content of a credentials file.
///
/// `Debug` shows `***`. There is no `Display`. The serialized form is the text itself.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Returns the text. Do not log it or put it in an error.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_even_show_its_length() {
        for text in ["", "x", "a long one"] {
            assert_eq!(format!("{:?}", Secret::from(text)), "***");
        }
    }
}
