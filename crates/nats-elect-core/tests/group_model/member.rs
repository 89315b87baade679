//! How a member learns of a record, and what it may do next.

use crate::rules::{Broken, EPOCHS, LEASE, UNITS};
use crate::state::GROUP_KEY;
use crate::state::{Body, EPOCH_KEYS, Epoch, Key, Known, Member, Record, State, unit_key};

/// What a member would write, over what it knows.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    pub key: Key,
    pub expected: Option<u8>,
    pub over: u8,
    pub body: Body,
}

impl State {
    /// Whether the epoch is this member's, as the rules have it.
    fn is_mine(&self, slot: usize, owner: Option<Epoch>, broken: Option<Broken>) -> bool {
        let Some(owner) = owner else {
            return false;
        };
        if broken == Some(Broken::NameInstances) {
            return usize::from(self.claimant[usize::from(owner)]) == slot;
        }
        self.members[slot].epoch == Some(owner)
    }

    /// The watch shows a record to a member.
    pub fn show(&mut self, slot: usize, key: Key, record: Record, broken: Option<Broken>) {
        let member = &mut self.members[slot];
        member.shown = member.shown.max(record.seq);
        if EPOCH_KEYS.contains(&key) {
            member.learn_of_member(key, record, broken);
        } else if key == GROUP_KEY {
            member.learn_of_group(record, broken);
        } else {
            let unit = key - EPOCHS;
            let running = member.term[unit];
            member.learn_of_unit(unit, record, broken);
            let displaced = running.is_some_and(|token| record.seq > token);
            if displaced && broken != Some(Broken::IgnoreForeignRecord) {
                member.end(unit);
            }
        }
    }

    /// The member begins a new watch. It shows each key's last record, and which keys are missing.
    pub fn look(&mut self, slot: usize, broken: Option<Broken>) {
        let mut all: Vec<(Key, Record)> = Vec::new();
        for (key, record) in self.keys.iter().enumerate() {
            let member = &mut self.members[slot];
            match (record, member.known[key]) {
                (Some(record), _) => all.push((key, *record)),
                (None, Known::Record(_)) => {
                    member.known[key] = Known::Missing;
                    if key < EPOCHS {
                        member.wait[key] = LEASE;
                        if member.epoch.map(usize::from) == Some(key) && member.begun {
                            member.lose();
                        }
                    } else if key != GROUP_KEY {
                        member.newborn[key - EPOCHS] = false;
                        member.end(key - EPOCHS);
                    }
                }
                (None, Known::Never | Known::Missing) => {}
            }
        }
        all.sort_unstable_by_key(|(_, record)| record.seq);
        for (key, record) in all {
            self.show(slot, key, record, broken);
        }
        let last = self.last;
        let member = &mut self.members[slot];
        member.shown = last;
        // A member that joins a new group.
        if self.keys[unit_key(0)].is_none() && member.known[unit_key(0)] == Known::Never {
            member.known[unit_key(0)] = Known::Missing;
        }
        // An owner that has no record, or never had one.
        for unit in 0..UNITS {
            let Some(Body::Unit {
                owner: Some(owner), ..
            }) = member.record(unit_key(unit)).map(|it| it.body)
            else {
                continue;
            };
            let key = usize::from(owner);
            if self.keys[key].is_none() && member.known[key] == Known::Never {
                member.known[key] = Known::Missing;
                member.wait[key] = LEASE;
            }
        }
    }

    /// Whether what an epoch owns may be taken, as this member knows.
    pub fn is_deposed(&self, slot: usize, epoch: Epoch, broken: Option<Broken>) -> bool {
        let member = &self.members[slot];
        let key = usize::from(epoch);
        let waited = member.wait[key] == 0;
        match member.known[key] {
            Known::Record(Record {
                body: Body::Tombstone { .. },
                ..
            }) => waited || broken == Some(Broken::TombstoneFrees),
            Known::Record(_) => {
                member.epoch != Some(epoch)
                    && match broken {
                        Some(Broken::TakeFromTheLiving) => true,
                        Some(Broken::TakeWithoutTombstone) => waited,
                        _ => false,
                    }
            }
            Known::Missing => match broken {
                Some(Broken::MissingMemberIsDead) => true,
                Some(Broken::MissingMemberNeedsNoTombstone) => waited,
                _ => false,
            },
            Known::Never => false,
        }
    }

