//! The handler: the application's work while it leads.

use std::any::type_name;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::{BoxFuture, OptionFuture};

use super::term::Term;
use nats_elect_core::status::LeaderInfo;

/// Any error of a handler.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The work of a role.
///
/// Write the methods as plain `async fn`s. They run on the runtime on which the manager was
/// started. An `Arc` or a `Box` of a handler is a handler too, so that the application can share
/// one.
///
/// ```
/// use nats_elect::{BoxError, RoleHandler, Term};
///
/// struct Scheduler;
///
/// impl RoleHandler for Scheduler {
///     async fn lead(&self, term: Term) -> Result<(), BoxError> {
///         while !term.is_cancelled() {
///             // Do one piece of work, then look again.
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
    /// Runs for one term. The method is called at promotion, on one instance at a time.
    ///
    /// Return soon after [`Term::cancelled`] resolves. The role becomes free for other instances
    /// only when this future and everything spawned by [`Term::spawn`] has ended. Work that still
    /// runs when the stop budget is used up is aborted at its next await, so a handler must not
    /// block its thread for long.
    ///
    /// `Ok`, an error and a panic all end the term. This instance then stays out of the role's
    /// election for the cool-down.
    fn lead(&self, term: Term) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Returns whether this instance is fit to lead. While the instance leads, the method is called
    /// each third of the ttl, but not more often than a heartbeat. It is also called while the
    /// instance does not lead: whenever the leader asks who could lead next, which is at the start of
    /// each term and every other lease from then on. If it knows three who could, it seldom asks
    /// others.
    ///
    /// `false`, a panic and no answer within half of that time count as a failed check. The term ends
    /// after three failed checks in a row. If you do not implement this method, leaders are not
    /// checked.
    ///
    /// Time in which the runtime stands still does not count, because an answer can't come then. It
    /// is reported as [`Event::HealthCheckUnanswered`](crate::Event::HealthCheckUnanswered), and
    /// does not end the term. However, the check fails if the check itself or this handler blocks
    /// the runtime.
    fn healthy(&self) -> impl Future<Output = bool> + Send {
        Unchecked
    }

    /// Called when another leader is known, or when no leader is known any more. The method is
    /// called on every instance, whether it leads or not.
    ///
    /// It never delays an election. A call that takes long is not interrupted. The next call then
    /// passes the latest leader, and the changes in between are left out.
    fn on_leader_change(&self, leader: Option<LeaderInfo>) -> impl Future<Output = ()> + Send {
        drop(leader);
        async {}
    }

    /// Erases the handler's type, so that handlers of several types can be kept together.
    ///
    /// ```
    /// use nats_elect::{BoxHandler, RoleConfig, RoleHandler, RoleManager, Term, handler_fn};
    ///
    /// let idle = || handler_fn(|term: Term| async move { Ok(term.cancelled().await) });
    /// let roles: Vec<(&str, BoxHandler)> = vec![("mail", idle().boxed()), ("disk", idle().boxed())];
    /// let mut builder = RoleManager::builder();
    /// for (role, handler) in roles {
    ///     builder = builder.role(role, RoleConfig::default(), handler);
    /// }
    /// ```
    fn boxed(self) -> BoxHandler
    where
        Self: Sized,
    {
        BoxHandler(Arc::new(self))
    }
}

/// A handler of any type. [`RoleHandler::boxed`] makes it. Clones are the same handler.
#[derive(Clone)]
pub struct BoxHandler(pub(crate) Arc<dyn ErasedHandler>);

impl RoleHandler for BoxHandler {
    fn lead(&self, term: Term) -> impl Future<Output = Result<(), BoxError>> + Send {
        Arc::clone(&self.0).lead(term)
    }

    fn healthy(&self) -> impl Future<Output = bool> + Send {
        let check = Arc::clone(&self.0).healthy();
        async { OptionFuture::from(check).await.unwrap_or(true) }
    }

    fn on_leader_change(&self, leader: Option<LeaderInfo>) -> impl Future<Output = ()> + Send {
        Arc::clone(&self.0).on_leader_change(leader)
    }

    fn boxed(self) -> BoxHandler {
        self
    }
}

impl fmt::Debug for BoxHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxHandler").finish_non_exhaustive()
    }
}

macro_rules! pointers {
    ($($pointer:ident)*) => {
        $(
            impl<H: RoleHandler> RoleHandler for $pointer<H> {
                fn lead(&self, term: Term) -> impl Future<Output = Result<(), BoxError>> + Send {
                    H::lead(self, term)
                }

                fn healthy(&self) -> impl Future<Output = bool> + Send {
                    H::healthy(self)
                }

                fn on_leader_change(
                    &self,
                    leader: Option<LeaderInfo>,
                ) -> impl Future<Output = ()> + Send {
                    H::on_leader_change(self, leader)
                }
            }
        )*
    };
}

