//! Lease tokens that are replaced while a term goes on.

use nats_elect::{Event, FencingConfig};
use nats_elect_testing::{NatsServer, eventually};

use crate::support::bucket::Stranger;
use crate::support::instance::instance;
use crate::support::journal::Journal;
use crate::support::{ROLE, SOON, leased_for, ms};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_term_changes_its_lease_token_and_nothing_else() {
    let server = NatsServer::start().expect("start");
    let journal = Journal::default();
    let fencing = FencingConfig::default().rotation_interval(ms(300));
    let config = leased_for(ms(5000))
        .heartbeat_interval(ms(300))
        .fencing(fencing);
    let a = instance("a", server.url(), &journal).standing(config.clone());
    let _a = a.start().await;
    let recorded = journal.started(ROLE, 0).await;
    let term = recorded.term();
    let b = instance("b", server.url(), &journal).standing(config);
    let b = b.start().await;
    b.wait_until_following("a").await;

    let stranger = Stranger::connect(&server.url()).await;
    let mut seen = vec![term.lease_token()];
    while seen.len() < 5 {
        let token = eventually(SOON, "another lease token", async || {
            let token = term.lease_token();
            (seen.last() != Some(&token)).then_some(token)
        })
        .await;
        assert!(!seen.contains(&token), "each is used once");
        // The bucket has it, or one that came after it and may not be told yet.
        let record = stranger.record().await["token"].clone();
        let stands = |token: &nats_elect::LeaseToken| record == token.expose().to_string();
        assert!(!seen.iter().any(stands), "told before it stood");
        seen.push(token);
        let proved = eventually(SOON, "a proof", async || term.validate().await.ok());
        assert_eq!(proved.await, recorded.fencing_token);
    }
    assert!(term.is_valid() && !term.is_cancelled());
    assert_eq!(journal.terms(ROLE).len(), 1);
    let changes = |event: &Event| matches!(event, Event::LeaderChanged(_));
    // The first may have been told before the recording began.
    assert!(
        b.log().count(changes) <= 1,
        "to others it is the same leader"
    );
}
