//! Admin requests: requests of an instance's operators, by the conventions for services.
//!
//! The asker names the subject of the answer, but the answer is published with this user's
//! permissions. So only requests that name an inbox are accepted. A key of the bucket, an API
//! subject or an application's subject is not an inbox.

use async_nats::{HeaderMap, Message, Subject};
use futures::stream::{Stream, StreamExt};
use uuid::Uuid;

use super::bucket::Bucket;
use super::error::StoreError;
use super::mailbox::inbox_prefix;
use crate::model::admin::micro::{INFO, PING, STATS};
use crate::model::admin::{AdminSubjects, Endpoint, Problem, SERVICE, endpoints, to_json};
use nats_elect_core::name::RoleName;

/// The subject matter of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asked {
    Ping,
    Info,
    Stats,
    /// A search for the instances of this bucket.
    Search,
    Endpoint(Endpoint),
}

/// A request whose sender waits for an answer.
#[derive(Debug)]
pub struct Call {
    /// Known from the subscription.
    pub asked: Asked,
    pub role: Option<RoleName>,
    pub reply: Subject,
    message: Message,
}

impl Call {
    pub fn payload(&self) -> &[u8] {
        &self.message.payload
    }

    /// Reads a request. Returns nothing if it cannot be answered.
    fn read(asked: Asked, message: Message, subjects: &AdminSubjects, inbox: &str) -> Option<Self> {
        let reply = message.reply.clone()?;
        if !subjects.may_answer(&reply, inbox) {
            tracing::debug!(subject = %message.subject, %reply, "not answered: that is no inbox");
            return None;
        }
        let role = match asked {
            Asked::Endpoint(endpoint) => {
                let (verb, role) = subjects.asked(&message.subject)?;
                if (verb, role.is_some()) != (endpoint.verb, endpoint.of_role) {
                    return None;
                }
                role
            }
            Asked::Ping | Asked::Info | Asked::Stats | Asked::Search => None,
        };
        Some(Self {
            asked,
            role,
            reply,
            message,
        })
    }
}

impl Bucket {
    /// Returns the requests to this instance. The stream ends with the connection.
    pub async fn calls(
        &self,
        subjects: &AdminSubjects,
        has_groups: bool,
        incarnation: Uuid,
    ) -> Result<impl Stream<Item = Call> + Send + Unpin + use<>, StoreError> {
        let tools = [
            (PING, Asked::Ping),
            (INFO, Asked::Info),
            (STATS, Asked::Stats),
        ];
        let of_tools = tools.into_iter().flat_map(|(verb, asked)| {
            let all = format!("$SRV.{verb}");
            let ours = format!("{all}.{SERVICE}");
            let own = format!("{ours}.{incarnation}");
            [all, ours, own].map(|subject| (subject, asked))
        });
        let own = endpoints(has_groups).map(|endpoint| {
            let subject = subjects.pattern(endpoint, incarnation);
            (subject, Asked::Endpoint(endpoint))
        });
        let search = (subjects.search(), Asked::Search);
        let asked = of_tools.chain([search]).chain(own).collect();
        let requests = self.requests(asked).await?;
        let (subjects, inbox) = (subjects.clone(), inbox_prefix(self.client()));
        Ok(requests.filter_map(move |(asked, message)| {
            std::future::ready(Call::read(asked, message, &subjects, &inbox))
        }))
    }

    /// Sends an answer. The asker may have gone.
    pub async fn reply(&self, to: Subject, body: Vec<u8>) {
        self.respond(to, HeaderMap::new(), body).await;
    }

    /// Sends an error as the answer, by the conventions for services. It must be
    /// [printable](Problem::printable).
    pub async fn reply_problem(&self, to: Subject, problem: &Problem) {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Service-Error", problem.reason.as_str());
        let number = problem.code.number().to_string();
        headers.insert("Nats-Service-Error-Code", number);
        self.respond(to, headers, to_json(problem)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::admin::Verb;
    use nats_elect_core::name::BucketName;

    fn called(asked: Asked, subject: &str, reply: Option<&str>) -> Option<Call> {
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
        let subjects = AdminSubjects::new("admin", &bucket);
        Call::read(asked, message, &subjects, "_mine")
    }

    fn requests() -> Vec<(Asked, String)> {
        let incarnation = Uuid::from_u128(7);
        let endpoint = |verb, of_role| Asked::Endpoint(Endpoint { verb, of_role });
        vec![
            (Asked::Ping, "$SRV.PING".to_owned()),
            (Asked::Info, "$SRV.INFO.nats-elect".to_owned()),
            (Asked::Search, "admin.b.instances".to_owned()),
            (Asked::Stats, format!("$SRV.STATS.nats-elect.{incarnation}")),
            (
                endpoint(Verb::Status, false),
                format!("admin.b.status.{incarnation}"),
            ),
            (
                endpoint(Verb::StepDown, true),
                format!("admin.b.step-down.{incarnation}.scheduler"),
            ),
        ]
    }

    #[test]
    fn requests_with_other_reply_subjects_are_not_answered() {
        for (asked, subject) in requests() {
            for reply in ["_INBOX.x", "_mine.x", "admin.b._answer.x"] {
                let call = called(asked, &subject, Some(reply)).expect("a call");
                assert_eq!(call.reply.as_str(), reply);
            }
            for reply in [
                "$KV.b.scheduler",
                "$JS.API.STREAM.PURGE.KV_b",
                "orders",
                "admin.b.step-down.x.y",
            ] {
                assert!(called(asked, &subject, Some(reply)).is_none(), "{reply}");
            }
            assert!(called(asked, &subject, None).is_none());
        }
    }

    #[test]
    fn an_invalid_role_name_in_a_request_is_ignored() {
        let of_role = Asked::Endpoint(Endpoint {
            verb: Verb::Pause,
            of_role: true,
        });
        let role = |subject: &str| called(of_role, subject, Some("_INBOX.x"))?.role;
        let scheduler = role("admin.b.pause.x.scheduler").expect("a role");
        assert_eq!(scheduler, "scheduler");
        for odd in [
            "admin.b.pause.x._fence",
            "admin.b.pause.x",
            "admin.b.resume.x.a",
        ] {
            assert_eq!(role(odd), None, "{odd}");
        }
    }
}
