//! Servers that are too old to hold elections on.

use std::time::Duration;

use nats_elect::{Error, Observer, RoleManager};

use crate::support::clock::Stamp;

/// It is known from the greeting.
const AT_ONCE: Duration = Duration::from_secs(1);

fn is_told(error: &Error, version: &str) {
    let Error::ServerTooOld { version: told } = error else {
        panic!("{error:?}");
    };
    assert_eq!(told, version);
    assert!(error.to_string().contains("upgrade"), "{error}");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn nothing_starts_on_a_server_that_is_too_old() {
    for version in ["2.9.10", "2.10.26", "2.11.1"] {
        let url = nats_elect_testing::old_server(version);
        let begun = Stamp::now();
        let manager = RoleManager::builder().servers(&url).bucket_auto_create();
        let error = manager.start().await.map(drop).expect_err("too old");
        assert!(Stamp::now().since(begun) < AT_ONCE);
        is_told(&error, version);

        let begun = Stamp::now();
        let observer = Observer::builder().servers(&url).start().await;
        assert!(Stamp::now().since(begun) < AT_ONCE);
        is_told(&observer.map(drop).expect_err("too old"), version);
    }
}
