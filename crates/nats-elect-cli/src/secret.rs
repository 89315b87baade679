//! The secret that requests over HTTP have to show.

use std::path::Path;
use std::sync::Arc;

use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq;

use crate::config_file::text_of;
use crate::exit::Failure;

/// The shortest secret. Whoever reaches the address can try secrets.
const LEAST: usize = 16;

/// It is never printed.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// # Errors
    /// If the file can't be read, or what it has is short or can't stand in a header.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = text_of(path)?;
        let secret = text.trim();
        if secret.len() < LEAST || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Failure::usage(format!(
                "{} must have at least {LEAST} characters, and none but letters, digits and punctuation of ASCII",
                path.display()
            )));
        }
        Ok(Self(secret.into()))
    }

    /// Whether a request bears it, once, as RFC 6750 has it. The time that it takes tells nothing of
    /// how much of a guess is right.
    pub fn is_shown(&self, headers: &HeaderMap) -> bool {
        let mut said = headers.get_all(header::AUTHORIZATION).iter();
        // Two of them say nothing.
        let said = said.next().filter(|_| said.next().is_none());
        let said = said.and_then(|it| it.as_bytes().split_at_checked(7));
        said.is_some_and(|(scheme, said)| {
            scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(said.ct_eq(self.0.as_bytes()))
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_whole_secret_is_shown_or_none() {
        let secret = Secret("0123456789abcdef".into());
        let is_shown = |value: &'static str| {
            let value = HeaderValue::from_static(value);
            secret.is_shown(&HeaderMap::from_iter([(header::AUTHORIZATION, value)]))
        };
        assert!(is_shown("Bearer 0123456789abcdef"));
        assert!(is_shown("bearer 0123456789abcdef"));
        for wrong in [
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Bearer  0123456789abcdef",
            "Bearer 0123456789ABCDEF",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
            "Bearer ",
            "",
        ] {
            assert!(!is_shown(wrong), "{wrong}");
        }
        assert!(!secret.is_shown(&HeaderMap::new()));
    }
}
