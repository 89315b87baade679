//! The thread of the actors, the lease timers and our connection.

use std::io;
use std::thread;

use ractor::{Actor, ActorRef};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::messages::SupervisorMsg;
use super::supervisor::{Supervise, SupervisorActor};

/// The handle on the thread and its actors.
pub(crate) struct ElectionThread {
    pub supervisor: ActorRef<SupervisorMsg>,
    ended: CancellationToken,
}

impl ElectionThread {
    /// Starts the thread and its supervisor.
    ///
    /// # Errors
    /// An error if the system provides no thread or no runtime.
    pub async fn start(setup: Supervise) -> io::Result<Self> {
        let (started, supervisor) = oneshot::channel();
        let ended = CancellationToken::new();
        let end = ended.clone().drop_guard();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        thread::Builder::new()
            .name("nats-elect".into())
            .spawn(move || {
                runtime.block_on(async move {
                    match Actor::spawn(None, SupervisorActor, setup).await {
                        Ok((supervisor, running)) => {
                            if let Err(Ok(unwanted)) = started.send(Ok(supervisor)) {
                                // The caller that started this has gone meanwhile.
                                unwanted.stop(None);
                            }
                            let _ = running.await;
                        }
                        Err(error) => {
                            let _ = started.send(Err(io::Error::other(error.to_string())));
                        }
                    }
                });
                // This does not wait for a name lookup in progress.
                runtime.shutdown_background();
                drop(end);
            })?;
        let supervisor = supervisor
            .await
            .map_err(|_| io::Error::other("the election thread died"))??;
        Ok(Self { supervisor, ended })
    }

    /// Resolves when the thread has ended, together with everything on it.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }
}
