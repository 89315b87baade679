//! The rules of groups, each of which can be broken, and how large an exploration is.

use crate::step::Action;

/// The length of each member's lease, in ticks.
pub const LEASE: u8 = 3;
/// The most members, epochs and units.
pub const MEMBERS: usize = 3;
pub const EPOCHS: usize = 5;
/// An epoch that no member ever claimed. A stranger has its key.
pub const STRANGER: u8 = 4;
pub const UNITS: usize = 2;

macro_rules! broken {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// A rule that is broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Broken { $($(#[doc = $doc])* $name,)* }

        /// All of them, each with its description.
        pub const BROKEN: &[(Broken, &str)] = &[$((Broken::$name, concat!($($doc),*)),)*];
    };
}

broken! {
    /// 1: an owner that has written over its record begins a term on that record again.
    StartAgain,
    /// 1: a member writes over the record of an owner that nobody deposed.
    TakeFromTheLiving,
    /// 2: an owner gives a unit away while its handler runs.
    GiveBeforeEnd,
    /// 2: a unit is taken without a compare-and-set.
    BlindTake,
    /// 3: an owner's lease was watched to its end, but nobody wrote its tombstone.
    TakeWithoutTombstone,
    /// 4: the next term of an owner begins without a write.
    BeginWithoutWrite,
    /// 5: another process of the same id is deposed at once.
    DeposeNamesake,
    /// 6: a unit whose key is missing is created, and free at once.
    MissingUnitIsFree,
    /// 6: a unit is written over before its record came of age.
    TakeUnquiet,
    /// 6: a member whose record is missing counts as deposed, without a wait.
    MissingMemberIsDead,
    /// 6: a member whose record is missing is waited for, but no tombstone is written.
    MissingMemberNeedsNoTombstone,
    /// 6: units of a new group are taken before the group's record says that it is made.
    TakeBeforeMade,
    /// 6: every unit that is created in a new group is of age, also after the group was made.
    TrustEveryCreation,
    /// 7: a heartbeat extends the lease before the watch has shown it.
    ExtendUnseen,
    /// 7: a lease counts from the moment at which the heartbeat was shown.
    CountFromReceipt,
    /// 7: a heartbeat that is shown after the deadline revives the lease.
    ReviveLease,
    /// 10: a unit of the new generation begins before the old generation is closed.
    StartNewGenerationEarly,
    /// 11: records name instances and not epochs.
    NameInstances,
    /// 12: a record that its giver did not sign counts at once.
    BelieveUnsigned,
    /// 12: a record was written over what it says, and not over what the server checked.
    BelieveOver,
    /// 12: an owner goes on although another record stands under its unit's key.
    IgnoreForeignRecord,
    /// 12: a tombstone frees at once what its epoch owned.
    TombstoneFrees,
    /// 12: an owner signs a record on before its own was believed.
    GiveUnquiet,
}

/// One exploration: who takes part, and how often what may go wrong.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub name: &'static str,
    pub members: usize,
    /// Whether unit 0 is the old generation, and unit 1 the new one with the same keys.
    pub growing: bool,
    /// Whether the group is new, and its units are yet to be created.
    pub making: bool,
    /// The unit is left to its first owner.
    pub gives: u8,
    /// Epochs that can be claimed beside the first ones.
    pub claims: u8,
    pub deaths: u8,
    /// Writes that take effect without an answer, and such that take effect late or never.
    pub unanswered: u8,
    pub ghosts: u8,
    pub purges: u8,
    pub forgeries: u8,
    /// What has happened before anything else does.
    pub after: &'static [Action],
}

impl Bounds {
    pub const fn calm(name: &'static str, members: usize) -> Self {
        Self {
            name,
            members,
            growing: false,
            making: false,
            gives: 0,
            claims: 0,
            deaths: 0,
            unanswered: 0,
            ghosts: 0,
            purges: 0,
            forgeries: 0,
            after: &[],
        }
    }

    pub const fn units(&self) -> usize {
        if self.growing { 2 } else { 1 }
    }
}
