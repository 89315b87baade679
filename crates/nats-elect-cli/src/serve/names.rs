//! The names of this server, so that no other site reaches it through a visitor's browser.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri};

/// The names under which this server is known, besides addresses and `localhost`.
#[derive(Clone)]
pub struct Names(pub Arc<[String]>);

impl Names {
    /// Whether a request is for this server by name. Addresses are no names: for them nobody else's
    /// name server answers.
    pub fn has(&self, target: &Uri, headers: &HeaderMap) -> bool {
        // A target with a name of its own overrides the header.
        let host = target.authority().cloned().or_else(|| {
            let host = headers.get(HOST)?.to_str().ok()?;
            host.parse::<Authority>().ok()
        });
        let Some(host) = host else { return false };
        let name = host.host();
        let address = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        address.unwrap_or(name).parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.0.iter().any(|it| it.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn addresses_and_own_names_are_known_and_no_others() {
        let names = Names(["leaders.example.org".to_owned()].into());
        let asked = |uri: &str, host: Option<&'static str>| {
            let host = host.map(|host| (HOST, HeaderValue::from_static(host)));
            let target = uri.parse().expect("a target");
            names.has(&target, &host.into_iter().collect())
        };
        let has = |host| asked("/", Some(host));
        for host in [
            "127.0.0.1:8642",
            "[::1]:8642",
            "[::1]",
            "localhost",
            "LOCALHOST:1",
            "Leaders.example.org:443",
        ] {
            assert!(has(host), "{host}");
        }
        for host in [
            "evil.example.org:8642",
            "127.0.0.1.example.org",
            "",
            "[localhost",
        ] {
            assert!(!has(host), "{host}");
        }
        assert!(!asked("/", None));
        let target = "http://evil.example.org/";
        assert!(!asked(target, Some("localhost")));
    }
}
