//! A candidate of this library.

use std::time::Duration;

use nats_elect::{
    Error, LastWillConfig, LastWillStatus, RoleConfig, RoleHandler, RoleManager, StepDown,
    StopOptions, Term, handler_fn,
};

use super::{Event, Order, OrderBook, Orders, tell};
use crate::system::System;
use drill::Moment;

pub async fn run(orders: &Orders, mut book: OrderBook) {
    let with_will = orders.system == System::OursWithWill;
    let mut manager = start(orders).await;
    while let Some(order) = book.recv().await {
        match order {
            Order::Stand => {
                for role in roles(orders) {
                    let config = RoleConfig::default().ttl(orders.ttl);
                    let added = manager.add_role(&role, config, leading()).await;
                    added.expect("a role");
                }
                for role in roles(orders) {
                    let handle = manager.role(&role).expect("it stands");
                    handle.wait_for_leader().await.expect("somebody leads");
                }
                while with_will && manager.last_will() != Some(LastWillStatus::Ready) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                let granted = Some(orders.ttl);
                tell(&Event::Stands { granted });
            }
            Order::Leave => {
                manager.remove_role(&orders.role).await.expect("it stood");
                tell(&Event::Left);
            }
            Order::Stop => {
                let stopped = manager.stop(StopOptions::default()).await;
                stopped.expect("nothing is amiss");
                tell(&Event::Left);
                manager = start(orders).await;
            }
            Order::HandTo(name) => {
                let handle = manager.role(&orders.role).expect("it stands");
                match handle.step_down(StepDown::to(name)).await {
                    Ok(_) => {}
                    // It led not long ago.
                    Err(Error::SuccessorRefused { .. }) => tell(&Event::Refused),
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}

async fn start(orders: &Orders) -> RoleManager {
    let mut builder = RoleManager::builder()
        .servers(&orders.address)
        .bucket("peers")
        .bucket_auto_create()
        .instance_id(&orders.name);
    if orders.system == System::OursWithWill {
        builder = builder.last_will(LastWillConfig::on());
    }
    builder.start().await.expect("a manager")
}

fn roles(orders: &Orders) -> impl Iterator<Item = String> {
    let numbered = |number| match orders.roles {
        1 => orders.role.clone(),
        _ => format!("{}-{number}", orders.role),
    };
    (0..orders.roles).map(numbered)
}

fn leading() -> impl RoleHandler {
    handler_fn(|term: Term| {
        tell(&Event::Started(Moment::now()));
        async move {
            term.cancelled().await;
            tell(&Event::Ended(Moment::now()));
            Ok(())
        }
    })
}
