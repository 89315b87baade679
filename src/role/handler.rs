//! What an application does when it leads.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::term::Term;
use crate::model::status::LeaderInfo;

/// Any error of a handler.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The work of a role.
///
/// Write its methods as plain `async fn`s. They run on the runtime on which the manager was started.
///
/// ```
/// use nats_elect::{BoxError, RoleHandler, Term};
///
/// struct Scheduler;
///
/// impl RoleHandler for Scheduler {
///     async fn lead(&self, term: Term) -> Result<(), BoxError> {
///         while !term.is_cancelled() {
///             // One piece of work, then look again.
///             tokio::select! {
///                 () = term.cancelled() => {}
///                 () = tokio::time::sleep(std::time::Duration::from_millis(100)) => {}
///             }
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait RoleHandler: Send + Sync + 'static {
    /// Runs for one term: called at promotion, on one instance at a time.
    ///
    /// Return soon after [`Term::cancelled`] resolves; the role is free for others only when this and everything
    /// spawned by [`Term::spawn`] has ended. What still runs when the stop budget is used up is aborted at its next
    /// await, so a handler must not block its thread for long. `Ok`, an error and a panic all end the term; the role
    /// then stays out for its cool-down.
    fn lead(&self, term: Term) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Whether this instance is fit to lead, asked each `health.interval` while it does.
    ///
    /// `false`, a panic and no answer within `health.timeout` count as failed; after
    /// `health.max_consecutive_failures` in a row the term ends.
    fn healthy(&self) -> impl Future<Output = bool> + Send {
        async { true }
    }

    /// Called when another leader is known, or none: on every instance, whether it leads or not.
    ///
    /// It never delays an election. A call that takes long is not interrupted; the next one then tells the latest
    /// leader, and changes in between are left out.
    fn on_leader_change(&self, leader: Option<LeaderInfo>) -> impl Future<Output = ()> + Send {
        drop(leader);
        async {}
    }
}

/// Makes a handler of a closure.
///
/// ```
/// use nats_elect::{Term, handler_fn};
///
/// let handler = handler_fn(|term: Term| async move {
///     term.cancelled().await;
///     Ok(())
/// });
/// # let _: &dyn Fn() = &|| { let _ = &handler; };
/// ```
pub fn handler_fn<F, Fut>(lead: F) -> impl RoleHandler
where
    F: Fn(Term) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    HandlerFn(lead)
}

struct HandlerFn<F>(F);

impl<F, Fut> RoleHandler for HandlerFn<F>
where
    F: Fn(Term) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    fn lead(&self, term: Term) -> impl Future<Output = Result<(), BoxError>> + Send {
        (self.0)(term)
    }
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A handler of any type, so that roles can be kept together.
pub(crate) trait ErasedHandler: Send + Sync {
    fn lead(self: Arc<Self>, term: Term) -> BoxFuture<Result<(), BoxError>>;
    fn healthy(self: Arc<Self>) -> BoxFuture<bool>;
    fn on_leader_change(self: Arc<Self>, leader: Option<LeaderInfo>) -> BoxFuture<()>;
}

impl<H: RoleHandler> ErasedHandler for H {
    fn lead(self: Arc<Self>, term: Term) -> BoxFuture<Result<(), BoxError>> {
        Box::pin(async move { RoleHandler::lead(&*self, term).await })
    }

    fn healthy(self: Arc<Self>) -> BoxFuture<bool> {
        Box::pin(async move { RoleHandler::healthy(&*self).await })
    }

    fn on_leader_change(self: Arc<Self>, leader: Option<LeaderInfo>) -> BoxFuture<()> {
        Box::pin(async move { RoleHandler::on_leader_change(&*self, leader).await })
    }
}
