//! The candidates speak to etcd by a part of its API: what its Election API needs, with the field numbers
//! of its definitions.

use std::time::Duration;

use prost::Message;
use tokio::sync::mpsc;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, Message)]
pub struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    pub ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    pub id: i64,
    #[prost(int64, tag = "3")]
    pub ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeepAliveRequest {
    #[prost(int64, tag = "1")]
    pub id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeepAliveResponse {
    #[prost(int64, tag = "3")]
    pub ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct CampaignRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub name: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub lease: i64,
    #[prost(bytes = "vec", tag = "3")]
    pub value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CampaignResponse {
    #[prost(message, optional, tag = "2")]
    pub leader: Option<LeaderKey>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LeaderKey {
    #[prost(bytes = "vec", tag = "1")]
    pub name: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub key: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub rev: i64,
    #[prost(int64, tag = "4")]
    pub lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct ResignRequest {
    #[prost(message, optional, tag = "1")]
    pub leader: Option<LeaderKey>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ResignResponse {}

/// A connection to etcd.
#[derive(Clone, Debug)]
pub struct Etcd(Channel);

impl Etcd {
    pub async fn connect(address: &str) -> Self {
        let endpoint = Endpoint::from_shared(address.to_owned()).expect("an address");
        let endpoint = endpoint.tcp_nodelay(true);
        Self(endpoint.connect().await.expect("a connection"))
    }

    /// A lease that is renewed for as long as this process lives, each third of what was granted.
    pub async fn lease(&self, wanted: Duration) -> (i64, Duration) {
        // It counts in seconds.
        let seconds = wanted.as_millis().div_ceil(1000);
        let ttl = i64::try_from(seconds).expect("a lease");
        let granted: LeaseGrantResponse = self
            .call("/etcdserverpb.Lease/LeaseGrant", LeaseGrantRequest { ttl })
            .await
            .expect("a lease");
        let id = granted.id;
        let granted = Duration::from_secs(u64::try_from(granted.ttl).expect("a lease"));
        let (renew, renewals) = mpsc::unbounded_channel();
        let renewals = stream_of(renewals);
        let _ = renew.send(KeepAliveRequest { id });
        let etcd = self.clone();
        tokio::spawn(async move {
            let path = "/etcdserverpb.Lease/LeaseKeepAlive";
            let mut answers: Streaming<KeepAliveResponse> =
                etcd.stream(path, renewals).await.expect("a stream");
            loop {
                let answer = answers.message().await.expect("an open stream");
                assert!(
                    answer.is_some_and(|answer| answer.ttl > 0),
                    "the lease is over"
                );
                tokio::time::sleep(granted / 3).await;
                let _ = renew.send(KeepAliveRequest { id });
            }
        });
        (id, granted)
    }

    /// One request, one answer.
    pub async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let mut grpc = self.ready().await;
        let path = PathAndQuery::from_static(path);
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc.unary(Request::new(request), path, codec).await?;
        Ok(answer.into_inner())
    }

    /// Requests and answers as they come.
    pub async fn stream<Q, A>(
        &self,
        path: &'static str,
        requests: impl Stream<Item = Q> + Send + 'static,
    ) -> Result<Streaming<A>, Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let mut grpc = self.ready().await;
        let path = PathAndQuery::from_static(path);
        let codec = ProstCodec::<Q, A>::default();
        let answers = grpc.streaming(Request::new(requests), path, codec).await?;
        Ok(answers.into_inner())
    }

    async fn ready(&self) -> Grpc<Channel> {
        let mut grpc = Grpc::new(self.0.clone());
        grpc.ready().await.expect("a connection");
        grpc
    }
}

/// A channel as a stream.
pub fn stream_of<T>(receiver: mpsc::UnboundedReceiver<T>) -> impl Stream<Item = T> {
    futures::stream::unfold(receiver, async |mut receiver| {
        receiver.recv().await.map(|item| (item, receiver))
    })
}
