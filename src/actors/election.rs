//! The actor of one role's election. It passes messages to the state machine, and carries out the
//! effects of its steps.

mod requests;
mod spans;
mod tasks;
mod telling;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_nats::Subject;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use self::spans::Spans;
use super::Link;
use super::announce::{announce, announce_in};
use super::asked::Asked;
use super::lasting_failure::LastingFailure;
use super::latest_task::LatestTask;
use super::leaderless::Leaderless;
use super::messages::{ElectionMsg, SupervisorMsg};
use super::namesake::{Namesake, other_application};
use super::publisher::Publisher;
use super::signatures::Signatures;
use super::stages::Stages;
use crate::clock;
use crate::lock::lock;
use crate::model::bequests::{Bequests, Lease, Will};
use crate::role::{HandlerReport, RoleScope, RunningTerm};
use nats_elect_core::Moment;
use nats_elect_core::duration::exact;
use nats_elect_core::event::{Event, FailureKind, Vacancy};
use nats_elect_core::record::Entry;
use nats_elect_core::release::ReleaseSecret;
use nats_elect_core::status::LeaderInfo;
use nats_elect_core::token::LeaseToken;
use nats_elect_core::{
    Bequest, Candidate, Effect, Election, Failure, Fresh, Input, Reply, ReplyId, RequestId, TermId,
    WriteOutcome,
};

/// One role's election.
pub(super) struct ElectionActor;

/// The setup of an election.
pub(super) struct ElectionSetup {
    pub scope: Arc<RoleScope>,
    pub candidate: Candidate,
    /// The number of this election within its instance.
    pub generation: u64,
    pub link: Link,
    pub supervisor: ActorRef<SupervisorMsg>,
    /// Without it nothing is published.
    pub publisher: Option<Arc<Publisher>>,
    pub bequests: Option<Arc<Bequests>>,
}

pub(super) struct ElectionState {
    election: Election,
    scope: Arc<RoleScope>,
    supervisor: ActorRef<SupervisorMsg>,
    publisher: Option<Arc<Publisher>>,
    bequests: Option<Arc<Bequests>>,
    /// What was noted there last.
    bequest: Option<Bequest>,
    asked: Asked,
    requests: HashMap<RequestId, oneshot::Sender<Reply>>,
    next_request: u64,
    /// The latest peer request. It is answered at once, or not at all.
    reply_to: Option<(ReplyId, Subject)>,
    peers: u64,
    timer: LatestTask,
    timer_due: Moment,
    signatures: Signatures,
    spans: Spans,
    /// The leader that was last reported.
    told: Option<LeaderInfo>,
    /// The leader before that.
    predecessor: Option<String>,
    /// The way in which the role that was last claimed had become free.
    vacancy: Vacancy,
    /// The moment since which there is no leader to report.
    leaderless_since: Option<Moment>,
    leaderless: Leaderless,
    stages: Stages,
    /// When the last sign of the leader before came, as known when the role was claimed.
    last_sign: Option<Moment>,
    lasting_failure: LastingFailure,
    namesake: Namesake,
    /// The moment of the step in progress, which is the time of the messages that it sends.
    stepped: Moment,
}

impl Actor for ElectionActor {
    type Msg = ElectionMsg;
    type State = ElectionState;
    type Arguments = ElectionSetup;

