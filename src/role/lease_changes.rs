//! Changes of a lease, for handlers that must pass the end of the lease on.

use tokio::sync::watch;

/// Notifies of each change of a term's lease. [`Term::lease_changes`](super::Term::lease_changes)
/// makes it.
#[derive(Clone, Debug)]
pub struct LeaseChanges(watch::Receiver<()>);

impl LeaseChanges {
    pub(super) const fn new(changes: watch::Receiver<()>) -> Self {
        Self(changes)
    }

    /// Resolves when the lease was extended or revoked since the last call, or since this value was
    /// made.
    ///
    /// [`Term::remaining`](super::Term::remaining) then returns the time that is left of the lease.
    /// This future never resolves again once the term is forgotten.
    ///
    /// Several changes in a row count as one. The end of a lease that runs out is not a change.
    /// Only the clock shows it.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