    /// Whether the old generation is closed, as this member knows.
    fn may_start_new(&self, slot: usize, unit: usize, broken: Option<Broken>) -> bool {
        let member = &self.members[slot];
        let making = Some(Body::Group { made: false });
        if member.record(GROUP_KEY).map(|record| record.body) == making
            && broken != Some(Broken::TakeBeforeMade)
        {
            return false;
        }
        let closed = matches!(
            member.record(unit_key(0)).map(|record| record.body),
            Some(Body::Unit { closed: true, .. })
        );
        unit == 0
            || closed && member.quiet[0] == 0
            || broken == Some(Broken::StartNewGenerationEarly)
    }

    /// The token of the term that the member may begin.
    pub fn startable(&self, slot: usize, unit: usize, broken: Option<Broken>) -> Option<u8> {
        let member = &self.members[slot];
        let record = member.record(unit_key(unit))?;
        let Body::Unit { owner, .. } = record.body else {
            return None;
        };
        let begins = member.is_valid()
            && member.term[unit].is_none()
            && self.is_mine(slot, owner, broken)
            && record.seq > member.ended[unit]
            && member.quiet[unit] == 0
            && self.may_start_new(slot, unit, broken);
        begins.then_some(record.seq)
    }

    /// The write by which the member takes the unit, if nobody's or a deposed epoch's.
    pub fn taking(&self, slot: usize, unit: usize, broken: Option<Broken>) -> Option<Write> {
        let member = &self.members[slot];
        let epoch = member.epoch.filter(|_| member.is_valid())?;
        let key = unit_key(unit);
        let record = member.record(key)?;
        let Body::Unit { owner, closed, .. } = record.body else {
            return None;
        };
        let free = match owner {
            None => !closed,
            Some(owner) => owner != epoch && self.is_deposed(slot, owner, broken),
        };
        // An owner's watch leaves out what was overwritten. So a record that it must see has to stand
        // for a lease.
        let aged = member.quiet[unit] == 0 || broken == Some(Broken::TakeUnquiet);
        let begins = free && aged && self.may_start_new(slot, unit, broken);
        begins.then_some(Write {
            key,
            expected: (broken != Some(Broken::BlindTake)).then_some(record.seq),
            over: record.seq,
            body: Body::Unit {
                owner: Some(epoch),
                signed: None,
                closed: false,
            },
        })
    }

    /// The write by which the member gives its unit to another, to nobody, to itself for its next
    /// term, or closes it.
    pub fn giving(
        &self,
        slot: usize,
        unit: usize,
        to: Option<Epoch>,
        closed: bool,
        broken: Option<Broken>,
    ) -> Option<Write> {
        let member = &self.members[slot];
        let epoch = member.epoch?;
        let key = unit_key(unit);
        let record = member.record(key)?;
        let owner = matches!(record.body, Body::Unit { owner, .. } if owner == Some(epoch));
        let ended = member.term[unit].is_none() || broken == Some(Broken::GiveBeforeEnd);
        let quiet = member.quiet[unit] == 0 || broken == Some(Broken::GiveUnquiet);
        (owner && ended && quiet).then_some(Write {
            key,
            expected: Some(record.seq),
            over: record.seq,
            body: Body::Unit {
                owner: to,
                signed: Some(epoch),
                closed,
            },
        })
    }

    /// The tombstone over an epoch whose lease the member watched to its end.
    pub fn deposing(&self, slot: usize, epoch: Epoch, broken: Option<Broken>) -> Option<Write> {
        let member = &self.members[slot];
        let key = usize::from(epoch);
        let namesake = broken == Some(Broken::DeposeNamesake);
        let over = match member.known[key] {
            Known::Record(Record {
                seq,
                body: Body::Beat { .. },
                ..
            }) => seq,
            Known::Missing => 0,
            Known::Record(_) | Known::Never => return None,
        };
        let other = member.epoch != Some(epoch);
        (other && (member.wait[key] == 0 || namesake)).then_some(Write {
            key,
            expected: Some(over),
            over,
            body: Body::Tombstone { secret: namesake },
        })
    }
}