pointers!(Arc Box);

/// Makes a handler from a closure or a function.
///
/// Inside it `?` takes any error. If it returns another error than [`BoxError`], such as that of a
/// function that it calls, use [`try_handler_fn`].
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

/// Makes a handler from a closure or a function with an error of its own, such as
/// `anyhow::Error`.
///
/// ```
/// use nats_elect::{RoleConfig, RoleManager, Term, try_handler_fn};
///
/// async fn schedule(term: Term) -> anyhow::Result<()> {
///     let jobs: u32 = std::env::var("JOBS")?.parse()?;
///     anyhow::ensure!(jobs > 0, "no jobs");
///     term.cancelled().await;
///     Ok(())
/// }
///
/// let builder = RoleManager::builder()
///     .role("scheduler", RoleConfig::default(), try_handler_fn(schedule))
///     .role("janitor", RoleConfig::default(), try_handler_fn(|term: Term| async move {
///         term.cancelled().await;
///         anyhow::Ok(())
///     }));
/// # drop(builder);
/// ```
///
/// In a closure the compiler can't guess the error of a bare `Ok(())`. [`handler_fn`] is for those.
pub fn try_handler_fn<F, Fut, E>(lead: F) -> impl RoleHandler
where
    F: Fn(Term) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<BoxError>,
{
    handler_fn(move |term| {
        let work = lead(term);
        async { work.await.map_err(Into::into) }
    })
}

/// The answer of a handler without a health check.
struct Unchecked;

impl Future for Unchecked {
    type Output = bool;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<bool> {
        Poll::Ready(true)
    }
}

/// Returns whether a handler has a health check of its own.
///
/// The type that `healthy` returns decides this, so none of the handler's code is run. If the types
/// were confused, the caller would wait for an answer that is always `true`.
fn has_check<H: RoleHandler>() -> bool {
    fn returned<'a, H: 'a, F>(_: impl FnOnce(&'a H) -> F) -> &'static str {
        type_name::<F>()
    }
    returned(|handler: &H| handler.healthy()) != type_name::<Unchecked>()
}

/// A handler of any type, so that roles can be kept together.
pub(crate) trait ErasedHandler: Send + Sync {
    fn lead(self: Arc<Self>, term: Term) -> BoxFuture<'static, Result<(), BoxError>>;
    /// Returns `None` if the handler has no health check of its own.
    fn healthy(self: Arc<Self>) -> Option<BoxFuture<'static, bool>>;
    fn on_leader_change(self: Arc<Self>, leader: Option<LeaderInfo>) -> BoxFuture<'static, ()>;
}

impl<H: RoleHandler> ErasedHandler for H {
    fn lead(self: Arc<Self>, term: Term) -> BoxFuture<'static, Result<(), BoxError>> {
        Box::pin(async move { RoleHandler::lead(&*self, term).await })
    }

    fn healthy(self: Arc<Self>) -> Option<BoxFuture<'static, bool>> {
        has_check::<H>().then(|| Box::pin(async move { RoleHandler::healthy(&*self).await }) as _)
    }

    fn on_leader_change(self: Arc<Self>, leader: Option<LeaderInfo>) -> BoxFuture<'static, ()> {
        Box::pin(async move { RoleHandler::on_leader_change(&*self, leader).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Checked;

    impl RoleHandler for Checked {
        async fn lead(&self, _: Term) -> Result<(), BoxError> {
            Ok(())
        }

        async fn healthy(&self) -> bool {
            true
        }
    }

    /// A handler whose check needs no `async`.
    struct Ready;

    impl RoleHandler for Ready {
        async fn lead(&self, _: Term) -> Result<(), BoxError> {
            Ok(())
        }

        fn healthy(&self) -> impl Future<Output = bool> + Send {
            std::future::ready(true)
        }
    }

    #[test]
    fn only_a_handler_with_its_own_health_check_is_asked() {
        let lead = Arc::new(handler_fn(|_| async { Ok(()) }));
        assert!(ErasedHandler::healthy(lead).is_none());
        assert!(ErasedHandler::healthy(Arc::new(Checked)).is_some());
        assert!(ErasedHandler::healthy(Arc::new(Ready)).is_some());
    }

    #[test]
    fn a_pointer_or_a_box_has_the_health_check_of_its_handler() {
        let idle = || handler_fn(|_| async { Ok(()) });
        assert!(ErasedHandler::healthy(Arc::new(Arc::new(idle()))).is_none());
        assert!(ErasedHandler::healthy(Arc::new(Box::new(idle()))).is_none());
        assert!(ErasedHandler::healthy(Arc::new(Arc::new(Checked))).is_some());
        assert!(idle().boxed().0.healthy().is_none());
        assert!(Arc::new(idle()).boxed().boxed().0.healthy().is_none());
        assert!(Checked.boxed().boxed().0.healthy().is_some());
    }
}
