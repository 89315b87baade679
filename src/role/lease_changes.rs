//! Changes of a lease, for those who must tell somebody else when it ends.

use tokio::sync::watch;

/// Tells of each change of a term's lease; made by [`Term::lease_changes`](super::Term::lease_changes).
#[derive(Clone, Debug)]
pub struct LeaseChanges(watch::Receiver<()>);

impl LeaseChanges {
    pub(super) const fn new(changes: watch::Receiver<()>) -> Self {
        Self(changes)
    }

    /// Resolves when the lease was extended or revoked since the last call, or since this was made. Then
    /// [`Term::remaining`](super::Term::remaining) tells what is left of it. Never resolves again once the term is forgotten.
    ///
    /// Several changes in a row count as one. That a lease runs out is no change: nothing tells of it but the clock.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping the future.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
