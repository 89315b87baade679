//! Asking instances by a user who may not be allowed to.

use nats_elect::admin::AdminClient;

use crate::cli::Shared;
use crate::exit::{Code, Failure, Outcome};
use crate::line::Line;

/// Does it, and ends as soon as the server forbids one of the requests: nothing else would tell
/// before the time is over.
pub async fn operating(shared: &Shared, act: impl AsyncFnOnce(AdminClient) -> Outcome) -> Outcome {
    let config = shared.config()?;
    let line = Line::connect(&config, None, shared.patience()).await?;
    let prefix = &config.admin.subject_prefix;
    let admin = AdminClient::under(line.client.clone(), &config.bucket, prefix)?;
    let ours = format!("{prefix}.{}.", config.bucket);
    tokio::select! {
        biased;
        denied = line.hears(|denied| denied.subject.starts_with(&ours)) => {
            Err(Failure::new(Code::Refused, denied.to_string()).advice(
                "deploy/nats/operator.conf has what it takes; `nats-elect doctor --as operator` tries it. \
                 What else was asked may have been done",
            ))
        }
        outcome = act(admin) => outcome,
    }
}
