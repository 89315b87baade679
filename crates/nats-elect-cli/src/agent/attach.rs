//! Which application stands for which role: one for each role.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use futures::StreamExt;
use nats_elect::lock::lock;
use nats_elect::{Error, Event, RoleConfig, RoleHandle, RoleManager, RoleState};
use tokio::sync::{oneshot, watch};

use super::application::{Application, Gone, LEAST_STOP_BUDGET, State};
use crate::problem::Problem;

/// How long a claim may be under way when its application goes. A claim that is won and given back
/// at once would cost the role a lease; one that becomes a term is freed in good order.
const CLAIM: Duration = Duration::from_secs(1);

/// The applications of this agent, by role.
pub struct Attached {
    pub manager: Arc<RoleManager>,
    applications: Mutex<BTreeMap<String, Arc<Application>>>,
    /// Notified when an application has left its election.
    left: watch::Sender<()>,
}

impl Attached {
    pub fn new(manager: Arc<RoleManager>) -> Self {
        Self {
            manager,
            applications: Mutex::default(),
            left: watch::Sender::new(()),
        }
    }

    /// The longest time that an attached application may take to stop.
    pub fn stop_budget(&self) -> Duration {
        let applications = lock(&self.applications);
        let budgets = applications.values().map(|it| it.stop_budget);
        budgets.max().unwrap_or_default()
    }

    /// The application that stands for this role.
    pub fn application(&self, role: &str) -> Option<Arc<Application>> {
        let applications = lock(&self.applications);
        applications.get(role).filter(|it| !it.is_over()).cloned()
    }

    /// Takes part in the role's election until the application has gone. If another application has
    /// just gone, this waits until its role is freed.
    pub async fn attach(
        self: &Arc<Self>,
        role: String,
        config: RoleConfig,
        attaching: impl FnOnce(&Arc<Application>),
    ) -> Result<Arc<Application>, Problem> {
        let settings = config.settings().map_err(Error::from)?;
        if settings.stop_budget < LEAST_STOP_BUDGET {
            return Err(Problem::bad_request(
                "an application needs a stop budget of at least 500ms: set a ttl of at least 2.5s, or a longer `stop_budget`",
            ));
        }
        let application = Arc::new(Application::new(role, settings.stop_budget));
        self.reserve(&application).await?;
        attaching(&application);
        let (began, has_begun) = oneshot::channel();
        // A task of its own: whoever asks may go while the role is added.
        let standing = Arc::clone(self).stand(Arc::clone(&application), config, began);
        tokio::spawn(standing);
        match has_begun.await {
            Ok(Ok(())) => Ok(application),
            Ok(Err(error)) => {
                application.has_gone(Gone::Closed);
                Err(error.into())
            }
            Err(_) => Err(Error::Stopped.into()),
        }
    }

    async fn reserve(&self, application: &Arc<Application>) -> Result<(), Problem> {
        loop {
            let mut left = self.left.subscribe();
            {
                let mut applications = lock(&self.applications);
                match applications.get(&application.role) {
                    None => {
                        applications.insert(application.role.clone(), Arc::clone(application));
                        return Ok(());
                    }
                    Some(other) if !other.is_over() => {
                        let role = &other.role;
                        let detail =
                            format!("another application stands for {role:?} over this agent");
                        return Err(Problem::new(StatusCode::CONFLICT, "taken", detail));
                    }
                    Some(_) => {}
                }
            }
            // It lives as long as this agent.
            let _ = left.changed().await;
        }
    }

    async fn stand(
        self: Arc<Self>,
        application: Arc<Application>,
        config: RoleConfig,
        began: oneshot::Sender<Result<(), Error>>,
    ) {
        let role = &application.role;
        let added = self
            .manager
            .add_role(role, config, Arc::clone(&application));
        match added.await {
            Ok(handle) => {
                let _ = began.send(Ok(()));
                tokio::select! {
                    () = application.over() => {}
                    () = report(&application, &handle) => {}
                }
                let _ = tokio::time::timeout(CLAIM, decided(&handle)).await;
                // It fails only if the whole manager has stopped.
                if let Err(error) = self.manager.remove_role(role).await {
                    tracing::debug!(role, %error, "the election had ended before");
                }
            }
            Err(error) => {
                let _ = began.send(Err(error));
            }
        }
        lock(&self.applications).remove(role);
        self.left.send_replace(());
    }
}

/// Waits until no claim is under way.
async fn decided(handle: &RoleHandle) {
    let mut events = handle.events();
    while handle.status().state == RoleState::Candidate {
        if events.next().await.is_none() {
            return;
        }
    }
}

/// Tells the application how its terms end, until the election ends.
async fn report(application: &Application, handle: &RoleHandle) {
    let mut events = handle.events();
    while let Some(event) = events.next().await {
        match event {
            Event::TermEnding {
                fencing_token,
                cause,
            } => application.tell(State::WindingDown(fencing_token, cause)),
            Event::TermEnded {
                fencing_token,
                cause,
                ..
            } => application.tell(State::Ended(fencing_token, cause)),
            _ => {}
        }
    }
}
