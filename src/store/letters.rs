//! Questions between instances about a role, over NATS itself: nothing of them is kept in the bucket.
//!
//! A question to everyone goes to `nats-elect.<bucket>.<role>`, one to a single instance to that subject and a token for the
//! instance. So the server says at once when nobody is there.

use std::time::Duration;

use async_nats::{Message, Request, StatusCode, Subject};
use futures::stream::{self, Stream, StreamExt};
use uuid::Uuid;

use super::bucket::Bucket;
use super::error::StoreError;
use crate::model::letter::{Answer, Question};
use crate::model::name::{InstanceId, RoleName};

/// A question that somebody waits for an answer to.
#[derive(Debug)]
pub struct Letter {
    pub role: RoleName,
    pub question: Question,
    /// Where the answer goes.
    pub reply: Subject,
    /// It was sent to this instance alone.
    pub addressed: bool,
}

impl Bucket {
    /// The questions to this instance. The stream ends with the connection.
    pub async fn letters(
        &self,
        id: &InstanceId,
        incarnation: Uuid,
    ) -> Result<impl Stream<Item = Letter> + Send + Unpin + use<>, StoreError> {
        self.require_connection()?;
        let all = format!("{}*", self.letters_prefix());
        let own =
            [token(id.as_str()), incarnation.to_string()].map(|token| format!("{all}.{token}"));
        let [by_name, by_incarnation] = own;
        let mut subscriptions = Vec::new();
        for subject in [all, by_name, by_incarnation] {
            let messages = self.client().subscribe(subject).await;
            subscriptions
                .push(messages.map_err(|error| {
                    StoreError::Unavailable(format!("not subscribed: {error}"))
                })?);
        }
        let prefix = self.letters_prefix();
        let letters = stream::select_all(subscriptions)
            .filter_map(move |message| std::future::ready(letter(&prefix, message)));
        Ok(letters)
    }

    /// Asks the others, and hands on each answer that comes in time. A question to one instance has one answer.
    pub async fn inquire(
        &self,
        role: &RoleName,
        question: &Question,
        within: Duration,
        heard: impl FnMut(Answer),
    ) {
        let asking = async {
            let subject = format!("{}{role}", self.letters_prefix());
            match question {
                Question::Ready { to: None } => self.ask_all(subject, question, heard).await,
                Question::Ready { to: Some(to) } => {
                    let subject = format!("{subject}.{}", token(to));
                    self.ask_one(subject, question, within, heard).await
                }
                Question::Yield { incarnation, .. } => {
                    let subject = format!("{subject}.{incarnation}");
                    self.ask_one(subject, question, within, heard).await
                }
            }
        };
        // Who was not heard by then is not there.
        if let Ok(Err(error)) = tokio::time::timeout(within, asking).await {
            tracing::debug!(%role, %error, "a question was not answered");
        }
    }

    async fn ask_one(
        &self,
        subject: String,
        question: &Question,
        within: Duration,
        mut heard: impl FnMut(Answer),
    ) -> Result<(), StoreError> {
        self.require_connection()?;
        let request = Request::new()
            .payload(question.to_json().into())
            .timeout(Some(within));
        let answer = self.client().send_request(subject, request).await;
        let answer = answer.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        if let Some(answer) = Answer::parse(&answer.payload) {
            heard(answer);
        }
        Ok(())
    }

    async fn ask_all(
        &self,
        subject: String,
        question: &Question,
        mut heard: impl FnMut(Answer),
    ) -> Result<(), StoreError> {
        self.require_connection()?;
        let lost = |error: &dyn std::fmt::Display| StoreError::Unavailable(error.to_string());
        let inbox = self.client().new_inbox();
        let mut answers = self
            .client()
            .subscribe(inbox.clone())
            .await
            .map_err(|error| lost(&error))?;
        self.client()
            .publish_with_reply(subject, inbox, question.to_json().into())
            .await
            .map_err(|error| lost(&error))?;
        while let Some(message) = answers.next().await {
            if message.status == Some(StatusCode::NO_RESPONDERS) {
                break;
            }
            if let Some(answer) = Answer::parse(&message.payload) {
                heard(answer);
            }
        }
        Ok(())
    }

    /// Answers a letter. Whoever asked may have gone.
    pub async fn answer(&self, reply: Subject, answer: &Answer) {
        if self.require_connection().is_ok() {
            let _ = self.client().publish(reply, answer.to_json().into()).await;
        }
    }

    fn letters_prefix(&self) -> String {
        format!("nats-elect.{}.", self.name())
    }
}

fn letter(prefix: &str, message: Message) -> Option<Letter> {
    let rest = message.subject.strip_prefix(prefix)?;
    let (role, addressed) = match rest.split_once('.') {
        Some((role, _)) => (role, true),
        None => (rest, false),
    };
    Some(Letter {
        role: RoleName::new(role).ok()?,
        question: Question::parse(&message.payload)?,
        addressed,
        reply: message.reply?,
    })
}

/// An instance id as part of a subject. Two ids may have the same: the question says which is meant.
fn token(id: &str) -> String {
    let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    id.chars().map(|c| if fit(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_id_becomes_one_token_of_a_subject() {
        assert_eq!(token("node-2"), "node-2");
        assert_eq!(token("host.example *>:7 é"), "host_example____7__");
    }
}
