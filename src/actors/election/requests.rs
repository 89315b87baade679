//! Requests of handles, handlers and operators to an election.

use tokio::sync::oneshot;

use super::ElectionState;
use crate::role::Request;
use nats_elect_core::{Input, Reply, RequestId};

impl ElectionState {
    pub(super) fn requested(&mut self, request: Request) -> Input {
        match request {
            Request::Validate { term, reply } => {
                let request = self.remember(reply);
                Input::Validate { request, term }
            }
            Request::Intend { intent, reply } => Input::Intend(self.remember(reply), intent),
            Request::EndLease { revision, reply } => {
                let request = self.remember(reply);
                Input::EndLease { request, revision }
            }
            Request::Superseded { term } => Input::Superseded { term },
            #[cfg(test)]
            Request::Crash => panic!("crashed on request"),
        }
    }

    fn remember(&mut self, reply: oneshot::Sender<Reply>) -> RequestId {
        self.next_request += 1;
        let request = RequestId(self.next_request);
        self.requests.insert(request, reply);
        request
    }
}
