//! The state and the answers of the admin service. The handler outlives a restart of its actor, and
//! so do its counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use ractor::ActorRef;
use tokio::sync::Semaphore;

use super::counters::Counters;
use super::ration::{ORDERS, REPORTS, Ration};
use super::refusals::Refusals;
use crate::actors::messages::SupervisorMsg;
use crate::actors::{Groups, Link};
use crate::clock;
use crate::lock::lock;
use crate::model::admin::micro::{EndpointInfo, Identity, Info, Ping, Stats};
use crate::model::admin::{
    AdminRequest, AdminSubjects, BucketId, Problem, ProblemCode, SERVICE, Search, Verb, endpoints,
    to_json,
};
use crate::model::bequests::Bequests;
use crate::role::{Instance, Order, RoleRegistry};
use crate::store::{Asked, Bucket, Call, Denied};
use nats_elect_core::Moment;
use nats_elect_core::name::RoleName;

pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
const DESCRIPTION: &str = "One instance's part in the leader election of its roles";

/// The server's refusals come in swarms, one for each subject. They are reported together.
const SWARM: Duration = Duration::from_millis(500);

/// The most requests about groups under way.
const GROUP_TURNS: usize = 16;

/// The answer with the status of all roles.
type Look = Shared<BoxFuture<'static, Arc<[u8]>>>;

/// The instance as the admin service shows it.
pub(crate) struct AdminHandler {
    pub(super) instance: Arc<Instance>,
    subjects: AdminSubjects,
    pub(super) registry: RoleRegistry,
    pub(super) groups: Arc<Groups>,
    /// For requests about groups, which may take long.
    pub(super) group_turns: Semaphore,
    pub(super) supervisor: ActorRef<SupervisorMsg>,
    /// What the companion knows, if there is to be one.
    pub(super) bequests: Option<Arc<Bequests>>,
    started: Moment,
    /// The start by the wall clock, for human readers.
    started_at: String,
    identity: Identity,
    /// The bucket that was in reach last.
    bucket: Mutex<Option<BucketId>>,
    counters: Counters,
    trouble: Mutex<Option<String>>,
    /// The status request in progress. All callers meanwhile share it.
    status: Mutex<Option<Look>>,
    ration: Mutex<Ration>,
    orders: Mutex<Ration>,
    refused: Mutex<Refusals>,
    denied: Mutex<DeniedSubjects>,
    #[cfg(test)]
    pub crash: tokio::sync::Notify,
}

/// Subjects that the server does not permit.
#[derive(Default)]
struct DeniedSubjects {
    untold: BTreeSet<String>,
    told: BTreeSet<String>,
}

impl AdminHandler {
    pub fn new(
        instance: Arc<Instance>,
        subject_prefix: &str,
        registry: RoleRegistry,
        groups: Arc<Groups>,
        supervisor: ActorRef<SupervisorMsg>,
        bequests: Option<Arc<Bequests>>,
    ) -> Arc<Self> {
        let subjects = AdminSubjects::new(subject_prefix, &instance.bucket);
        let metadata = [
            ("bucket", instance.bucket.to_string()),
            ("instance_id", instance.id.to_string()),
            ("incarnation", instance.incarnation.to_string()),
            ("subject_prefix", subject_prefix.to_owned()),
        ];
        let identity = Identity {
            name: SERVICE.into(),
            id: instance.incarnation.to_string(),
            version: VERSION.into(),
            metadata: BTreeMap::from(metadata.map(|(name, value)| (name.to_owned(), value))),
        };
        Arc::new(Self {
            instance,
            subjects,
            registry,
            groups,
            group_turns: Semaphore::new(GROUP_TURNS),
            supervisor,
            bequests,
            started: clock::now(),
            started_at: humantime::format_rfc3339_millis(clock::wall()).to_string(),
            identity,
            bucket: Mutex::default(),
            counters: Counters::default(),
            trouble: Mutex::default(),
            status: Mutex::default(),
            ration: Mutex::new(Ration::new(REPORTS, clock::now())),
            orders: Mutex::new(Ration::new(ORDERS, clock::now())),
            refused: Mutex::default(),
            denied: Mutex::default(),
            #[cfg(test)]
            crash: tokio::sync::Notify::new(),
        })
    }

    #[cfg(test)]
    pub fn crashes(self: &Arc<Self>) -> impl futures::Stream<Item = Call> + Unpin + use<> {
        let own = Arc::clone(self);
        Box::pin(futures::stream::once(async move {
            own.crash.notified().await;
            panic!("crashed on request")
        }))
    }

    pub const fn subjects(&self) -> &AdminSubjects {
        &self.subjects
    }

    pub fn has_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    pub fn uptime(&self) -> Duration {
        clock::now().since(self.started)
    }

    /// Records which bucket it is, or why it cannot be used.
    pub fn note_trouble(&self, link: &Link) {
        let trouble = match link {
            Link::Up { .. } => None,
            Link::Down { .. } => Some("not connected, or the bucket was not seen yet".to_owned()),
            Link::Unusable(failure) => Some(failure.detail.clone()),
        };
        if let Link::Up { bucket, info } = link {
            *lock(&self.bucket) = Some(bucket.id(info.epoch));
        }
        *lock(&self.trouble) = trouble;
    }