    async fn pre_start(
        &self,
        myself: ActorRef<ElectionMsg>,
        setup: ElectionSetup,
    ) -> Result<ElectionState, ActorProcessingErr> {
        let (scope, candidate) = (setup.scope, setup.candidate);
        // The first step is taken outside the start. If it fails, this election is restarted, and
        // the supervisor is not.
        myself.send_message(ElectionMsg::LinkChanged(setup.link))?;
        Ok(ElectionState {
            signatures: Signatures::new(
                scope.role.clone(),
                scope.keyring.clone(),
                candidate.incarnation,
            ),
            spans: Spans::new(candidate.incarnation, setup.generation),
            told: None,
            predecessor: None,
            vacancy: Vacancy::Untouched,
            leaderless_since: Some(clock::now()),
            leaderless: Leaderless::default(),
            stages: Stages::default(),
            last_sign: None,
            lasting_failure: LastingFailure::default(),
            namesake: Namesake::default(),
            stepped: clock::now(),
            election: Election::new(candidate, clock::now()),
            scope,
            supervisor: setup.supervisor,
            publisher: setup.publisher,
            bequests: setup.bequests,
            bequest: None,
            asked: Asked::default(),
            requests: HashMap::new(),
            next_request: 0,
            reply_to: None,
            peers: 0,
            timer: LatestTask::default(),
            timer_due: clock::now(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<ElectionMsg>,
        message: ElectionMsg,
        state: &mut ElectionState,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(input) = state.translate(message) {
            state.step(&myself, input);
        }
        Ok(())
    }
}

impl ElectionState {
    fn translate(&mut self, message: ElectionMsg) -> Option<Input> {
        Some(match message {
            ElectionMsg::TimerFired(number) if self.timer.is(number) => {
                let lag = clock::now().since(self.timer_due);
                self.scope.labels.timer_lag(lag);
                Input::Tick
            }
            ElectionMsg::TimerFired(_) => return None,
            ElectionMsg::LinkChanged(link) => {
                if let Link::Up { bucket, info } = &link {
                    self.signatures.bucket_is(bucket.name(), info.epoch);
                    self.leaderless.bucket_is(info.epoch);
                    self.scope.bucket.send_replace(Some(bucket.clone()));
                }
                Input::Link(link.to_core())
            }
            ElectionMsg::Input(mut input) => {
                self.look_into(&mut input);
                input
            }
            ElectionMsg::Observed { mut entry, live } => {
                self.judge(&mut entry, live);
                Input::Observed(entry)
            }
            ElectionMsg::DataDenied(denied) => {
                let kind = FailureKind::PermissionDenied;
                let detail = format!("{denied}, which fenced writes need: grant it");
                let request = None;
                let failure = Event::Failure {
                    request,
                    kind,
                    detail,
                };
                announce(&self.scope, failure);
                return None;
            }
            ElectionMsg::Handler(HandlerReport::Ending(term, end)) => {
                Input::HandlerEnding { term, end }
            }
            ElectionMsg::Handler(HandlerReport::Ended(term, end)) => {
                Input::HandlerEnded { term, end }
            }
            ElectionMsg::HealthUnanswered => {
                announce(&self.scope, Event::HealthCheckUnanswered);
                return None;
            }
            ElectionMsg::Ask(request) => self.requested(request),
            ElectionMsg::Asked(question, reply) => {
                self.peers += 1;
                let reply_to = ReplyId(self.peers);
                self.reply_to = Some((reply_to, reply));
                Input::PeerAsked { reply_to, question }
            }
        })
    }

    /// Judges what was read, and has the bucket looked at if an answer casts doubt on it.
    fn look_into(&mut self, input: &mut Input) {
        match input {
            Input::WriteEnded { outcome, .. } => match outcome {
                WriteOutcome::Failed(failure) => self.doubt_bucket(failure),
                // No message is stored there. It may be another bucket of the same name.
                WriteOutcome::Conflict { current: Some(0) } => self.look_at_bucket(),
                _ => {}
            },
            Input::ReadEnded { outcome, .. } => match outcome {
                Ok(snapshot) => {
                    if let Some(entry) = &mut snapshot.role {
                        self.judge(entry, false);
                    }
                }
                // A look finds out whether the bucket can be read at all.
                Err(failure) if failure.kind == FailureKind::PermissionDenied => {
                    self.look_at_bucket();
                }
                Err(failure) => self.doubt_bucket(failure),
            },
            _ => {}
        }
    }

    fn judge(&mut self, entry: &mut Entry, live: bool) {
        let now = clock::now();
        if self.namesake.is_alive(&self.scope.instance, entry) {
            let text = "another running process has this instance id: give each its own; a \
                        handoff or an order to this id reaches either of them";
            if lock(&self.scope.logged).is_due(text, now).is_some() {
                self.scope.span.in_scope(|| tracing::warn!("{text}"));
            }
        }
        if let Some(text) = other_application(&self.scope.instance, entry)
            && lock(&self.scope.logged).is_due(&text, now).is_some()
        {
            self.scope.span.in_scope(|| tracing::warn!("{text}"));
        }
        if let Some(gap) = self.leaderless.saw(entry, live, now) {
            self.scope.labels.failed_over(gap);
        }
        if let Some(why) = self.signatures.judge(entry, now) {
            announce(&self.scope, Event::UntrustedRecord { why });
        }
    }

    /// Has the monitor look at the bucket. A request without a responder may mean that the bucket
    /// is gone.
    fn doubt_bucket(&self, failure: &Failure) {
        if matches!(
            failure.kind,
            FailureKind::Unavailable
                | FailureKind::BucketMissing
                | FailureKind::BucketUnfit
                | FailureKind::Timeout
        ) {
            self.look_at_bucket();
        }
    }

    fn look_at_bucket(&self) {
        let _ = self.supervisor.send_message(SupervisorMsg::LookAtBucket);
    }

    fn step(&mut self, myself: &ActorRef<ElectionMsg>, input: Input) {
        let scope = Arc::clone(&self.scope);
        let _entered = scope.span.enter();
        // The timer was due within a second after the step before.
        let late = clock::now().since(self.timer_due);
        *lock(&scope.stood_still) = (late >= scope.settings.heartbeat).then_some(late);
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            self.stepped = clock::now();
            let effects = self.election.step(self.stepped, fresh(), input);
            self.bequeath();
            for effect in effects {
                inputs.extend(self.carry_out(myself, effect));
            }
        }
        if self.signatures.is_required() {
            // A proof came, or expired.
            self.tell_leader(self.election.status().leader);
        }
        self.publish_status();
        if let Some(running) = self.scope.running() {
            self.scope.labels.lease_remaining(running.term.remaining());
        }
        self.count_trouble();
        if !self.election.is_stopped() {
            let since = self.leaderless_since.map(|since| clock::now().since(since));
            self.scope.labels.leaderless(since);
        }
        self.arm_timer(myself);
        if self.election.is_stopped() {
            myself.stop(None);
        }
    }

    /// Notes the present term for a companion process. A term is noted before its handler starts,
    /// and struck off before its release is sent.
    fn bequeath(&mut self) {
        let Some(bequests) = &self.bequests else {
            return;
        };
        let bequest = self.election.bequest();
        if bequest != self.bequest {
            bequests.set(
                &Lease::Role(self.scope.role.clone()),
                bequest.map(Will::Term),
            );
            self.bequest = bequest;
        }
    }

    /// Counts lasting trouble. An unusable bucket receives no requests, so nothing else would be
    /// counted.
    fn count_trouble(&mut self) {
        let lasting = self.election.link_failure().map(|failure| failure.kind);
        if let Some(kind) = self.lasting_failure.again(lasting, self.stepped) {
            self.scope.labels.failed(kind);
        }
    }

    fn carry_out(&mut self, myself: &ActorRef<ElectionMsg>, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Write(write) => self.write(myself, write),
            Effect::Read {
                op,
                within,
                may_wait,
            } => self.read(myself, op, within, may_wait),
            Effect::StartTerm(start) => {
                // A caller that sees this instance leading must find the term in its status.
                self.publish_status();
                let myself = myself.clone();
                let (id, span) = self.spans.promoted(&self.scope, &start);
                let term = Some(start.term);
                let report = move |report| {
                    let _ = myself.send_message(ElectionMsg::Handler(report));
                };
                RunningTerm::start(&self.scope, start, id, span, report);
                // The claim was written before its fencing token was known, so an immediate
                // heartbeat carries the first proof.
                let request = RequestId::NOBODY;
                return self
                    .signatures
                    .signs()
                    .then_some(Input::Validate { request, term });
            }
            Effect::Extend {
                term,
                lease,
                acting,
                proved,
            } => {
                let running = self.running(term)?;
                let settings = &self.scope.settings;
                self.scope
                    .labels
                    .renewed(running.term.remaining(), settings);
                let extended = running.extend(lease, proved)
                    && acting.is_none_or(|acting| self.scope.acting.move_to(acting));
                return (!extended).then_some(Input::LeaseOver { term });
            }
            Effect::Suspend { acting, .. } => {
                // If the term is over already, the next step winds it down.
                self.scope.acting.move_to(acting);
            }
            Effect::Resign { .. } => self.scope.acting.revoke(),
            Effect::Revoke { term } => self.with_term(term, RunningTerm::revoke),
            Effect::Cancel { term } => self.with_term(term, RunningTerm::cancel),
            Effect::Abort { term } => {
                self.with_term(term, RunningTerm::abort);
                self.log_abort();
            }
            Effect::CheckHealth { term } => self.check_health(myself, term),
            Effect::AskPeers {
                id,
                question,
                among,
                within,
            } => self.inquire(myself, id, question, among, within),
            Effect::AnswerPeer {
                reply_to,
                answer,
                after,
            } => self.answer(reply_to, answer, after),
            Effect::Reopen => {
                let role = self.scope.role.clone();
                let _ = self.supervisor.send_message(SupervisorMsg::Reopen(role));
            }
            Effect::Reply { request, reply } => {
                if let Some(waiting) = self.requests.remove(&request) {
                    // The asker may have gone.
                    let _ = waiting.send(reply);
                }
            }
            Effect::Event(Event::LeaderChanged(leader)) => self.tell_leader(leader),
            Effect::Event(event) => {
                // A subscriber that receives a change must find it in the status.
                if matches!(event, Event::StateChanged { .. }) {
                    self.publish_status();
                }
                self.publish(&event);
                let span = self.spans.event(&event);
                announce_in(
                    &self.scope,
                    event,
                    span.as_ref().unwrap_or(&self.scope.span),
                );
            }
        }
        None
    }

    fn log_abort(&self) {
        // A process that stood still gave its handler no time.
        if lock(&self.scope.stood_still).is_none() {
            let stop_budget = exact(self.scope.settings.stop_budget);
            tracing::warn!(
                %stop_budget,
                "the handler did not end in time after its term was cancelled: aborting it"
            );
        }
    }

    fn running(&self, term: TermId) -> Option<RunningTerm> {
        self.scope.running().filter(|running| running.id() == term)
    }

    fn with_term(&self, term: TermId, act: impl FnOnce(&RunningTerm)) {
        if let Some(running) = self.running(term) {
            act(&running);
        }
    }

    /// Arms one timer for the next deadline. An older timer's message may be queued already. Its
    /// number distinguishes it.
    fn arm_timer(&mut self, myself: &ActorRef<ElectionMsg>) {
        let lapse = self.signatures.lapses_at(self.told.as_ref());
        let now = clock::now();
        // The timer fires even without a deadline, because reports in seconds go on.
        let latest = now + Duration::from_secs(1);
        let due = self.election.next_wakeup().into_iter().chain(lapse).min();
        // The runtime's clock may stop in suspend, so our clock is read again from time to time.
        self.timer_due = due.map_or(latest, |due| due.clamp(now, latest));
        let wait = self.timer_due.since(now);
        if wait.is_zero() {
            self.timer.stop();
            let number = self.timer.number();
            let _ = myself.send_message(ElectionMsg::TimerFired(number));
            return;
        }
        let myself = myself.clone();
        self.timer.begin(async move |number| {
            tokio::time::sleep(wait).await;
            let _ = myself.send_message(ElectionMsg::TimerFired(number));
        });
    }
}

fn fresh() -> Fresh {
    let uuid = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
    Fresh {
        lease_token: LeaseToken::new(uuid),
        release_secret: ReleaseSecret::new(rand::random()),
        chance: rand::random(),
    }
}
