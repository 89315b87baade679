//! How many messages stand between the end of one handler and the start of the next.

use std::sync::Arc;
use std::time::Duration;

use nats_elect::StepDown;
use nats_elect_testing::TcpProxy;
use tokio::sync::mpsc;

use crate::support::clock::Stamp;
use crate::support::instance::{Instance, instance};
use crate::support::{BUCKET, ROLE, leased_for, ms, served};

/// What was asked of the bucket and of the server. Events, and questions to other instances, are
/// published beside that: nothing waits for them.
fn asked(proxy: &TcpProxy) -> Vec<String> {
    let mut subjects = proxy.published();
    subjects.retain(|it| it.starts_with("$JS.API.") || it.starts_with("$KV."));
    subjects
}

/// Who waits for longer asks meanwhile: a machine that is busy may need so long for six trips.
const SHORT: Duration = Duration::from_millis(500);

/// The old leader's release and the news of it, the claim and its answer, the fence record and its
/// answer: each waits for the one before. Nothing else is asked between the end of the old handler
/// and the start of the new one.
async fn takes_six_trips(end_term: impl AsyncFnOnce(Instance) -> Option<Instance>) {
    let (server, journal) = served();
    let wires = [(); 2].map(|()| Arc::new(TcpProxy::start(server.url()).expect("start")));
    let [old_wire, new_wire] = wires.clone();
    let config = leased_for(ms(5000));
    let ended = wires.clone();
    let old =
        instance("old", old_wire.url(), &journal).working(ROLE, config.clone(), move |term| {
            let wires = ended.clone();
            async move {
                term.cancelled().await;
                for wire in &wires {
                    wire.record();
                }
                Ok(())
            }
        });
    let old = old.start().await;
    old.wait_until_leader().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let new = instance("new", new_wire.url(), &journal).working(ROLE, config, move |term| {
        let _ = tell.send(wires.each_ref().map(|wire| asked(wire)));
        async move {
            term.cancelled().await;
            Ok(())
        }
    });
    let new = new.start().await;
    new.wait_until_following("old").await;
    let began = Stamp::now();
    let _old = end_term(old).await;
    let mut told = told.recv().await.expect("a term");
    if Stamp::now().since(began) > SHORT {
        for asked in &mut told {
            asked.retain(|it| it.starts_with("$KV."));
        }
    }
    let [of_old, of_new] = told;
    let role_key = format!("$KV.{BUCKET}.{ROLE}");
    let fence_key = format!("$KV.{BUCKET}._fence.{ROLE}");
    assert_eq!(of_old, [role_key.as_str()]);
    assert_eq!(of_new, [role_key, fence_key]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_stops_is_followed_after_six_trips() {
    takes_six_trips(async |old| {
        old.stop().await;
        None
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_steps_down_is_followed_after_six_trips() {
    takes_six_trips(async |old| {
        step_down(&old, StepDown::any()).await;
        Some(old)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_hands_over_by_name_is_followed_after_six_trips() {
    takes_six_trips(async |old| {
        step_down(&old, StepDown::to("new")).await;
        Some(old)
    })
    .await;
}

async fn step_down(leader: &Instance, how: StepDown) {
    leader.role(ROLE).step_down(how).await.expect("a leader");
}
