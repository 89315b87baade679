//! Groups in the picture of `top`.

use nats_elect::{Release, StopOptions};
use nats_elect_testing::{NatsServer, eventually};

use super::shows;
use crate::fleet::SOON;
use crate::group::{all_owned, member};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_whose_members_are_all_gone_is_shown_with_its_unowned_units() {
    let server = NatsServer::start().expect("a server");
    let one = member(&server, "node-1").start().await.expect("start");
    all_owned(&[&one]).await;
    let wanted = ["12 units", "2 units", "view current"];
    eventually(SOON, "no word of owners", async || {
        let output = shows(&server, &[], &wanted).await;
        (!output.stdout.contains("owner")).then_some(())
    })
    .await;

    one.stop(StopOptions::default()).await.expect("a stop");
    let wanted = [
        "units without an owner: 14",
        "12 of 12 units have no owner; no member is there",
        "2 of 2 units have no owner; no member is there",
    ];
    shows(&server, &[], &wanted).await;

    // It keeps all records, and sends no heartbeat any more.
    let two = member(&server, "node-2").start().await.expect("start");
    all_owned(&[&two]).await;
    let kept = StopOptions::default().release(Release::Keep);
    two.stop(kept).await.expect("a stop");
    let wanted = ["12 of 12 units of owners that were not seen alive yet"];
    shows(&server, &[], &wanted).await;
}
