//! Taking over from a living leader of lower priority: this instance asks the leader.
//!
//! A takeover request needs time. This instance must have followed the same leader for the whole
//! hysteresis, connected and out of its cool-down. Any interruption starts the hysteresis again. So
//! instances do not take the role from each other again and again. Each handoff that came to nothing
//! doubles the hysteresis, for this instance may be one that can't claim.

use std::time::Duration;

use uuid::Uuid;

use super::input::PeerRequestId;
use super::phase::Phase;
use super::scene::Scene;
use super::waiting::Waiting;
use crate::config::Takeover;
use crate::heirs::Heirs;
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::peer::{PeerReply, PeerRequest, Refusal};
use crate::record::{Content, SeenRecord};

/// With the default hysteresis, one request in a quarter of an hour.
const MOST_DOUBLINGS: u32 = 6;

/// The wish to take over from a leader.
#[derive(Clone, Debug, Hash)]
pub(super) struct TakeoverRequest {
    /// The leader's incarnation and id. Records of other libraries have no incarnation.
    pub rival: (Option<Uuid>, String),
    /// When to ask, or to ask again.
    pub ask_at: Moment,
    pub asking: Option<PeerRequestId>,
    /// The leader has agreed.
    pub agreed: bool,
}

impl Waiting {
    /// The living leader that this instance should take over from.
    fn rival<'a>(&self, at: &'a Scene) -> Option<&'a SeenRecord> {
        let able = at.settings.takeover != Takeover::Never
            && at.wire.is_up()
            && self.cooling_until.is_none()
            && at.stopping.is_none()
            && !at.paused
            && at.failing_until().is_none()
            && at.followed();
        match at.observed_role.foreign_content() {
            Some(Content::Record(record)) if able && record.priority < at.settings.priority => {
                Some(record)
            }
            _ => None,
        }
    }

    /// Begins, keeps or drops the takeover request.
    pub fn update_takeover_request(&mut self, at: &Scene) {
        let rival = self
            .rival(at)
            .map(|record| (record.incarnation, record.id.clone()));
        let known = self.takeover_request.as_ref().map(|it| &it.rival);
        if known != rival.as_ref() {
            self.takeover_request = rival.map(|rival| TakeoverRequest {
                rival,
                ask_at: at.now + at.hysteresis(),
                asking: None,
                agreed: false,
            });
        }
    }

    /// When to ask the leader next: not before its release would free the role for this instance.
    ///
    /// Until then another instance may lead, as far as this one has seen. The role would stand
    /// empty and then go to somebody else, again and again. A leader of another library hears no
    /// request, so it releases nothing.
    pub fn ask_leader_at(&self, at: &Scene) -> Option<Moment> {
        let takeover_request = self.takeover_request.as_ref()?;
        let asks = takeover_request.asking.is_none();
        mutated!(AskForWhatIsNotFree => return asks.then_some(takeover_request.ask_at));
        let is_heard = takeover_request.rival.0.is_some();
        let free_at = is_heard.then(|| at.observed_role.free_if_handed_over());
        asks.then(|| takeover_request.ask_at.max(free_at.unwrap_or_default()))
    }

    pub fn ask_leader(mut self, at: &mut Scene) -> Phase {
        // A leader of another library gets no requests.
        let leader = self.rival(at).and_then(SeenRecord::nonce);
        let by = at.contender();
        let asking = leader.map(|leader| at.ask(PeerRequest::hand_over(leader, by), Heirs::NONE));
        if let Some(takeover_request) = &mut self.takeover_request {
            takeover_request.asking = asking;
            takeover_request.ask_at = at.now + at.hysteresis();
        }
        Phase::Waiting(self)
    }

    pub fn leader_answered(
        &mut self,
        at: &mut Scene,
        question: PeerRequestId,
        answer: Option<&PeerReply>,
    ) {
        let asked = |it: &&mut TakeoverRequest| it.asking == Some(question);
        let Some(takeover_request) = self.takeover_request.as_mut().filter(asked) else {
            return;
        };
        takeover_request.asking = None;
        takeover_request.ask_at = match answer {
            // The request or its reply may have been lost.
            None => at.now + at.settings.heartbeat * 2,
            Some(_) => at.now + at.hysteresis(),
        };
        if answer == Some(&PeerReply::Yielding) {
            if !takeover_request.agreed {
                takeover_request.agreed = true;
                // Until this instance leads.
                at.handoffs_in_vain = at.handoffs_in_vain.saturating_add(1);
            }
            self.expect_handoff(at, None);
        }
        let why = Refusal::Failing;
        if answer == Some(&PeerReply::Refused { why }) {
            at.told_to_be_failing();
        }
    }
}

impl Scene {
    /// How long a leader must have been followed before it is asked.
    fn hysteresis(&self) -> Duration {
        mutated!(AskAsOftenInVain => return self.settings.takeover_hysteresis);
        let doublings = self.handoffs_in_vain.min(MOST_DOUBLINGS);
        self.settings.takeover_hysteresis * (1 << doublings)
    }
}
