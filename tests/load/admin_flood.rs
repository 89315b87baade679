//! The admin service under floods of requests.

use futures::StreamExt;
use nats_elect_testing::eventually;

use crate::MACHINE;
use crate::support::clock::Stamp;
use crate::support::instance::{Recorded, is_confirmed, standing};
use crate::support::operator::Operator;
use crate::support::{BUCKET, ROLE, SOON, comes_true, leased_for, ms, served};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_requests_costs_no_lease() {
    let _machine = MACHINE.lock().await;
    let (server, journal) = served();
    let a = standing("a", server.url(), &journal, leased_for(ms(3000))).await;
    journal.started(ROLE, 0).await;
    let operator = Operator::of(&server).await;
    let id = operator.instance("a").await.incarnation;
    let client = operator.client.clone();
    let flooding = tokio::spawn(async move {
        let wrong = br#"{"expected_fencing_token":"00000000000000010000000000000001"}"#.as_slice();
        for _ in 0..10_000 {
            for (subject, body) in [
                ("$SRV.PING".to_owned(), b"".as_slice()),
                ("$SRV.STATS".to_owned(), b""),
                (format!("nats-elect-admin.{BUCKET}.status.{id}"), b""),
                (
                    format!("nats-elect-admin.{BUCKET}.step-down.{id}.{ROLE}"),
                    wrong,
                ),
            ] {
                let reply = "_INBOX.nobody";
                let asked = client.publish_with_reply(subject, reply, body.into());
                asked.await.expect("published");
            }
        }
        client.flush().await.expect("flush");
    });
    let beats = a.log().count(is_confirmed);
    flooding.await.expect("no panic");
    comes_true("heartbeats after the flood", async || {
        a.log().count(is_confirmed) > beats + 3
    })
    .await;
    assert!(a.is_leader());
    assert_eq!(journal.terms(ROLE).len(), 1, "one term all along");
    // And it still answers, as soon as the flood is a second past.
    let found = operator.instance("a").await;
    eventually(SOON, "a report", async || {
        operator.admin.status(&found).await.ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_requests_for_a_report_of_many_roles_costs_no_lease() {
    let _machine = MACHINE.lock().await;
    let (server, journal) = served();
    // A busy machine takes seconds for the orders of a thousand roles.
    let config = || leased_for(ms(10_000)).heartbeat_interval(ms(500));
    let a = standing("a", server.url(), &journal, config()).await;
    journal.started(ROLE, 0).await;
    // They have a place in the report, and cost nothing else.
    a.manager().pause().await.expect("it runs");
    for i in 0..1000 {
        let name = format!("{}{i}", "r".repeat(200));
        let handler = Recorded::obedient("a", &journal);
        let added = a.manager().add_role(name, config(), handler);
        added.await.expect("added");
    }
    let operator = Operator::of(&server).await;
    let found = operator.instance("a").await;
    let status = format!("nats-elect-admin.{BUCKET}.status.{}", found.incarnation);
    let report = operator.ask(&status, b"").await.payload.len();
    assert!(report > 500_000, "{report}");

    let client = operator.client.clone();
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await.expect("inbox");
    let begun = Stamp::now();
    let beats = a.log().count(is_confirmed);
    let (mut whole, mut busy, mut bytes) = (0, 0, 0);
    // Nearly as often as a kind of request is taken up at all.
    let mut tick = tokio::time::interval(ms(6));
    while Stamp::now().since(begun) < ms(4000) {
        tokio::select! {
            _ = tick.tick() => {
                let asked = client.publish_with_reply(status.clone(), inbox.clone(), "".into());
                asked.await.expect("published");
            }
            Some(answer) = answers.next() => {
                bytes += answer.payload.len();
                let problem = answer.headers.is_some();
                *if problem { &mut busy } else { &mut whole } += 1;
            }
        }
    }
    eprintln!("{whole} reports of {report} bytes and {busy} refusals in 4 s");
    assert!(
        a.log().count(is_confirmed) > beats + 3,
        "heartbeats meanwhile"
    );
    assert!(a.is_leader());
    assert_eq!(journal.terms(ROLE).len(), 1, "one term all along");
    assert!(whole > 0 && busy > whole, "{whole} {busy}");
    // 4 MiB in each second that was touched, one report beyond it, and the refusals.
    assert!(bytes < 8 * ((4 << 20) + report + 200_000), "{bytes}");
    // Who means to act is not kept from it.
    let ended = operator.admin.cordon(&found, None).await;
    assert!(ended.expect("cordoned")[ROLE].released);
}
