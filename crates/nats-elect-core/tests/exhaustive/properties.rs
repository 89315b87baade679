//! What must always hold, and what must be possible.

use stateright::Property;

use crate::configuration::Configuration;
use crate::space::Roles;
use crate::state::State;
use crate::witness::witnesses;

/// A promise that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    /// Two instances hold a valid lease at one true instant.
    TwoLeaders,
    /// A term's fencing token is not above that of every term promoted before it.
    TokenOrder,
    /// A handler runs outside of its own lease, and neither an overrun nor the allowance covers it.
    HandlerOutsideLease,
    /// What an instance does is against its own rules.
    Conduct(Misconduct),
    /// Nothing has gone wrong for long enough, and nobody leads.
    NoLeader,
}

/// What an instance must not do, whatever comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Misconduct {
    UsedANonceTwice,
    WroteOverWhatItWasNeverShown,
    WroteWhileItsHandlerRan,
    WroteWhileItsLeaseWasValid,
    SentTwoRequestsAtOnce,
    SentWithoutALink,
    StartedASecondHandler,
    PromotedTooLate,
    StoodWhilePaused,
    ShortenedALease,
    ExtendedARevokedLease,
    ResumedAfterItResigned,
    CancelledBeforeItResigned,
    LedBeyondItsGrace,
    EndedForAnOutageThatIsOver,
    WantedToWakeInThePast,
    /// The core's own assertions failed.
    Panicked,
}

/// What a configuration must be able to bring about, or its faults do not bite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    Promoted,
    /// A second term, of another instance or of the same.
    PromotedAgain,
    ClaimRefused,
    RenewalRefused,
    ClaimAdopted,
    FenceAdopted,
    RenewalAdopted,
    Released,
    ReleasedOverMarker,
    GhostCommitted,
    Overrun,
    /// A grace period ends a term.
    GraceOver,
    /// A lease lasts while its holder no longer calls itself leader.
    ValidButNotLeading,
    /// A claim that came to no term is given back by an instance that was paused meanwhile.
    GivenBack,
    /// A leader agreed to hand over.
    Yielded,
    /// The heir claimed what was handed to it.
    HandedOver,
    /// A companion released the role of a process that died.
    WillCarriedOut,
}

/// All properties of a configuration.
pub fn of(configuration: &Configuration) -> Vec<Property<Roles>> {
    let mut properties = vec![
        Property::always(
            "at most one valid lease at any instant",
            |_, state: &State| state.broken != Some(Broken::TwoLeaders),
        ),
        Property::always(
            "fencing tokens rise from term to term",
            |_, state: &State| state.broken != Some(Broken::TokenOrder),
        ),
        Property::always("handlers run within their own lease", |_, state: &State| {
            state.broken != Some(Broken::HandlerOutsideLease)
        }),
        Property::always("instances keep to their rules", |_, state: &State| {
            !matches!(state.broken, Some(Broken::Conduct(_)))
        }),
        Property::always(
            "without faults somebody leads in time",
            |_, state: &State| state.broken != Some(Broken::NoLeader),
        ),
    ];
    properties.extend(
        configuration
            .witnesses
            .iter()
            .map(|witness| possible(*witness)),
    );
    properties
}

witnesses! {
    Roles;
    Promoted: "a leader emerges"
    PromotedAgain: "a second term begins"
    ClaimRefused: "a claim is refused"
    RenewalRefused: "a renewal is refused"
    ClaimAdopted: "a claim that was never answered is adopted"
    FenceAdopted: "a fence that was never answered is adopted"
    RenewalAdopted: "a renewal that was never answered is adopted"
    Released: "a role is released"
    ReleasedOverMarker: "another's delete marker is turned into a release"
    GhostCommitted: "a write that was given up takes effect"
    Overrun: "a handler's overrun is named"
    GraceOver: "a grace period ends a term"
    ValidButNotLeading: "a lease outlives the leadership"
    GivenBack: "who is paused gives its claim back"
    Yielded: "a leader yields to a higher priority"
    HandedOver: "an heir takes what was handed to it"
    WillCarriedOut: "a companion releases the role of a process that died"
}

/// Whether nobody has led for too long although nothing went wrong.
pub fn is_overdue(configuration: &Configuration, state: &State) -> bool {
    state.leaderless > configuration.liveness
}
