//! Two applications that stand for one role in one bucket.

use nats_elect::Error;
use nats_elect_testing::{NatsServer, eventually};

use crate::support::bucket::Stranger;
use crate::support::instance::{Instance, instance, standing};
use crate::support::journal::Journal;
use crate::support::operator::Operator;
use crate::support::{ROLE, SOON, logs, patient, served};

async fn of_application(id: &str, name: &str, server: &NatsServer) -> Result<Instance, Error> {
    instance(id, server.url(), &Journal::default())
        .with(|builder| builder.application(name))
        .standing(patient())
        .try_start()
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_is_refused_the_role_of_another_one_if_both_set_their_names() {
    let server = NatsServer::start().expect("start");
    let billing = of_application("a", "billing", &server)
        .await
        .expect("start");
    billing.wait_until_leader().await;
    let record = Stranger::connect(&server.url()).await.record().await;
    assert_eq!(record["application"], "billing");
    assert_eq!(record.get("program"), None);
    let same = of_application("b", "billing", &server).await;
    drop(same.expect("the same application"));

    let refused = of_application("c", "invoicing", &server).await;
    let error = refused.err().expect("another application");
    assert!(matches!(error, Error::OtherApplication { .. }), "{error}");
    for expected in ["\"billing\"", "\"invoicing\"", "NATS_ELECT_BUCKET"] {
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(billing.is_leader());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_of_another_application_is_warned_of_if_one_did_not_set_its_name() {
    let logs = logs::install();
    let (server, journal) = served();
    // Its name is that of this test's program.
    let first = standing("a", server.url(), &journal, patient()).await;
    first.wait_until_leader().await;
    let record = Stranger::connect(&server.url()).await.record().await;
    assert!(record["program"].is_string(), "{record}");
    let second = of_application("b", "invoicing", &server).await;
    let second = second.expect("no name was set twice");
    second.wait_until_following("a").await;
    eventually(SOON, "a warning", async || {
        let told = logs.text().contains("and this is \"invoicing\"");
        told.then_some(())
    })
    .await;
    let operator = Operator::of(&server).await;
    let b = operator.instance("b").await;
    let report = operator.report(&b).await;
    assert_eq!(report.application.as_deref(), Some("invoicing"));
    assert!(report.roles.contains_key(ROLE));
}
