//! A candidate of etcd's Election API: the recipe of its concurrency package, which the server
//! carries out for the client.

use tokio::task::JoinHandle;

use super::etcd_api::{
    CampaignRequest, CampaignResponse, Etcd, LeaderKey, ResignRequest, ResignResponse,
};
use super::{Event, Order, OrderBook, Orders, tell};
use drill::Moment;

pub async fn run(orders: &Orders, mut book: OrderBook) {
    let etcd = Etcd::connect(&orders.address).await;
    let (lease, granted) = etcd.lease(orders.ttl).await;
    let mut campaign: Option<JoinHandle<LeaderKey>> = None;
    while let Some(order) = book.recv().await {
        match order {
            Order::Stand => {
                let request = CampaignRequest {
                    name: orders.role.clone().into_bytes(),
                    lease,
                    value: orders.name.clone().into_bytes(),
                };
                campaign = Some(tokio::spawn(lead(etcd.clone(), request)));
                let granted = Some(granted);
                tell(&Event::Stands { granted });
            }
            Order::Leave => {
                let leader = campaign.take().expect("it stood").await.expect("no panic");
                tell(&Event::Ended(Moment::now()));
                let request = ResignRequest {
                    leader: Some(leader),
                };
                let resigned = etcd.call("/v3electionpb.Election/Resign", request).await;
                let ResignResponse {} = resigned.expect("a resignation");
                tell(&Event::Left);
            }
            Order::Stop | Order::HandTo(_) => {}
        }
    }
}

async fn lead(etcd: Etcd, request: CampaignRequest) -> LeaderKey {
    let won = etcd.call("/v3electionpb.Election/Campaign", request).await;
    tell(&Event::Started(Moment::now()));
    let CampaignResponse { leader } = won.expect("an election");
    leader.expect("its key")
}
