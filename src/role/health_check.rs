//! The health check of a role's handler.
//!
//! The check runs on the handler's own runtime, which may stand still because something blocks it.
//! The code that waits for an answer runs on the election thread. It counts only the time in which
//! the handler's runtime runs.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};

use super::handler::ErasedHandler;
use super::polls::Polls;
use super::{RoleScope, RunningTerm};
use crate::clock;
use crate::lock::lock;

/// How often the progress of a check is looked at within its timeout.
const LOOKS: u32 = 4;

/// The result of a health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Well,
    /// The handler fails its health check, or does not answer in time.
    Ill,
    /// The runtime that runs the check does not answer.
    Unanswered,
}

/// A check under way.
pub(super) type Check = Shared<BoxFuture<'static, Health>>;

impl RoleScope {
    /// Asks a leader's handler, if it has a health check of its own.
    ///
    /// `unanswered` is called each time that the runtime has stood still for as long as a check may
    /// take. The check still waits for the answer, until the term ends.
    pub fn is_leader_well<F: Fn() + Send + Sync>(
        &self,
        term: Option<RunningTerm>,
        unanswered: F,
    ) -> impl Future<Output = bool> + Send + use<F> {
        let check = HealthCheck::of_role(self).map(|check| check.of_term(term, unanswered));
        async move {
            match check {
                Some(check) => check.await,
                None => true,
            }
        }
    }

    /// Asks a handler that is to lead whether it could. It must pass its health check, and its
    /// runtime must run.
    pub fn is_healthy(&self) -> impl Future<Output = Health> + Send + use<> {
        let inquiry = HealthCheck::of_role(self);
        let runs = begin_on(&self.runtime);
        let timeout = self.settings.health.timeout;
        async move {
            match inquiry {
                Some(mut inquiry) => inquiry.answer(&|_| false).await,
                None => match tokio::time::timeout(timeout, runs).await {
                    Ok(_) => Health::Well,
                    Err(_) => Health::Unanswered,
                },
            }
        }
    }

    /// Returns one check that all remote callers share while it lasts. Many callers are no reason
    /// to ask the handler as often.
    pub fn is_healthy_for_others(&self) -> Check {
        let mut check = lock(&self.check);
        let under_way = check.take_if(|check| check.peek().is_none());
        let asked = under_way.unwrap_or_else(|| {
            let asked = self.is_healthy().boxed().shared();
            // Callers may stop waiting. A check that they left half done would give the next caller
            // an old answer.
            tokio::spawn(asked.clone());
            asked
        });
        *check = Some(asked.clone());
        asked
    }
}

/// A question to a handler's own health check.
pub(super) struct HealthCheck {
    /// The check. It is aborted when it is dropped.
    asked: JoinSet<bool>,
    /// The polls of the check itself, because it may block the runtime too.
    polls: Arc<Polls>,
    runtime: Handle,
    timeout: Duration,
    /// The part of the timeout that has passed while the runtime ran.
    waited: Duration,
}

impl HealthCheck {
    fn of_role(scope: &RoleScope) -> Option<Self> {
        let handler = Arc::clone(&scope.handler);
        Self::begin(handler, &scope.runtime, scope.settings.health.timeout)
    }

    /// Asks a handler. `None` if it has no health check.
    pub(super) fn begin(
        handler: Arc<dyn ErasedHandler>,
        runtime: &Handle,
        timeout: Duration,
    ) -> Option<Self> {
        let check = handler.healthy()?;
        let polls = Arc::<Polls>::default();
        let own = Arc::clone(&polls);
        let mut asked = JoinSet::new();
        asked.spawn_on(async move { own.watch(check).await }, runtime);
        Some(Self {
            asked,
            polls,
            runtime: runtime.clone(),
            timeout,
            waited: Duration::ZERO,
        })
    }

    /// Waits for the answer, or the end of the term.
    ///
    /// `unanswered` is called each time that the runtime has stood still for as long as a check may
    /// take.
    pub(super) async fn of_term(
        mut self,
        term: Option<RunningTerm>,
        unanswered: impl Fn() + Send + Sync,
    ) -> bool {
        let blocks = |since| term.as_ref().is_some_and(|term| term.polls_since(since));
        let answered = async {
            loop {
                match self.answer(&blocks).await {
                    Health::Well => return true,
                    Health::Ill => return false,
                    Health::Unanswered => unanswered(),
                }
            }
        };
        match &term {
            Some(it) => it.term.run_until_cancelled(answered).await.unwrap_or(false),
            None => answered.await,
        }
    }

    /// Waits for the answer until the timeout has passed with the runtime running, or has passed
    /// once more with the runtime standing still.
    ///
    /// `blocks` returns whether something else that belongs to the handler has blocked the runtime
    /// since that moment.
    async fn answer(
        &mut self,
        blocks: &(impl Fn(nats_elect_core::Moment) -> bool + Sync),
    ) -> Health {
        let step = self.timeout / LOOKS;
        let mut stood_still = Duration::ZERO;
        while stood_still < self.timeout {
            let begun = clock::now();
            let runs = begin_on(&self.runtime);
            let time_is_up = async {
                tokio::time::sleep(step).await;
                // Look once more: both may have become ready at the same time.
                runs.now_or_never().is_some()
            };
            let ran = tokio::select! {
                biased;
                answer = self.asked.join_next() => {
                    return if matches!(answer, Some(Ok(true))) { Health::Well } else { Health::Ill };
                }
                ran = time_is_up => ran,
            };
            if ran || self.polls.last_since(begun) || blocks(begun) {
                self.waited += step;
                if self.waited >= self.timeout {
                    return Health::Ill;
                }
            } else {
                stood_still += step;
            }
        }
        Health::Unanswered
    }
}

/// Starts a task that takes no time. Its end shows that the runtime runs. On a runtime that was shut
/// down it ends with an error, which is an answer too.
fn begin_on(runtime: &Handle) -> JoinHandle<()> {
    runtime.spawn(async {})
}