    pub fn trouble(&self) -> Option<String> {
        lock(&self.trouble).clone()
    }

    /// Takes a refusal of the server, if it is one to the admin service. Returns whether it is.
    ///
    /// No other part publishes to inboxes, or subscribes to the subjects of services. Elections do
    /// not need any of these subjects. So the only consequence is a warning that names each subject
    /// once. `inbox` is the prefix of our own connection.
    pub fn denied(self: &Arc<Self>, denied: &Denied, inbox: &str) -> bool {
        let Denied { publish, subject } = denied;
        let is_ours = self.subjects.include(subject)
            || *publish && self.subjects.may_answer(subject, inbox)
            || !publish && subject.starts_with("$SRV.");
        if !is_ours || *publish && self.inbox_refused(subject) {
            return is_ours;
        }
        // The subjects of answers end in random parts.
        let subject = self.told_as(denied);
        let is_first = {
            let mut denied = lock(&self.denied);
            let is_new = !denied.told.contains(&subject) && denied.untold.insert(subject);
            is_new && denied.untold.len() == 1
        };
        if is_first {
            let handler = Arc::clone(self);
            tokio::spawn(async move {
                tokio::time::sleep(SWARM).await;
                handler.tell_denied();
            });
        }
        true
    }

    fn tell_denied(&self) {
        let mut denied = lock(&self.denied);
        let subjects: Vec<_> = denied.untold.iter().map(String::as_str).collect();
        tracing::warn!(
            instance_id = %self.instance.id,
            "this NATS user may not {}: requests there get no answer; grant it, or switch `admin` off",
            subjects.join(", ")
        );
        let DeniedSubjects { untold, told } = &mut *denied;
        told.append(untold);
    }

    /// Records that the server refused an answer at this subject. Returns whether the subject is an
    /// inbox of others, which needs no permission.
    fn inbox_refused(&self, subject: &str) -> bool {
        if self.subjects.include(subject) {
            return false;
        }
        if lock(&self.refused).note(subject, clock::now()) {
            tracing::info!(
                "answers to \"{subject}\" are not permitted: operators must use the inbox prefix \"{}\"",
                self.subjects.answers()
            );
        }
        true
    }

    pub fn refuses_inbox(&self, reply: &str) -> bool {
        lock(&self.refused).include(reply, clock::now())
    }

    /// Returns the description of the missing permission for the warning.
    fn told_as(&self, denied: &Denied) -> String {
        if denied.publish {
            format!("publish to \"{}.>\"", self.subjects.answers())
        } else {
            format!("subscribe to \"{}\"", denied.permission())
        }
    }

    /// Carries out a request, and answers it.
    pub async fn serve(self: Arc<Self>, bucket: &Bucket, call: Call) {
        let body = match call.asked {
            Asked::Ping => to_json(&Ping(self.identity())),
            // Another bucket's instances answer.
            Asked::Search if !self.is_meant(call.payload()) => return,
            Asked::Info | Asked::Search => to_json(&self.info()),
            Asked::Stats => {
                let subject = |it| self.subjects.pattern(it, self.instance.incarnation);
                to_json(&Stats {
                    identity: self.identity(),
                    started: &self.started_at,
                    endpoints: self.counters.stats(self.has_groups(), subject),
                })
            }
            Asked::Endpoint(endpoint) => {
                let begun = clock::now();
                let answer = self.obey(endpoint.verb, call.role.as_ref(), call.payload());
                let answer = answer.await.and_then(|body| fitting(body, bucket));
                let answer = answer.map_err(Problem::printable);
                let took = clock::now().since(begun);
                self.counters.note(endpoint, took, answer.as_ref().err());
                log(endpoint.verb, call.role.as_ref(), answer.as_ref().err());
                match answer {
                    Ok(body) => body,
                    Err(problem) => return bucket.reply_problem(call.reply, &problem).await,
                }
            }
        };
        bucket.reply(call.reply, body).await;
    }

    async fn obey(
        self: &Arc<Self>,
        verb: Verb,
        role: Option<&RoleName>,
        payload: &[u8],
    ) -> Result<Vec<u8>, Problem> {
        let request = AdminRequest::parse(payload);
        let request = request.map_err(bad_request)?;
        check_fields(verb, &request)?;
        match (verb, role) {
            (Verb::Status, None) => self.status().await,
            (Verb::Status, Some(role)) => Ok(to_json(&self.status_of(role).await?)),
            (Verb::StepDown, Some(role)) => Ok(to_json(&self.step_down(role, request).await?)),
            (Verb::Pause, role) => Ok(to_json(&self.order(Order::Pause, role).await?)),
            (Verb::Resume, role) => Ok(to_json(&self.order(Order::Resume, role).await?)),
            (Verb::Cordon, role) => Ok(to_json(&self.order(Order::Cordon, role).await?)),
            (Verb::EndLease, Some(role)) => {
                let named = || bad_request("name the `revision` that is meant");
                let revision = request.revision.ok_or_else(named)?;
                Ok(to_json(&self.end_lease(role, revision).await?))
            }
            (Verb::GroupPlan, Some(group)) => match request.unit {
                None => Ok(to_json(&self.group_plan(group).await?)),
                Some(unit) => Ok(to_json(&self.explain(group, &unit).await?)),
            },
            (Verb::TakeUnit, Some(group)) => {
                let named = || bad_request("name the `unit`");
                let unit = request.unit.ok_or_else(named)?;
                Ok(to_json(&self.take_unit(group, &unit).await?))
            }
            (Verb::ResizeGroup, Some(group)) => {
                let named = || bad_request("name the number of `shards`");
                let shards = request.shards.ok_or_else(named)?;
                Ok(to_json(&self.resize_group(group, shards).await?))
            }
            (_, None) => Err(bad_request("name the role or the group in the subject")),
        }
    }

