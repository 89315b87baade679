//! The subjects of requests to an instance, and the subjects to which it may send answers.

use uuid::Uuid;

use nats_elect_core::labels;
use nats_elect_core::name::{BucketName, RoleName};

/// The name of the service, by which NATS tools find it.
pub const SERVICE: &str = "nats-elect";

/// A kind of request to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    Status,
    StepDown,
    Pause,
    Resume,
    Cordon,
    EndLease,
    GroupPlan,
    TakeUnit,
    ResizeGroup,
}

// The names are those in subjects.
labels!(Verb {
    Status => "status",
    StepDown => "step-down",
    Pause => "pause",
    Resume => "resume",
    Cordon => "cordon",
    EndLease => "end-lease",
    GroupPlan => "group-plan",
    TakeUnit => "take-unit",
    ResizeGroup => "resize-group",
});

impl Verb {
    /// Whether the request is about a group, whose name then stands where otherwise a role's does.
    pub const fn is_of_group(self) -> bool {
        matches!(self, Self::GroupPlan | Self::TakeUnit | Self::ResizeGroup)
    }
}

/// A kind of request with its own subscription and its own counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub verb: Verb,
    /// Whether the request is about one role, or one group, whose name ends the subject. Group names
    /// have the same rule. Otherwise it is about all roles.
    pub of_role: bool,
}

/// All requests that an instance answers under its prefix.
pub const ENDPOINTS: [Endpoint; 13] = [
    of_all(Verb::Status),
    of_role(Verb::Status),
    of_role(Verb::StepDown),
    of_all(Verb::Pause),
    of_role(Verb::Pause),
    of_all(Verb::Resume),
    of_role(Verb::Resume),
    of_all(Verb::Cordon),
    of_role(Verb::Cordon),
    of_role(Verb::EndLease),
    of_role(Verb::GroupPlan),
    of_role(Verb::TakeUnit),
    of_role(Verb::ResizeGroup),
];

/// Those of these requests that an instance with or without groups answers.
pub fn endpoints(has_groups: bool) -> impl Iterator<Item = Endpoint> {
    let all = ENDPOINTS.into_iter();
    all.filter(move |it| it.is_answered(has_groups))
}

impl Endpoint {
    /// Whether an instance with or without groups answers such requests.
    pub const fn is_answered(self, has_groups: bool) -> bool {
        has_groups || !self.verb.is_of_group()
    }
}

const fn of_all(verb: Verb) -> Endpoint {
    Endpoint {
        verb,
        of_role: false,
    }
}

const fn of_role(verb: Verb) -> Endpoint {
    Endpoint {
        verb,
        of_role: true,
    }
}

/// The subjects of one bucket's instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSubjects {
    /// `<prefix>.<bucket>.`
    base: String,
}

impl AdminSubjects {
    /// The caller must have checked the prefix.
    pub fn new(prefix: &str, bucket: &BucketName) -> Self {
        Self {
            base: format!("{prefix}.{bucket}."),
        }
    }

    /// Returns the subject to which a request is sent.
    pub fn request(&self, verb: Verb, incarnation: Uuid, role: Option<&RoleName>) -> String {
        let all = format!("{}{verb}.{incarnation}", self.base);
        match role {
            None => all,
            Some(role) => format!("{all}.{role}"),
        }
    }

    /// Returns the subject on which all instances are asked for their identity.
    ///
    /// It is separate from the subjects of the service conventions, because instances of other
    /// buckets would answer those as well. The server also reports at once on this subject if there
    /// is no instance.
    pub fn search(&self) -> String {
        format!("{}instances", self.base)
    }

    /// Returns the subject to which an instance subscribes for an endpoint.
    pub fn pattern(&self, endpoint: Endpoint, incarnation: Uuid) -> String {
        let all = self.request(endpoint.verb, incarnation, None);
        if endpoint.of_role {
            format!("{all}.*")
        } else {
            all
        }
    }

    /// Returns the verb and the role of a message on that subject.
    pub fn asked(&self, subject: &str) -> Option<(Verb, Option<RoleName>)> {
        let mut tokens = subject.strip_prefix(&self.base)?.splitn(3, '.');
        let verb = tokens.next()?;
        let verb = Verb::ALL.iter().copied().find(|it| it.as_str() == verb)?;
        tokens.next()?;
        let role = tokens.next().map(RoleName::new).transpose().ok()?;
        Some((verb, role))
    }

    /// Returns the prefix under which answers may be requested. It is the inbox prefix of clients
    /// that may read no other inbox.
    pub fn answers(&self) -> String {
        format!("{}_answer", self.base)
    }

    /// Returns whether a subject is one of these.
    pub fn include(&self, subject: &str) -> bool {
        subject.starts_with(&self.base)
    }

    /// Returns whether an answer may be sent to this subject.
    ///
    /// The client that sends the request names the subject, but the answer is written with our
    /// permissions. So answers go to inboxes only, never to a key, an API or an application.
    /// `inbox` is the prefix of our own connection.
    pub fn may_answer(&self, reply: &str, inbox: &str) -> bool {
        let answers = self.answers();
        let prefixes = [answers.as_str(), "_INBOX", inbox];
        prefixes.into_iter().any(|prefix| {
            let rest = reply.strip_prefix(prefix);
            rest.and_then(|rest| rest.strip_prefix('.'))
                .is_some_and(is_plain)
        })
    }
}

/// Returns whether the rest of a subject is so plain that only the owner of one subscription would
/// listen to it.
fn is_plain(rest: &str) -> bool {
    let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    rest.len() <= 255
        && rest
            .split('.')
            .all(|token| !token.is_empty() && token.chars().all(fit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects() -> AdminSubjects {
        AdminSubjects::new("ops.elect", &BucketName::new("b").expect("a name"))
    }

    #[test]
    fn a_request_is_understood_where_it_is_sent() {
        let role = RoleName::new("eu/west=1").expect("a name");
        for &verb in Verb::ALL {
            for role in [None, Some(role.clone())] {
                let subject = subjects().request(verb, Uuid::from_u128(7), role.as_ref());
                assert_eq!(subjects().asked(&subject), Some((verb, role)), "{subject}");
            }
        }
        for odd in [
            "ops.elect.b",
            "ops.elect.b.status",
            "ops.elect.b.stats.x",
            "ops.elect.c.status.x",
            "ops.elect.b.status.x.a.b",
            "ops.elect.b.status.x._fence",
        ] {
            assert_eq!(subjects().asked(odd), None, "{odd}");
        }
    }

    #[test]
    fn answers_go_to_inboxes_and_nowhere_else() {
        for reply in [
            "_INBOX.x",
            "_INBOX.x.1",
            "_mine.x",
            "ops.elect.b._answer.x",
            "ops.elect.b._answer.x.y",
        ] {
            assert!(subjects().may_answer(reply, "_mine"), "{reply}");
        }
        for reply in [
            "",
            "_INBOX",
            "_INBOX.",
            "_INBOX.x.",
            "_INBOX..x",
            "_INBOX.*",
            "_INBOX.>",
            "_INBOX.x y",
            "_INBOX.x\r\nPUB y",
            "_INBOXES.x",
            "$KV.b.scheduler",
            "$KV.b._fence.scheduler",
            "$JS.API.STREAM.PURGE.KV_b",
            "$SRV.PING",
            "app.orders",
            "ops.elect.b.step-down.x.y",
            "ops.elect.c._answer.x",
            "nats-elect.b._answer.x",
        ] {
            assert!(!subjects().may_answer(reply, "_mine"), "{reply}");
        }
    }
}
