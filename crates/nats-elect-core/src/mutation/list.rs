//! The list of rules that can be broken.

use std::sync::atomic::{AtomicUsize, Ordering};

static ON: AtomicUsize = AtomicUsize::new(usize::MAX);

macro_rules! mutations {
    (
        elections { $($(#[doc = $doc:literal])* $name:ident,)* }
        members { $($(#[doc = $member_doc:literal])* $member_name:ident,)* }
    ) => {
        /// A rule of the protocol that is broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutation {
            $($(#[doc = $doc])* $name,)*
            $($(#[doc = $member_doc])* $member_name,)*
        }

        /// All rules of elections, each with its description.
        pub const MUTATIONS: &[(Mutation, &str)] =
            &[$((Mutation::$name, concat!($($doc),*)),)*];

        /// All rules of a group's members, each with its description.
        pub const MEMBER_MUTATIONS: &[(Mutation, &str)] =
            &[$((Mutation::$member_name, concat!($($member_doc),*)),)*];
    };
}

mutations! {
    elections {
        /// The leader's deadline leaves no margin for clocks of different rates.
        NoDriftMargin,
        /// A heartbeat that is confirmed after the deadline extends the lease.
        ExtendOnLateAck,
        /// Instances write records without a compare-and-set.
        BlindWrites,
        /// A leader releases the role before its handler has ended.
        ReleaseBeforeHandlerEnds,
        /// A key that the server expired is free at once.
        TrustServerExpiry,
        /// A delete marker of another client counts as a release.
        MarkerIsRelease,
        /// An instance claims a missing key at once.
        MissingIsFree,
        /// A new leader writes no fence record.
        SkipFence,
        /// A new leader writes its fence record without a condition.
        FenceWithoutCondition,
        /// The term starts before its fence record is confirmed.
        PromoteBeforeFence,
        /// A leader releases the role before it revokes the shared deadline.
        ReleaseBeforeRevoke,
        /// A second attempt has the nonce of the first.
        ReuseNonce,
        /// The lease of a write that a read finds counts from the sending of the latest attempt.
        AdoptFromLaterSend,
        /// The sequence in a refusal's text counts as a record that was seen.
        CountFromErrorText,
        /// A lease counts from a timestamp in the record.
        CountFromTimestamp,
        /// A record of the own instance id counts as one of the own incarnation.
        OwnIdIsOwn,
        /// A recreated bucket numbers its messages from the beginning.
        ReuseSequences,
        /// A reconnect extends the lease.
        ForgetDeadlineOnReconnect,
        /// A heartbeat without an answer counts as confirmed.
        TimeoutIsAck,
        /// A read that shows the own record extends the lease.
        ReadIsProof,
        /// An instance sends writes while it has no connection.
        SendWhileDown,
        /// An instance takes a recreated bucket for the old one.
        IgnoreEpoch,
        /// An instance waits for no lease after writes were lost or the bucket was recreated.
        NoQuarantine,
        /// A term starts although its lease leaves no time to wind it down.
        PromoteLate,
        /// A leader never aborts a handler that does not end.
        NeverAbort,
        /// A refused heartbeat counts as confirmed.
        ConflictIsAck,
        /// Another client's short record ends the lease that it overwrites.
        StrangerEndsLease,
        /// An instance takes any higher sequence for one of the bucket that it read.
        TrustAnyJump,
        /// An instance does not wait for the lease that the fence record shows.
        IgnoreFenceLease,
        /// A leader takes an old release of its own for the one that it just sent.
        BelieveOldRelease,
        /// A leader reports each term as released at its end.
        TellReleased,
        /// An instance asks a leader for a role that it can't claim yet.
        AskForWhatIsNotFree,
        /// An instance that can't claim asks leaders for the role as often as one that can.
        AskAsOftenInVain,
        /// An instance whose terms keep failing takes part as if they did not.
        ForgetOwnFailures,
        /// A leader yields to an id whose processes keep dying as soon as they lead.
        ForgetShortTerms,
        /// An instance that leads by an order yields to a higher priority at once.
        ForgetOrders,
        /// A paused instance claims the role.
        ClaimWhilePaused,
        /// A leader yields to a request for an earlier term.
        YieldToOldRequests,
        /// A new leader overwrites the fence record that refused its own.
        FenceOverWhatStands,
        /// The driver reads the bucket's settings before the keys.
        BucketReadFirst,
        /// Any client's release counts as the leader's.
        BelieveAnyRelease,
        /// A leader forgets its current record after a number of unanswered heartbeats.
        ForgetWhatIsHeld,
        /// An instance waits for a record's lease even if its writer never led.
        BelieveAnyLease,
        /// An instance drops an answer that comes after the timeout.
        DropLateAnswers,
        /// An instance waits for a fence record's lease without reading whether a newer one came.
        BelieveOldFence,
        /// A read that agrees with a refusal proves that a fence record has gone.
        SupersededByRead,
        /// An instance that finds its bucket unfit does not look at it again.
        AskOnceForALook,
        /// A leader waits for a heartbeat that can no longer be stored.
        AwaitWhatIsRefused,
        /// A leader waits for no earlier heartbeat once it has seen another record.
        ForgetHeartbeatsForAnyRecord,
        /// An instance ignores a message on the watch whose sequence is too low.
        IgnoreShownLoss,
        /// An instance does not wait for a leader whose fence record has expired.
        ForgetExpiredFences,
        /// An heir of the line of succession does not wait for the leader's lease.
        HeirsDoNotWait,
        /// A fence record of an earlier term of the same process counts as that of its present term.
        VouchByProcess,
        /// A companion releases a role before the death of its process is confirmed.
        WillBeforeDeath,
        /// A companion releases a role over the record of another incarnation.
        WillOverStrangers,
        /// A heartbeat that is refused for a reason that is not known to pass ends its term.
        EndAtAnyRefusal,
        /// A read that succeeds resets the failures of writes.
        ReadsResetWrites,
        /// A leader counts its grace period from when it hears of an outage.
        CountGraceFromHearing,
        /// A leader leaves it to the monitor to notice that its grace period is over.
        LeaveGraceToMonitor,
        /// The monitor's word about an outage that is over ends a term.
        ObeyOldGraceOver,
        /// The monitor never tells a leader that its grace period is over.
        MonitorNeverTells,
    }
    members {
        /// Rule 1: a unit begins while others may still act on it.
        NobodyWaitedFor,
        /// Rule 1: a unit begins beside a handler of another generation in the same process.
        BeginsBesideGeneration,
        /// Rule 1: a unit begins beside its own former handler in the same process.
        BeginsBesideItself,
        /// Rule 1: a handler goes on although a newer map gives its unit to another member.
        KeepsTakenUnits,
        /// Rule 1: a handler that has ended begins again by the same map.
        BeginsAgain,
        /// Rule 1: a member acts by its last map although a later one can't be followed.
        ActsByLaterMap,
        /// Rule 2: a handler that was told to end is no exception.
        ToldIsNoException,
        /// Rule 2: a handler that goes on over a newer map is no exception.
        GoesOnWithoutException,
        /// Rule 2: a handler acts by the newer map before all others are clear.
        ActsByNewMapEarly,
        /// Rule 2: a member acknowledges what it was shown, and not what it follows.
        AcknowledgesShown,
        /// Rule 2: exceptions of other generations count for nothing.
        OtherGenerationsIgnored,
        /// Rule 3: the former owner of a unit is not waited for.
        FormerOwnerForgotten,
        /// Rule 3: whom a unit waited for in the former map is not waited for in the next one.
        FromForgotten,
        /// Rule 3: a map is written over whatever is stored.
        MapOverAnything,
        /// Rule 3: a unit is given to a member that was shown no present map.
        GivesToWhoIsBehind,
        /// Rule 3: a unit is given to a member that can't run it.
        GivesToUnable,
        /// Rule 4: an epoch is told over by its member before its handlers have ended.
        EndedEarly,
        /// Rule 4: a member has left before the handlers of its earlier epochs have ended.
        LeavesBeforeHandlersEnd,
        /// Rule 4: an epoch is told over by others before its lease is.
        MarkedEarly,
        /// Rule 4: the lease of an epoch is watched from its first record on.
        WatchedOnce,
        /// Rule 4: a foreign value under a member's key is watched for a second.
        ForeignWatchedShort,
        /// Rule 4: *ended* is written over whatever is stored.
        MarkedOverAnything,
        /// Rule 4: an epoch that is over comes back with whatever somebody puts there.
        OverComesBack,
        /// Rule 4: an epoch that was over is, although its member's heartbeats follow its end.
        OverForGood,
        /// Rule 4: *ended* gets a time to live although the map names its epoch.
        RetiresNamed,
        /// Rule 5: an epoch whose key is missing is over.
        MissingIsOver,
        /// Rule 5: a collect leaves out who is in no map that the collector follows.
        CollectsKnownAlone,
        /// Rule 5: a collect waits for nobody whom the map names that it is made from.
        CollectForgetsNamed,
        /// Rule 5: a member collects although others know later maps.
        CollectsBehind,
        /// Rule 5: a member that follows no map collects beside a record that it can't read.
        CollectsBesideUnreadable,
        /// Rule 5: the reads need not show a heartbeat that was sent before.
        ReadsBeforeHeartbeat,
        /// Rule 5: a foreign value over a map that can't be followed is overwritten.
        LaterMapOverwritten,
        /// Rule 6: a member that leaves begins units.
        BeginsWhileLeaving,
        /// Rule 7: the units of the next generation wait for nobody.
        GenerationWaitsForNobody,
        /// Rule 7: the units of the next generation wait for the last owners alone.
        GenerationForgetsWaits,
        /// Rule 7: a new name waits for nobody.
        NameWaitsForNobody,
        /// A heartbeat extends the lease before it was shown.
        ExtendsUnshown,
        /// A lease counts from the showing of its heartbeat.
        LeaseCountsFromShowing,
        /// A member does not wait for the leases of another bucket.
        NoWaitInNewBucket,
        /// A member that waits for the leases of another bucket gets units.
        WaitingGetsUnits,
        /// Units get their first owners in a bucket although a member waits.
        FirstOwnersDespiteWaiting,
        /// A map of a lower sequence than was shown is an old one, and writes are never lost.
        LostMapFollowed,
        /// The map's key is not read now and then.
        MapUnread,
        /// A heartbeat extends the lease although the followed map may be lost.
        DoubtExtends,
        /// A value of a lower sequence than was shown is an old one, whatever was refused.
        OldSequenceForGood,
    }
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
