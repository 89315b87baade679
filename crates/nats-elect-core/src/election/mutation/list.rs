//! The list of rules that can be broken.

use std::sync::atomic::{AtomicUsize, Ordering};

static ON: AtomicUsize = AtomicUsize::new(usize::MAX);

macro_rules! mutations {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// A rule of the protocol that is broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutation { $($(#[doc = $doc])* $name,)* }

        /// All rules, each with its description.
        pub const MUTATIONS: &[(Mutation, &str)] =
            &[$((Mutation::$name, concat!($($doc),*)),)*];
    };
}

mutations! {
    /// The leader's deadline has no margin for clocks of different rates.
    NoDriftMargin,
    /// A heartbeat that is confirmed after the old deadline extends the lease.
    ExtendOnLateAck,
    /// Records are put blindly instead of by compare-and-set.
    BlindWrites,
    /// The role is released before its handler has ended.
    ReleaseBeforeHandlerEnds,
    /// A key that the server expired is free at once.
    TrustServerExpiry,
    /// A foreign delete marker is taken for a release.
    MarkerIsRelease,
    /// A missing key is claimed at once.
    MissingIsFree,
    /// No fence record is written.
    SkipFence,
    /// The fence record is written without a condition.
    FenceWithoutCondition,
    /// The term starts before its fence record is confirmed.
    PromoteBeforeFence,
    /// The role is released before the shared deadline is revoked.
    ReleaseBeforeRevoke,
    /// A second attempt bears the nonce of the first.
    ReuseNonce,
    /// A write that is found by a read counts from the sending of the latest attempt.
    AdoptFromLaterSend,
    /// The sequence in a refusal's text is watched as if a record had been seen.
    CountFromErrorText,
    /// A lease is counted from a timestamp in the record.
    CountFromTimestamp,
    /// A record of the own id is taken for one of the own incarnation.
    OwnIdIsOwn,
    /// A bucket that is made anew numbers its messages from the beginning.
    ReuseSequences,
    /// A reconnect starts the lease anew.
    ForgetDeadlineOnReconnect,
    /// A heartbeat without an answer counts as confirmed.
    TimeoutIsAck,
    /// A read that shows the own record extends the lease.
    ReadIsProof,
    /// Writes are sent while there is no connection.
    SendWhileDown,
    /// A bucket that was made anew is taken for the old one.
    IgnoreEpoch,
    /// Nothing is waited for after a bucket was made anew.
    NoQuarantine,
    /// A term starts without the time to wind it down.
    PromoteLate,
    /// A handler that does not end is not aborted.
    NeverAbort,
    /// A refused heartbeat counts as confirmed.
    ConflictIsAck,
    /// A stranger's short record ends the lease that it was written over.
    StrangerEndsLease,
    /// Whatever sequence comes next is taken for one of the bucket that was read.
    TrustAnyJump,
    /// The lease that the fence record tells of is not waited for.
    IgnoreFenceLease,
    /// A read that shows an old release of ours is taken for the one just sent.
    BelieveOldRelease,
    /// The end of each term is told as a release.
    TellReleased,
    /// An instance that may only ask for a role claims it over its living leader.
    ForceWithoutLeave,
    /// A paused instance claims the role all the same.
    ClaimWhilePaused,
    /// A leader yields to a request that was meant for an earlier term.
    YieldToOldRequests,
    /// A fence record that is refused is written again over the one that stands there.
    FenceOverWhatStands,
    /// The bucket is looked at before its keys are read.
    BucketReadFirst,
    /// Any release is taken for that of the leader.
    BelieveAnyRelease,
    /// The record that is held is forgotten after so many heartbeats without an answer.
    ForgetWhatIsHeld,
    /// A record's lease is waited for, whether its writer ever led or not.
    BelieveAnyLease,
    /// An answer that comes after the timeout is thrown away.
    DropLateAnswers,
    /// The lease of a fence record is waited for without a look whether another one has come.
    BelieveOldFence,
    /// A read that agrees with a refusal shows that a fence record has gone.
    SupersededByRead,
    /// An instance that finds its bucket unfit does not ask again.
    AskOnceForALook,
    /// A heartbeat is waited for that can't be stored any more.
    AwaitWhatIsRefused,
    /// A heartbeat is no longer waited for once another's record was seen.
    ForgetHeartbeatsForAnyRecord,
    /// A sequence on the watch that lies below a known one is passed over.
    IgnoreShownLoss,
    /// A forced takeover does not wait for the leader that was there before another hand wrote a
    /// record.
    ForceOverTheUnseen,
    /// Nobody leads whose fence record has expired.
    ForgetExpiredFences,
}

impl Mutation {
    /// Whether this rule is the broken one.
    pub fn is_on(self) -> bool {
        ON.load(Ordering::Relaxed) == self as usize
    }

    /// Breaks this rule, and no other.
    pub fn choose(self) {
        ON.store(self as usize, Ordering::Relaxed);
    }
}

/// Breaks no rule.
pub fn mend() {
    ON.store(usize::MAX, Ordering::Relaxed);
}
