//! Those who operate instances: by the client for it, and by bare messages.

use std::time::Duration;

use async_nats::{Client, Message};
use futures::StreamExt;
use nats_elect::admin::{
    AdminClient, AdminError, Instance, InstanceReport, LeaderFound, ProblemCode,
};
use nats_elect::{StepDown, SteppedDown};
use nats_elect_testing::{NatsServer, eventually};
use serde_json::Value;

use super::{BUCKET, ROLE, SOON, ms};

/// How long a search may take; it ends sooner.
pub const SEARCH: Duration = ms(5000);

/// The reason why an instance does not do what it was told to.
pub fn refusal<T>(answer: Result<T, AdminError>) -> Option<ProblemCode> {
    answer.err().and_then(|error| error.refusal())
}

pub struct Operator {
    pub client: Client,
    pub admin: AdminClient,
}

impl Operator {
    pub async fn of(server: &NatsServer) -> Self {
        let client = async_nats::connect(server.url()).await.expect("connect");
        Self::with(client)
    }

    pub fn with(client: Client) -> Self {
        let admin = AdminClient::new(client.clone(), BUCKET).expect("a name");
        Self { client, admin }
    }

    /// Waits until that many instances are found.
    pub async fn find(&self, count: usize) -> Vec<Instance> {
        eventually(SOON, &format!("{count} instances"), async || {
            let found = self.admin.instances(SEARCH).await.ok()?;
            (found.len() == count).then_some(found)
        })
        .await
    }

    pub async fn instance(&self, id: &str) -> Instance {
        eventually(SOON, &format!("instance {id}"), async || {
            self.admin.instance(id, SEARCH).await.ok()
        })
        .await
    }

    /// Who leads, as soon as the leader is among those who answer in time.
    pub async fn leader(&self, role: &str) -> LeaderFound {
        eventually(SOON, &format!("a leader of {role}"), async || {
            self.admin.leader(role, SEARCH).await.ok()
        })
        .await
    }

    /// Has the role of most tests handed over by name, as soon as the successor is ready.
    pub async fn hand_over(&self, leader: &Instance, to: &str) -> SteppedDown {
        eventually(SOON, "a handoff", async || {
            let how = StepDown::to(to);
            self.admin.step_down(leader, ROLE, how).await.ok()
        })
        .await
    }

    pub async fn report(&self, instance: &Instance) -> InstanceReport {
        self.admin.status(instance).await.expect("a report")
    }

    /// Asks with a bare message; the answer goes to an inbox, as those of NATS tools do.
    pub async fn ask(&self, subject: &str, body: &[u8]) -> Message {
        let asked = self
            .client
            .request(subject.to_owned(), body.to_vec().into());
        let answer = tokio::time::timeout(SOON, asked).await;
        answer.expect("an answer").expect("an answer")
    }

    pub async fn ask_json(&self, subject: &str) -> Value {
        let answer = self.ask(subject, b"").await;
        serde_json::from_slice(&answer.payload).expect("JSON")
    }

    /// Waits for the refusal of a bare message: its number and its code.
    pub async fn refusal(&self, subject: &str, body: &[u8]) -> (String, String) {
        let answer = self.ask(subject, body).await;
        let headers = answer.headers.expect("headers");
        assert!(headers.get("Nats-Service-Error").is_some());
        let number = headers.get("Nats-Service-Error-Code").expect("a number");
        let body: Value = serde_json::from_slice(&answer.payload).expect("JSON");
        let code = body["code"].as_str().expect("a code").to_owned();
        (number.as_str().to_owned(), code)
    }

    /// All answers to a bare message that come to this inbox, until that many have come.
    pub async fn gather(&self, subject: &str, count: usize) -> Vec<Value> {
        let inbox = self.client.new_inbox();
        let mut answers = self.client.subscribe(inbox.clone()).await.expect("inbox");
        let asked = self
            .client
            .publish_with_reply(subject.to_owned(), inbox, "".into());
        asked.await.expect("published");
        let mut gathered = Vec::new();
        while gathered.len() < count {
            let answer = tokio::time::timeout(SOON, answers.next()).await;
            let answer = answer.expect("an answer").expect("an answer");
            gathered.push(serde_json::from_slice(&answer.payload).expect("JSON"));
        }
        gathered
    }
}
