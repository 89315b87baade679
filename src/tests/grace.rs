//! What an election makes of the monitor's word that its grace period is over.

use std::time::Duration;

use nats_elect::EndCause;
use nats_elect_core::name::RoleName;

use crate::clock;
use crate::support::instance::{ending, standing};
use crate::support::{ROLE, leased_for, ms, served};

const LONG_AGO: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_election_obeys_the_monitor_but_for_an_outage_before_its_last_proof() {
    let (server, journal) = served();
    let config = leased_for(ms(15_000)).disconnect_grace_period(ms(12_000));
    let a = standing("a", server.url(), &journal, config).await;
    let first = journal.started(ROLE, 0).await;
    let name = RoleName::new(ROLE).expect("a name");
    let role = a.role(ROLE);

    a.manager().tell_grace_over(&name, clock::now() - LONG_AGO);
    // The election takes its messages in their order.
    let proved = role.validate().await.expect("it leads on");
    assert_eq!(proved, first.fencing_token);
    assert!(role.is_leader());

    let ends = ending(EndCause::ConnectionLost);
    let log = a.log();
    assert_eq!(log.count(&ends), 0);
    // However many heartbeats are confirmed until then: it is of a later outage.
    a.manager().tell_grace_over(&name, clock::now() + LONG_AGO);
    log.wait_for("the end", ends).await;
    assert!(!role.is_leader());
    journal.ended(ROLE, 0).await;
    a.stop().await;
}