    async fn status(self: &Arc<Self>) -> Result<Vec<u8>, Problem> {
        let allows = |bytes| lock(&self.ration).allows(bytes, clock::now());
        if allows(0) {
            let report = self.look().await;
            if allows(report.len()) {
                return Ok(report.to_vec());
            }
        }
        Err(Problem::new(
            ProblemCode::Busy,
            "it is asked for its status too often: ask later, or about one role at a time",
        ))
    }

    /// Returns one status that all callers share while it is being determined. Many callers are no
    /// reason to ask the handlers as often.
    fn look(self: &Arc<Self>) -> Look {
        let mut status = lock(&self.status);
        let under_way = status.take_if(|status| status.peek().is_none());
        let admin_handler = Arc::clone(self);
        let looking = under_way.unwrap_or_else(|| {
            let look = async move { to_json(&admin_handler.report_all().await).into() };
            look.boxed().shared()
        });
        *status = Some(looking.clone());
        looking
    }

    /// Refuses an order to a group that is one too many within a second.
    pub(super) fn may_order(&self, weight: usize) -> Result<(), Problem> {
        if lock(&self.orders).allows(weight, clock::now()) {
            return Ok(());
        }
        Err(Problem::new(
            ProblemCode::Busy,
            "it is given orders about groups too often: ask later",
        ))
    }

    fn info(&self) -> Info {
        let endpoints = endpoints(self.has_groups()).map(|endpoint| EndpointInfo {
            name: endpoint.verb.as_str().into(),
            subject: self.subjects.pattern(endpoint, self.instance.incarnation),
            queue_group: String::new(),
            metadata: BTreeMap::new(),
        });
        Info {
            identity: self.identity(),
            description: DESCRIPTION.into(),
            endpoints: endpoints.collect(),
        }
    }

    fn identity(&self) -> Identity {
        let mut identity = self.identity.clone();
        // One that is not in reach may be another one by now.
        if self.trouble().is_none()
            && let Some(bucket) = lock(&self.bucket).clone()
        {
            bucket.tell(&mut identity);
        }
        identity
    }

    fn is_meant(&self, search: &[u8]) -> bool {
        let is_up = self.trouble().is_none();
        let bucket = lock(&self.bucket);
        Search::parse(search).is_some_and(|search| match &*bucket {
            // It may have been made anew, but it is in no other domain.
            Some(bucket) if !is_up => search.means_domain(bucket),
            bucket => search.means(bucket.as_ref()),
        })
    }
}

/// Refuses a field that does not belong to a request, because the field may be meant as a
/// condition.
fn check_fields(verb: Verb, request: &AdminRequest) -> Result<(), Problem> {
    let taken: &[&str] = match verb {
        Verb::StepDown => &["to", "hold_off_seconds", "expected_fencing_token"],
        Verb::EndLease => &["revision"],
        Verb::GroupPlan | Verb::TakeUnit => &["unit"],
        Verb::ResizeGroup => &["shards"],
        _ => &[],
    };
    let given = serde_json::json!(request);
    let mut given = given.as_object().into_iter().flat_map(|it| it.keys());
    match given.find(|field| !taken.contains(&field.as_str())) {
        Some(field) => Err(bad_request(format!("{verb} takes no `{field}`"))),
        None => Ok(()),
    }
}

/// Refuses an answer that the server would not take, because such a message costs the connection.
fn fitting(body: Vec<u8>, bucket: &Bucket) -> Result<Vec<u8>, Problem> {
    let most = bucket.max_payload();
    if body.len() <= most {
        return Ok(body);
    }
    let why = format!(
        "the answer has {} bytes and the server takes {most}: ask about one role at a time",
        body.len()
    );
    Err(Problem::new(ProblemCode::TooLarge, why))
}

/// Logs completed requests as such. Refused requests may be a flood.
fn log(verb: Verb, role: Option<&RoleName>, problem: Option<&Problem>) {
    let role = role.map(RoleName::as_str);
    match problem {
        Some(problem) => {
            tracing::debug!(%verb, role, reason = problem.reason, "an operator was refused");
        }
        None if verb == Verb::Status => {}
        None => tracing::info!(%verb, role, "done for an operator"),
    }
}

fn bad_request(why: impl Display) -> Problem {
    Problem::new(ProblemCode::BadRequest, why)
}
