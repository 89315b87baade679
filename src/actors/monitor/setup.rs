//! What a monitor is told at its start, and what it tells of its success.

use std::sync::Arc;
use std::time::Duration;

use tracing::Span;

use crate::actors::admin::AdminHandler;
use crate::actors::connection::Connection;
use crate::actors::{Link, Routes};
use crate::store::IfMissing;
use nats_elect_core::Moment;
use nats_elect_core::name::BucketName;

#[derive(Clone)]
pub(crate) struct MonitorSetup {
    /// The span for log records about the connection and the bucket.
    pub span: Span,
    /// Called at each change of the link.
    pub tell: Arc<dyn Fn(Link) + Send + Sync>,
    pub connection: Connection,
    pub bucket: BucketName,
    pub if_missing: IfMissing,
    pub routes: Routes,
    /// The admin service, if there is one. It takes the server's refusals that concern it.
    pub admin: Option<Arc<AdminHandler>>,
    pub start_timeout: Duration,
    /// Since when there may be no connection. `None` if there was none before.
    pub lost_at: Option<Moment>,
}

impl MonitorSetup {
    /// The setup of a monitor that serves no elections: it awaits the bucket, and logs and reports
    /// nothing beside the link.
    pub fn without_elections(
        connection: Connection,
        bucket: BucketName,
        start_timeout: Duration,
        tell: impl Fn(Link) + Send + Sync + 'static,
    ) -> Self {
        Self {
            span: Span::none(),
            tell: Arc::new(tell),
            connection,
            bucket,
            if_missing: IfMissing::Await,
            routes: Routes::default(),
            admin: None,
            start_timeout,
            lost_at: None,
        }
    }
}
