//! A manager that can have no companion process says so at once. What companions do is in
//! `tests/last_will`.

use std::time::Duration;

use nats_elect::{Error, LastWillConfig, ManagerConfig, RoleManager};
use nats_elect_testing::NatsServer;

use crate::support::SOON;

async fn refused(config: ManagerConfig) -> String {
    let started = RoleManager::builder().config(config).start();
    let started = tokio::time::timeout(SOON, started).await.expect("in time");
    match started {
        Err(Error::LastWill(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_program_that_does_not_call_init_is_told_to() {
    // Nothing listens there: it is refused before anything connects.
    let config = ManagerConfig::default()
        .servers("nats://127.0.0.1:1")
        .last_will(LastWillConfig::on());
    let why = refused(config).await;
    assert!(why.contains("last_will::init()"), "{why}");
    assert!(why.contains("last_will.program"), "{why}");
}

#[tokio::test]
async fn a_program_that_is_no_companion_is_refused() {
    for (program, reason) in [
        ("/bin/true", "last_will::init()"),
        ("/bin/cat", "last_will::init()"),
        ("/no/such/program", "could not be started"),
    ] {
        let config = ManagerConfig::default()
            .servers("nats://127.0.0.1:1")
            .last_will(LastWillConfig::by(program));
        let why = refused(config).await;
        assert!(why.contains(reason), "{program}: {why}");
    }
}

#[tokio::test]
async fn a_connection_of_the_callers_own_is_refused() {
    let server = NatsServer::start().expect("a server");
    let client = nats_elect::async_nats::connect(server.url()).await;
    let builders = [
        RoleManager::builder().client(client.expect("a connection")),
        RoleManager::builder().connect_options(nats_elect::async_nats::ConnectOptions::new()),
    ];
    for builder in builders {
        let builder = builder
            .servers(server.url())
            .start_timeout(Duration::from_secs(5))
            .last_will(LastWillConfig::by("/bin/true"));
        let started = builder.start().await;
        let Err(Error::LastWill(why)) = started else {
            panic!("{started:?}");
        };
        assert!(why.contains("`connect_options`"), "{why}");
    }
}
