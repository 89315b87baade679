//! A runtime apart from the test's own.

use tokio::runtime::{Builder, Runtime};

use super::instance::{Instance, Joining};

/// Where handlers run that block their thread: the test's own runtime must go on, timers and all.
pub struct Apart(Option<Runtime>);

impl Apart {
    pub fn new() -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        Self(Some(runtime.expect("a runtime")))
    }

    /// Starts an instance whose handlers run here. Its events are read by the caller's runtime.
    pub async fn start(&self, joining: Joining) -> Instance {
        let runtime = self.0.as_ref().expect("there until the end");
        let started = runtime.spawn(joining.start()).await;
        let instance = started.expect("no panic");
        instance.record_anew();
        instance
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
