//! Peer requests: questions between instances about a role.
//!
//! A question to all instances goes to `nats-elect.<bucket>.<role>`. A question to a single
//! instance goes to that subject followed by a token for the instance. So the server reports at
//! once when no instance is there. Answers go to `nats-elect.<bucket>._answer.<number>`.

use std::fmt::Display;
use std::time::Duration;

use async_nats::{HeaderMap, Message, Subject};
use futures::stream::{Stream, StreamExt};
use uuid::Uuid;

use super::asking::Asking;
use super::bucket::Bucket;
use super::error::StoreError;
use nats_elect_core::heirs::Heirs;
use nats_elect_core::name::{InstanceId, RoleName};
use nats_elect_core::peer::{PeerReply, PeerRequest};

/// A question whose sender waits for an answer.
#[derive(Debug)]
pub struct PeerMessage {
    pub role: RoleName,
    pub question: PeerRequest,
    /// The subject of the answer.
    pub reply: Subject,
}

impl Bucket {
    /// Returns the questions to this instance. The stream ends with the connection.
    pub async fn peers(
        &self,
        id: &InstanceId,
        incarnation: Uuid,
    ) -> Result<impl Stream<Item = PeerMessage> + Send + Unpin + use<>, StoreError> {
        let prefix = self.peers_prefix();
        let all = format!("{prefix}*");
        let by_name = format!("{all}.{}", token(id.as_str()));
        let by_incarnation = format!("{all}.{incarnation}");
        let subjects = [all, by_name, by_incarnation].map(|subject| (subject, ()));
        let requests = self.requests(subjects.into()).await?;
        let read = move |((), message)| std::future::ready(reply_to(&prefix, message));
        Ok(requests.filter_map(read))
    }

    /// Asks the other instances, or `among` them these alone, and passes on each answer that comes
    /// in time. A question to one instance has one answer.
    pub async fn inquire(
        &self,
        role: &RoleName,
        question: &PeerRequest,
        among: Heirs,
        within: Duration,
        heard: impl FnMut(PeerReply),
    ) {
        if let PeerRequest::Ready { to: Some(to), .. } = question
            && InstanceId::new(to).is_err()
        {
            // No instance has this id. A subject that is too long would also cost the connection.
            return;
        }
        let all = format!("{}{role}", self.peers_prefix());
        let one = |id: &dyn Display| format!("{all}.{id}");
        let (subjects, to_all) = match question {
            PeerRequest::Ready { to: Some(to), .. } => (vec![one(&token(to))], false),
            PeerRequest::Yield { incarnation, .. } => (vec![one(incarnation)], false),
            PeerRequest::Ready { to: None, .. } if among.is_empty() => (vec![all], true),
            PeerRequest::Ready { to: None, .. } => {
                (among.iter().map(|heir| one(&heir)).collect(), false)
            }
        };
        let asking = self.pose(subjects, question, to_all, heard);
        // An instance that has not answered by then counts as absent.
        if let Ok(Err(error)) = tokio::time::timeout(within, asking).await {
            tracing::debug!(%role, %error, "a question was not answered");
        }
    }

    async fn pose(
        &self,
        mut subjects: Vec<String>,
        question: &PeerRequest,
        to_all: bool,
        mut heard: impl FnMut(PeerReply),
    ) -> Result<(), StoreError> {
        let prefix = answers_prefix(&self.peers_prefix());
        let (client, body) = (self.client(), question.to_json());
        let mut silent = subjects.len();
        let Some(first) = subjects.pop() else {
            return Ok(());
        };
        let mut asking = Asking::begin(client, &prefix, first, body.clone()).await?;
        for subject in subjects {
            asking.also(client, subject, body.clone()).await?;
        }
        while silent > 0 {
            match asking.next().await? {
                Some(message) => {
                    if let Some(answer) = PeerReply::parse(&message.payload) {
                        heard(answer);
                        silent -= usize::from(!to_all);
                    }
                }
                None => silent -= 1,
            }
        }
        Ok(())
    }

    /// Answers a peer request. The peer may have gone.
    pub async fn answer(&self, reply: Subject, answer: &PeerReply) {
        let body = answer.to_json();
        self.respond(reply, HeaderMap::new(), body).await;
    }

    fn peers_prefix(&self) -> String {
        format!("nats-elect.{}.", self.name())
    }
}

fn reply_to(prefix: &str, message: Message) -> Option<PeerMessage> {
    let rest = message.subject.strip_prefix(prefix)?;
    let role = rest.split_once('.').map_or(rest, |(role, _)| role);
    let answers = format!("{}.", answers_prefix(prefix));
    Some(PeerMessage {
        role: RoleName::new(role).ok()?,
        question: PeerRequest::parse(&message.payload)?,
        reply: message.reply.filter(|reply| reply.starts_with(&answers))?,
    })
}

/// Returns the prefix of the only subjects that answers go to. The asker names the subject, but the
/// answer is published with our permissions. No role name begins like this.
fn answers_prefix(peers_prefix: &str) -> String {
    format!("{peers_prefix}_answer")
}

/// Converts an instance id to a token of a subject. Two ids may have the same token, so the
/// question names the id that is meant.
fn token(id: &str) -> String {
    let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    id.chars().map(|c| if fit(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_with(reply: &str) -> Option<PeerMessage> {
        let question = PeerRequest::Ready {
            to: None,
            release: None,
        };
        let message = Message {
            subject: "nats-elect.b.r".into(),
            reply: Some(reply.into()),
            payload: question.to_json().into(),
            headers: None,
            status: None,
            description: None,
            length: 0,
        };
        reply_to("nats-elect.b.", message)
    }

    #[test]
    fn answers_go_only_to_answer_subjects() {
        assert!(asked_with("nats-elect.b._answer.1").is_some());
        for reply in [
            "_INBOX.x.1",
            "$KV.b.r",
            "$KV.b._fence.r",
            "$JS.API.STREAM.PURGE.KV_b",
            "nats-elect.b.r",
            "nats-elect.c._answer.1",
        ] {
            assert!(asked_with(reply).is_none(), "{reply}");
        }
    }

    #[test]
    fn an_instance_id_becomes_one_token_of_a_subject() {
        assert_eq!(token("node-2"), "node-2");
        assert_eq!(token("host.example *>:7 é"), "host_example____7__");
    }
}
