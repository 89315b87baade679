//! A runtime apart from the test's own.

use std::thread;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use super::instance::{Instance, Joining};

/// Where handlers run that block their thread: the test's own runtime must go on, timers and all.
pub struct Apart {
    handle: Handle,
    runtime: Option<Runtime>,
    _driven: Option<oneshot::Sender<()>>,
}

impl Apart {
    pub fn new() -> Self {
        Self::with_workers(2)
    }

    pub fn with_workers(workers: usize) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(workers)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
            _driven: None,
        }
    }

    /// Everything on one thread, as under `#[tokio::main(flavor = "current_thread")]`.
    pub fn on_current_thread() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let handle = runtime.handle().clone();
        let (driven, end) = oneshot::channel();
        thread::spawn(move || {
            let _ = runtime.block_on(end);
            runtime.shutdown_background();
        });
        Self {
            handle,
            runtime: None,
            _driven: Some(driven),
        }
    }

    /// Starts an instance whose handlers run here. Its events are read by the caller's runtime.
    pub async fn start(&self, joining: Joining) -> Instance {
        let started = self.handle.spawn(joining.start()).await;
        let instance = started.expect("no panic");
        instance.record_anew();
        instance
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
