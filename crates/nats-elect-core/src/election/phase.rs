//! Where an election is in its cycle. Each phase has a file with all that can happen in it.

use super::acquiring::Acquisition;
use super::answers::Stake;
use super::leading::Leadership;
use super::releasing::Releasing;
use super::scene::Scene;
use super::succession::Succession;
use super::waiting::Waiting;
use super::winding_down::WindingDown;
use crate::event::EndCause;
use crate::lease::{Held, TermId};
use crate::moment::Moment;
use crate::token::FencingToken;

/// The phase of an election. A handler exists only in `Leading` and `WindingDown`.
#[derive(Clone, Debug, Hash)]
pub(super) enum Phase {
    Waiting(Waiting),
    Acquiring(Acquisition),
    Leading(Leadership),
    WindingDown(WindingDown),
    Releasing(Releasing),
    Stopped,
}

impl Phase {
    pub const fn held(&self) -> Option<&Held> {
        match self {
            Self::Acquiring(acquisition) => Some(&acquisition.held),
            Self::Leading(leadership) => Some(&leadership.held),
            Self::WindingDown(winding_down) => Some(&winding_down.held),
            Self::Releasing(releasing) => Some(&releasing.held),
            Self::Waiting(_) | Self::Stopped => None,
        }
    }

    /// Whether this is the number of the held lease's acquisition or term.
    pub fn is_of(&self, term: TermId) -> bool {
        self.held().is_some_and(|held| held.term == term)
    }

    /// The lease on which a handler runs.
    pub const fn kept(&mut self) -> Option<&mut Held> {
        match self {
            Self::Leading(leadership) => Some(&mut leadership.held),
            Self::WindingDown(winding_down) => Some(&mut winding_down.held),
            Self::Waiting(_) | Self::Acquiring(_) | Self::Releasing(_) | Self::Stopped => None,
        }
    }

    /// The term's fencing token, as long as its handler may run or its role is still to be freed.
    pub fn fencing_token(&self) -> Option<FencingToken> {
        match self {
            Self::Leading(leadership) => Some(leadership.fencing_token),
            Self::WindingDown(winding_down) => Some(winding_down.term.fencing_token),
            Self::Releasing(releasing) => releasing.fencing_token(),
            Self::Waiting(_) | Self::Acquiring(_) | Self::Stopped => None,
        }
    }

    pub const fn is_leading(&self) -> bool {
        matches!(self, Self::Leading(_))
    }

    /// Until when this instance may act on its lease. `None` if it has resigned.
    pub fn acting_until(&self, at: &Scene) -> Option<Moment> {
        match self {
            Self::Leading(leadership) => Some(leadership.acting_until(at)),
            Self::WindingDown(winding_down) => winding_down.acting_until(),
            Self::Waiting(_) | Self::Acquiring(_) | Self::Releasing(_) | Self::Stopped => None,
        }
    }

    /// Ends the term in good order, if one goes on: there is a lease to finish under.
    pub fn wind_down(self, at: &mut Scene, cause: EndCause) -> Self {
        match self {
            Self::Leading(it) => it.wind_down(at, cause),
            phase => phase,
        }
    }

    /// Ends the claim or the term at once, because the basis of its lease is gone. If another client
    /// deleted the key, the revision of its `marker` is given.
    pub fn lost(self, at: &mut Scene, cause: EndCause, marker: Option<u64>) -> Self {
        match self {
            Self::Acquiring(_) => at.abandon_claim(),
            Self::Leading(it) => it.lost(at, cause, marker),
            Self::WindingDown(it) => it.lost(at, cause, marker),
            Self::Releasing(mut it) => {
                it.forgo();
                Self::Releasing(it)
            }
            phase @ (Self::Waiting(_) | Self::Stopped) => phase,
        }
    }

    /// Begins, keeps or drops the takeover request.
    pub fn update_takeover_request(mut self, at: &Scene) -> Self {
        if let Self::Waiting(it) = &mut self {
            it.update_takeover_request(at);
        }
        self
    }

    pub const fn stake(&self) -> Stake {
        match self {
            Self::Waiting(_) | Self::Stopped => Stake::Nothing,
            Self::Acquiring(_) => Stake::Claim,
            Self::Leading(_) | Self::WindingDown(_) | Self::Releasing(_) => Stake::Lease,
        }
    }

    /// Whether nothing is known of the role yet, and nothing of ours can depend on it.
    pub fn looks_first(&self) -> bool {
        matches!(self, Self::Waiting(waiting) if waiting.looks_first())
    }

    /// How a term that comes to its end hands the role over.
    pub const fn succession(&mut self) -> Option<&mut Succession> {
        match self {
            Self::WindingDown(winding_down) => Some(&mut winding_down.succession),
            Self::Releasing(releasing) => Some(&mut releasing.succession),
            Self::Waiting(_) | Self::Acquiring(_) | Self::Leading(_) | Self::Stopped => None,
        }
    }
}
