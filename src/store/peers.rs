//! Peer requests: questions between instances about a role.
//!
//! A question to all instances goes to `nats-elect.<bucket>.<role>`. A question to a single
//! instance goes to that subject followed by a token for the instance. So the server reports at
//! once when no instance is there. Answers go to `nats-elect.<bucket>._answer.<inbox>.<number>`.

use std::time::Duration;

use async_nats::{Message, Subject};
use futures::stream::{Stream, StreamExt};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::bucket::Bucket;
use super::error::StoreError;
use super::questions::Answers;
use crate::clock;
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

    /// Asks all other instances, or these alone if any are named, and passes on each answer that
    /// comes in time. `question` must be one to all.
    pub async fn inquire(
        &self,
        role: &RoleName,
        question: &PeerRequest,
        among: Heirs,
        within: Duration,
        heard: impl FnMut(PeerReply) + Send + 'static,
    ) {
        let all = format!("{}{role}", self.peers_prefix());
        let each = among.iter().map(|heir| format!("{all}.{heir}"));
        let each: Vec<_> = each.collect();
        let (to, once) = if each.is_empty() {
            (vec![all], false)
        } else {
            (each, true)
        };
        self.pose(&to, once, question, within, heard).await;
    }

    /// Asks one instance. Returns nothing if it does not answer in time.
    pub async fn inquire_of_one(
        &self,
        role: &RoleName,
        question: &PeerRequest,
        within: Duration,
    ) -> Option<PeerReply> {
        let to = match question {
            // No other instance has another id. A subject that is too long would also cost the
            // connection.
            PeerRequest::Ready { to, .. } => token(InstanceId::new(to.as_ref()?).ok()?.as_str()),
            PeerRequest::Yield { incarnation, .. } => incarnation.to_string(),
        };
        let subject = format!("{}{role}.{to}", self.peers_prefix());
        let (sender, mut answer) = oneshot::channel();
        let mut sender = Some(sender);
        let heard = move |reply| {
            let _ = sender.take().map(|sender| sender.send(reply));
        };
        self.pose(&[subject], true, question, within, heard).await;
        answer.try_recv().ok()
    }

    /// Sends a question, and waits until its answers were heard or the time is up. An instance that
    /// has not answered by then counts as absent. With `once` one instance listens under each
    /// subject, if any.
    async fn pose(
        &self,
        to: &[String],
        once: bool,
        question: &PeerRequest,
        within: Duration,
        heard: impl FnMut(PeerReply) + Send + 'static,
    ) {
        let begun = clock::now();
        // In a box, which goes before the wait begins.
        let sending = Box::pin(tokio::time::timeout(
            within,
            self.send_question(to, once, question, heard),
        ));
        match sending.await {
            Ok(Ok(mut answers)) => {
                let left = (begun + within).since(clock::now());
                let _ = tokio::time::timeout(left, answers.over()).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "a question was not sent"),
            Err(_) => {}
        }
    }

    async fn send_question(
        &self,
        to: &[String],
        once: bool,
        question: &PeerRequest,
        heard: impl FnMut(PeerReply) + Send + 'static,
    ) -> Result<Answers, StoreError> {
        self.require_connection()?;
        let prefix = answers_prefix(&self.peers_prefix());
        let client = self.client();
        let answers = self
            .questions()
            .expect(client, &prefix, to, once, heard)
            .await?;
        let body = question.to_json();
        for subject in to {
            client
                .publish_with_reply(
                    subject.clone(),
                    answers.reply().to_owned(),
                    body.clone().into(),
                )
                .await
                .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        }
        Ok(answers)
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
            hold_off_ms: None,
            urgent: false,
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
