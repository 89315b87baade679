//! The link to the bucket, as a member uses it.

use ractor::ActorRef;

use super::GroupState;
use crate::actors::Link;
use crate::actors::messages::GroupMsg;
use nats_elect_core::Failure;
use nats_elect_core::duration::exact;
use nats_elect_core::event::FailureKind;
use nats_elect_core::member::Input;
use nats_elect_core::status::ConnectionStatus;

/// A bucket that got a max age is unfit for groups: the map is written only when it changes, and
/// would vanish.
fn usable(link: Link) -> Link {
    let Link::Up { bucket, info } = &link else {
        return link;
    };
    let Some(max_age) = info.max_age else {
        return link;
    };
    Link::Unusable(Failure {
        kind: FailureKind::BucketUnfit,
        detail: format!(
            "keys expire after {}, and the map of a group is written only when it changes: `nats stream edit KV_{} --max-age 0s`",
            exact(max_age),
            bucket.name()
        ),
    })
}

impl GroupState {
    pub(super) fn link_changed(&mut self, myself: &ActorRef<GroupMsg>, link: Link) {
        let link = usable(link);
        self.link = link.clone();
        let mut status = ConnectionStatus::Suspended;
        if let Link::Up { bucket, .. } = &link {
            status = ConnectionStatus::Connected;
            self.scope.bucket.send_replace(Some(bucket.clone()));
        }
        self.scope.connection.send_replace(status);
        self.to_watch.send_replace(link);
        self.step(myself, Input::Link(self.link.to_core()));
    }

    /// The creation time of the bucket, while there is a link to it.
    pub(super) fn bucket_epoch(&self) -> Option<u64> {
        self.link.up().map(|(_, epoch)| epoch)
    }
}