impl Member {
    fn learn_of_member(&mut self, key: Key, record: Record, broken: Option<Broken>) {
        if self.epoch.map(usize::from) == Some(key) {
            return self.learn_of_own(key, record, broken);
        }
        let before = self.record(key);
        // A record that is shown again is not counted anew.
        if before.is_some_and(|before| record.seq <= before.seq) {
            return;
        }
        match (before.map(|it| it.body), record.body) {
            // It is final.
            (Some(Body::Tombstone { .. }), _) => return,
            (Some(_), Body::Tombstone { secret: true }) => self.wait[key] = 0,
            // The lease of the very record that it replaces was watched.
            (Some(_), Body::Tombstone { .. }) if before.is_some_and(|it| it.seq == record.over) => {
            }
            (None, Body::Tombstone { .. })
                if self.known[key] == Known::Missing && record.over == 0 => {}
            _ => self.wait[key] = LEASE,
        }
        self.known[key] = Known::Record(record);
    }

    /// Another record than its own under the member's key ends its lease. Its own extends it.
    fn learn_of_own(&mut self, key: Key, record: Record, broken: Option<Broken>) {
        let Body::Beat { left, own: true } = record.body else {
            self.known[key] = Known::Record(record);
            self.begun = true;
            return self.lose();
        };
        self.held = self.held.max(record.seq);
        if self
            .record(key)
            .is_none_or(|before| before.seq < record.seq)
        {
            self.known[key] = Known::Record(record);
        }
        self.extend(left, broken);
    }

    /// Extends the lease, unless it is over.
    pub fn extend(&mut self, left: u8, broken: Option<Broken>) {
        let left = if broken == Some(Broken::CountFromReceipt) {
            LEASE
        } else {
            left
        };
        if self.left > 0 || !self.begun || broken == Some(Broken::ReviveLease) {
            self.begun |= left > 0;
            self.left = self.left.max(left);
        }
    }

    /// What was created while the group was new had no owner before.
    fn learn_of_group(&mut self, record: Record, broken: Option<Broken>) {
        let before = self.record(GROUP_KEY);
        if before.is_some_and(|before| record.seq <= before.seq) {
            return;
        }
        let began = self.making.filter(|began| record.over == *began);
        if let (Some(began), Body::Group { made: true }) = (began, record.body) {
            for unit in 0..UNITS {
                let seq = self.record(unit_key(unit)).map_or(0, |it| it.seq);
                if self.newborn[unit] && began < seq && seq < record.seq {
                    self.quiet[unit] = 0;
                }
            }
        }
        let begins = before.is_none() && record.over == 0;
        if begins && record.body == (Body::Group { made: false }) {
            self.making = Some(record.seq);
        } else if broken != Some(Broken::TrustEveryCreation) {
            self.making = None;
        }
        self.known[GROUP_KEY] = Known::Record(record);
    }

    pub fn learn_of_unit(&mut self, unit: usize, record: Record, broken: Option<Broken>) {
        let key = unit_key(unit);
        let before = self.record(key);
        if before.is_some_and(|before| record.seq <= before.seq) {
            return;
        }
        // Until when an owner before this one may act.
        let quiet = self.quiet[unit];
        self.quiet[unit] = match (before, record.body) {
            (Some(before), Body::Unit { signed, .. }) if before.seq == record.over => {
                match before.body {
                    Body::Unit {
                        owner: None,
                        closed: false,
                        ..
                    } => quiet,
                    Body::Unit {
                        owner: Some(owner), ..
                    } if signed == Some(owner) => quiet,
                    _ if broken == Some(Broken::BelieveUnsigned) => quiet,
                    Body::Unit {
                        owner: Some(owner), ..
                    } => {
                        let deposed = self.record(usize::from(owner)).map(|it| it.body);
                        if matches!(deposed, Some(Body::Tombstone { .. })) {
                            quiet.max(self.wait[usize::from(owner)])
                        } else {
                            LEASE
                        }
                    }
                    _ => LEASE,
                }
            }
            _ if broken == Some(Broken::MissingUnitIsFree) => 0,
            _ if record.over == 0
                && self.making.is_some()
                && matches!(
                    broken,
                    Some(Broken::TrustEveryCreation | Broken::TakeBeforeMade)
                ) =>
            {
                0
            }
            _ => LEASE,
        };
        self.newborn[unit] = before.is_none()
            && record.over == 0
            && matches!(
                record.body,
                Body::Unit {
                    owner: None,
                    closed: false,
                    ..
                }
            );
        self.known[key] = Known::Record(record);
    }
}
