//! Requests of those who operate an instance, over NATS itself, by the conventions for services.
//!
//! Where an answer goes is said by whoever asks, but it is published with this user's permissions. So only requests that name an
//! inbox are taken up; a key of the bucket, an API or an application's subject is none.

use async_nats::{HeaderMap, Message, Subject};
use futures::stream::{self, Stream, StreamExt};
use uuid::Uuid;

use super::bucket::Bucket;
use super::error::StoreError;
use crate::model::admin::micro::{INFO, PING, STATS};
use crate::model::admin::{AdminSubjects, ENDPOINTS, Endpoint, Problem, SERVICE};
use crate::model::name::RoleName;

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asked {
    Ping,
    Info,
    Stats,
    Endpoint(Endpoint),
}

/// A request that somebody waits for an answer to.
#[derive(Debug)]
pub struct Call {
    pub asked: Asked,
    pub role: Option<RoleName>,
    pub reply: Subject,
    message: Message,
}

impl Call {
    pub fn payload(&self) -> &[u8] {
        &self.message.payload
    }
}

impl Bucket {
    /// The requests to this instance. The stream ends with the connection.
    pub async fn calls(
        &self,
        subjects: &AdminSubjects,
        incarnation: Uuid,
    ) -> Result<impl Stream<Item = Call> + Send + Unpin + use<>, StoreError> {
        self.require_connection()?;
        let of_tools = [PING, INFO, STATS].into_iter().flat_map(|verb| {
            let all = format!("$SRV.{verb}");
            let ours = format!("{all}.{SERVICE}");
            let own = format!("{ours}.{incarnation}");
            [all, ours, own]
        });
        let own = ENDPOINTS.map(|endpoint| subjects.pattern(endpoint, incarnation));
        let mut subscriptions = Vec::new();
        for subject in of_tools.chain(own) {
            let messages = self.client().subscribe(subject).await;
            subscriptions
                .push(messages.map_err(|error| {
                    StoreError::Unavailable(format!("not subscribed: {error}"))
                })?);
        }
        let subjects = subjects.clone();
        let inbox = self.inbox_prefix();
        let calls = stream::select_all(subscriptions).filter_map(move |message| {
            let call = call(&subjects, &inbox, message);
            std::future::ready(call)
        });
        Ok(calls)
    }

    /// Answers. Whoever asked may have gone.
    pub async fn reply(&self, to: Subject, body: Vec<u8>) {
        if self.require_connection().is_ok() {
            let _ = self.client().publish(to, body.into()).await;
        }
    }

    /// Answers with an error, by the conventions for services.
    pub async fn reply_problem(&self, to: Subject, problem: &Problem) {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Service-Error", problem.reason.as_str());
        let number = problem.code.number().to_string();
        headers.insert("Nats-Service-Error-Code", number);
        let body = serde_json::json!(problem).to_string().into();
        if self.require_connection().is_ok() {
            let _ = self.client().publish_with_headers(to, headers, body).await;
        }
    }

    /// How large a message the server takes.
    pub fn largest_message(&self) -> usize {
        self.client().server_info().max_payload
    }

    /// What the inboxes of this connection begin with.
    fn inbox_prefix(&self) -> String {
        let inbox = self.client().new_inbox();
        let prefix = inbox.rsplit_once('.').map(|(prefix, _)| prefix);
        prefix.unwrap_or("_INBOX").to_owned()
    }
}

fn call(subjects: &AdminSubjects, inbox: &str, message: Message) -> Option<Call> {
    let (asked, role) = asked(subjects, &message.subject)?;
    let reply = message.reply.clone()?;
    if !subjects.may_answer(&reply, inbox) {
        tracing::debug!(subject = %message.subject, %reply, "not answered: that is no inbox");
        return None;
    }
    Some(Call {
        asked,
        role,
        reply,
        message,
    })
}

fn asked(subjects: &AdminSubjects, subject: &str) -> Option<(Asked, Option<RoleName>)> {
    if let Some(rest) = subject.strip_prefix("$SRV.") {
        let verb = rest.split_once('.').map_or(rest, |(verb, _)| verb);
        let asked = match verb {
            PING => Asked::Ping,
            INFO => Asked::Info,
            STATS => Asked::Stats,
            _ => return None,
        };
        return Some((asked, None));
    }
    let (verb, role) = subjects.asked(subject)?;
    let of_role = role.is_some();
    Some((Asked::Endpoint(Endpoint { verb, of_role }), role))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::name::BucketName;

    fn called(subject: &str, reply: Option<&str>) -> Option<Call> {
        let bucket = BucketName::new("b").expect("a name");
        let message = Message {
            subject: subject.into(),
            reply: reply.map(Subject::from),
            payload: "{}".into(),
            headers: None,
            status: None,
            description: None,
            length: 0,
        };
        call(&AdminSubjects::new("admin", &bucket), "_mine", message)
    }

    #[test]
    fn nothing_is_answered_where_no_answers_go() {
        let incarnation = Uuid::from_u128(7);
        let asked = [
            "$SRV.PING".to_owned(),
            "$SRV.INFO.nats-elect".to_owned(),
            format!("$SRV.STATS.nats-elect.{incarnation}"),
            format!("admin.b.status.{incarnation}"),
            format!("admin.b.step-down.{incarnation}.scheduler"),
        ];
        for subject in asked {
            for reply in ["_INBOX.x", "_mine.x", "admin.b._answer.x"] {
                assert!(called(&subject, Some(reply)).is_some(), "{subject}");
            }
            for reply in [
                "$KV.b.scheduler",
                "$JS.API.STREAM.PURGE.KV_b",
                "orders",
                "admin.b.step-down.x.y",
            ] {
                assert!(called(&subject, Some(reply)).is_none(), "{reply}");
            }
            assert!(called(&subject, None).is_none());
        }
    }

    #[test]
    fn what_is_asked_is_told_by_the_subject() {
        let asked = |subject: &str| called(subject, Some("_INBOX.x")).map(|call| call.asked);
        assert_eq!(asked("$SRV.PING.nats-elect"), Some(Asked::Ping));
        assert_eq!(asked("$SRV.SCHEMA"), None);
        assert_eq!(asked("admin.b.explode.x.y"), None);
    }
}
