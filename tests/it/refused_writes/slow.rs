//! Answers that come after the lease that they would confirm.

use nats_elect_testing::{Direction, TcpProxy};

use super::*;

async fn late_answers(test: &str, count: usize) {
    logs::install();
    let server = NatsServer::start().expect("start");
    let proxy = || TcpProxy::start(server.url()).expect("start");
    let (to_a, to_b) = (proxy(), proxy());
    let journal = Journal::default();
    let roles = names(test, count);
    let joining = |id, proxy: &TcpProxy| {
        let joining = instance(id, proxy.url(), &journal);
        let join = |joining: Joining, role: &String| joining.role(role, config());
        roles.iter().fold(joining, join)
    };
    let a = joining("a", &to_a).start().await;
    let b = joining("b", &to_b).start().await;
    for role in &roles {
        journal.started(role, 0).await;
    }
    let stranger = Stranger::connect(&server.url()).await;
    let sent = Sent::listen(&stranger).await;
    for proxy in [&to_a, &to_b] {
        proxy.delay(Direction::ToClient, ms(6000));
    }
    claims_are_few(&a, &sent, &roles).await;
    said_twice_at_most(&roles, 2, &["did not answer", "timeout"]);
    for proxy in [&to_a, &to_b] {
        proxy.delay(Direction::ToClient, Duration::ZERO);
    }
    led_again(&[&a, &b], &roles).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_whose_answers_come_late_is_claimed_once_a_second_at_most() {
    late_answers("late", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_roles_whose_answers_come_late_are_claimed_sixty_times_a_second_at_most() {
    late_answers("lates", 30).await;
}
