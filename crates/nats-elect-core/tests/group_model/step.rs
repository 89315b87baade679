//! All that can happen in a state.

use crate::member::Write;
use crate::rules::{Bounds, Broken, EPOCHS, LEASE, STRANGER, UNITS};
use crate::state::{
    Body, EPOCH_KEYS, Epoch, GROUP_KEY, Ghost, Key, Known, Member, Record, State, unit_key,
};

/// What becomes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Answered,
    /// It takes effect, and its answer is lost.
    Unanswered,
    /// It is on its way for as long as it likes.
    Delayed,
}

#[derive(Clone, Copy, Debug)]
pub enum Action {
    Tick,
    /// The watch shows a member the next record, or leaves out one that was overwritten.
    Show(usize),
    Skip(usize),
    /// A member's watch begins anew.
    Look(usize),
    Claim(usize, Fate),
    Beat(usize, Fate),
    Begin(usize, usize),
    End(usize, usize),
    Give(usize, usize, Option<Epoch>, Fate),
    Close(usize, usize, Fate),
    Take(usize, usize, Fate),
    CloseFree(usize, usize, Fate),
    Create(usize, usize, Fate),
    Depose(usize, Epoch, Fate),
    /// A member says that the group is made.
    Make(usize, Fate),
    /// A member gives its epoch up, in order.
    Retire(usize, Fate),
    Die(usize),
    /// A ghost takes effect, or never will.
    Land(usize),
    Vanish(usize),
    Purge(Key),
    /// A stranger writes a record that names this owner.
    Forge(usize, Option<Epoch>),
    /// The same, in the name of the epoch that is the stranger's own.
    ForgeSigned(usize, Epoch),
    /// A claim of this epoch that was sent again turns up.
    OldClaim(Epoch),
    ForgeClosed(usize),
    /// A stranger writes an earlier record again, from a member's knowledge of it.
    Replay(usize, usize),
    ForgeTombstone(Epoch),
}

const ANSWERED: [Fate; 1] = [Fate::Answered];

impl State {
    pub fn actions(&self, bounds: &Bounds, broken: Option<Broken>) -> Vec<Action> {
        let mut all = vec![Action::Tick];
        let mut fates = ANSWERED.to_vec();
        if self.left.unanswered > 0 {
            fates.push(Fate::Unanswered);
        }
        if self.left.ghosts > 0 {
            fates.push(Fate::Delayed);
        }
        for slot in 0..self.members.len() {
            if self.members[slot].alive {
                self.of_member(slot, bounds, broken, &fates, &mut all);
            }
        }
        for index in 0..self.ghosts.len() {
            all.extend([Action::Land(index), Action::Vanish(index)]);
        }
        if self.left.purges > 0 {
            let keys = (0..GROUP_KEY).filter(|key| self.keys[*key].is_some());
            all.extend(keys.map(Action::Purge));
        }
        if self.left.forgeries > 0 {
            self.of_strangers(bounds, &mut all);
        }
        all
    }

    fn of_member(
        &self,
        slot: usize,
        bounds: &Bounds,
        broken: Option<Broken>,
        fates: &[Fate],
        all: &mut Vec<Action>,
    ) {
        let member = &self.members[slot];
        if let Some((key, record)) = self
            .log
            .iter()
            .find(|(_, record)| record.seq > member.shown)
        {
            all.push(Action::Show(slot));
            if self.seq(*key) != record.seq {
                all.push(Action::Skip(slot));
            }
        }
        let missing =
            |key: Key| self.keys[key].is_none() && matches!(member.known[key], Known::Record(_));
        if (0..self.keys.len()).any(missing) {
            all.push(Action::Look(slot));
        }
        let each = |all: &mut Vec<Action>, of: &dyn Fn(Fate) -> Action| {
            all.extend(fates.iter().map(|fate| of(*fate)));
        };
        if self.left.deaths > 0 {
            all.push(Action::Die(slot));
        }
        match member.epoch {
            None if self.left.claims > 0 && self.claimant.len() < usize::from(STRANGER) => {
                each(all, &|fate| Action::Claim(slot, fate));
            }
            None => {}
            Some(epoch) => {
                // A heartbeat that changes nothing is left out.
                let stands = self.keys[usize::from(epoch)].map(|record| record.body);
                let fresh = stands
                    == Some(Body::Beat {
                        left: LEASE,
                        own: true,
                    })
                    && member.left == LEASE;
                if member.is_valid() && !fresh {
                    each(all, &|fate| Action::Beat(slot, fate));
                }
                let idle = member.term.iter().all(Option::is_none);
                let over = member.begun && member.left == 0;
                if idle && (over || self.left.gives > 0) {
                    each(all, &|fate| Action::Retire(slot, fate));
                }
            }
        }
        let making = Some(Body::Group { made: false });
        if member.record(GROUP_KEY).map(|record| record.body) == making {
            each(all, &|fate| Action::Make(slot, fate));
        }
        for unit in 0..bounds.units() {
            if self.startable(slot, unit, broken).is_some() {
                all.push(Action::Begin(slot, unit));
            }
            if member.term[unit].is_some() && self.left.gives > 0 {
                all.push(Action::End(slot, unit));
            }
            let gives = self.left.gives > 0;
            if gives && self.giving(slot, unit, None, false, broken).is_some() {
                for to in self.receivers(slot) {
                    each(all, &|fate| Action::Give(slot, unit, to, fate));
                }
                if bounds.growing && unit == 0 {
                    each(all, &|fate| Action::Close(slot, unit, fate));
                }
            }
            if self.taking(slot, unit, broken).is_some() {
                each(all, &|fate| Action::Take(slot, unit, fate));
                if bounds.growing && unit == 0 {
                    each(all, &|fate| Action::CloseFree(slot, unit, fate));
                }
            }
            if member.known[unit_key(unit)] == Known::Missing {
                each(all, &|fate| Action::Create(slot, unit, fate));
            }
        }
        for epoch in (0..EPOCHS).filter_map(|epoch| Epoch::try_from(epoch).ok()) {
            if self.deposing(slot, epoch, broken).is_some() {
                each(all, &|fate| Action::Depose(slot, epoch, fate));
            }
        }
    }

    /// To whom the member can give a unit: to nobody, to itself, to another that lives as it knows.
    fn receivers(&self, slot: usize) -> Vec<Option<Epoch>> {
        let lives = |key: &Key| {
            let record = self.members[slot].record(*key);
            matches!(record.map(|record| record.body), Some(Body::Beat { .. }))
        };
        let epochs = EPOCH_KEYS
            .filter(lives)
            .filter_map(|key| Epoch::try_from(key).ok());
        epochs.map(Some).chain([None]).collect()
    }

    fn of_strangers(&self, bounds: &Bounds, all: &mut Vec<Action>) {
        let epochs = 0..Epoch::try_from(self.claimant.len()).unwrap_or(0);
        for unit in 0..bounds.units() {
            all.extend(epochs.clone().map(|epoch| Action::Forge(unit, Some(epoch))));
            all.push(Action::Forge(unit, None));
            all.push(Action::Forge(unit, Some(STRANGER)));
            all.extend(epochs.clone().map(|epoch| Action::ForgeSigned(unit, epoch)));
            if bounds.growing && unit == 0 {
                all.push(Action::ForgeClosed(unit));
            }
            for index in 0..self.log.len() {
                if self.log[index].0 == unit_key(unit) {
                    all.push(Action::Replay(unit, index));
                }
            }
        }
        all.extend(epochs.map(Action::ForgeTombstone));
    }

    #[allow(clippy::too_many_lines, reason = "one arm for each action")]
    pub fn take(&mut self, action: Action, broken: Option<Broken>) {
        match action {
            Action::Tick => self.tick(broken),
            Action::Show(slot) | Action::Skip(slot) => {
                let shown = self.members[slot].shown;
                let next = self.log.iter().find(|(_, record)| record.seq > shown);
                let (key, record) = *next.expect("something is to be shown");
                if matches!(action, Action::Show(_)) {
                    self.show(slot, key, record, broken);
                } else {
                    self.members[slot].shown = record.seq;
                }
            }
            Action::Look(slot) => self.look(slot, broken),
            Action::Claim(slot, fate) => self.claim(slot, fate, broken),
            Action::Beat(slot, fate) => {
                let member = &self.members[slot];
                let key = usize::from(member.epoch.expect("it has an epoch"));
                let (expected, body) = (
                    member.held,
                    Body::Beat {
                        left: LEASE,
                        own: true,
                    },
                );
                let write = Write {
                    key,
                    expected: Some(expected),
                    over: expected,
                    body,
                };
                if let Some(record) = self.write(write, fate) {
                    self.members[slot].held = record.seq;
                    self.acked(slot, LEASE, broken);
                }
            }
            Action::Begin(slot, unit) => {
                let token = self.startable(slot, unit, broken).expect("it may begin");
                self.members[slot].term[unit] = Some(token);
                if token <= self.last_token[unit] {
                    self.broken = Some("tokens grow");
                }
                self.last_token[unit] = self.last_token[unit].max(token);
            }
            Action::End(slot, unit) => {
                if matches!(broken, Some(Broken::BeginWithoutWrite | Broken::StartAgain)) {
                    self.members[slot].term[unit] = None;
                } else {
                    self.members[slot].end(unit);
                }
                if broken == Some(Broken::BeginWithoutWrite) {
                    self.left.gives -= 1;
                }
            }
            Action::Give(slot, unit, to, fate) => {
                self.give(slot, unit, to, false, fate, broken);
            }
            Action::Close(slot, unit, fate) => self.give(slot, unit, None, true, fate, broken),
            Action::Take(slot, unit, fate) => {
                let write = self.taking(slot, unit, broken).expect("it is free");
                self.write_unit(slot, unit, write, fate);
            }
            Action::CloseFree(slot, unit, fate) => {
                let write = self.taking(slot, unit, broken).expect("it is free");
                let body = Body::Unit {
                    owner: None,
                    signed: None,
                    closed: true,
                };
                self.write_unit(slot, unit, Write { body, ..write }, fate);
            }
            Action::Create(slot, unit, fate) => {
                let body = Body::Unit {
                    owner: None,
                    signed: None,
                    closed: false,
                };
                let write = Write {
                    key: unit_key(unit),
                    expected: Some(0),
                    over: 0,
                    body,
                };
                if let Some(record) = self.write(write, fate) {
                    self.members[slot].learn_of_unit(unit, record, broken);
                }
            }
            Action::Make(slot, fate) => {
                let over = self.members[slot].record(GROUP_KEY).map_or(0, |it| it.seq);
                let body = Body::Group { made: true };
                let write = Write {
                    key: GROUP_KEY,
                    expected: Some(over),
                    over,
                    body,
                };
                self.write(write, fate);
            }
            Action::Depose(slot, epoch, fate) => {
                let write = self
                    .deposing(slot, epoch, broken)
                    .expect("it may be deposed");
                if let Some(record) = self.write(write, fate) {
                    let key = usize::from(epoch);
                    self.members[slot].known[key] = Known::Record(record);
                    self.members[slot].wait[key] = 0;
                }
            }
            Action::Retire(slot, fate) => self.retire(slot, fate),
            Action::Die(slot) => {
                self.left.deaths -= 1;
                let unknown = [Known::Never; crate::state::KEYS];
                self.members[slot] = Member {
                    alive: self.left.claims > 0 && self.claimant.len() < usize::from(STRANGER),
                    epoch: None,
                    begun: false,
                    left: 0,
                    held: 0,
                    shown: 0,
                    known: unknown,
                    wait: [LEASE; EPOCHS],
                    quiet: [LEASE; UNITS],
                    ended: [0; UNITS],
                    term: [None; UNITS],
                    making: None,
                    newborn: [false; UNITS],
                };
                self.look(slot, broken);
            }
            Action::Land(index) => {
                let ghost = self.ghosts.remove(index);
                self.store(
                    ghost.key,
                    ghost.expected,
                    ghost.record.over,
                    ghost.record.body,
                );
            }
            Action::Vanish(index) => {
                self.ghosts.remove(index);
            }
            Action::Purge(key) => {
                self.left.purges -= 1;
                self.keys[key] = None;
            }
            Action::OldClaim(epoch) => {
                let body = Body::Beat { left: 0, own: true };
                let record = Record {
                    seq: 0,
                    over: 0,
                    body,
                };
                self.ghosts.push(Ghost {
                    key: usize::from(epoch),
                    expected: Some(0),
                    record,
                });
            }
            Action::Forge(..)
            | Action::ForgeSigned(..)
            | Action::ForgeClosed(_)
            | Action::Replay(..)
            | Action::ForgeTombstone(_) => {
                self.forge(action, broken);
            }
        }
    }

    fn forge(&mut self, action: Action, broken: Option<Broken>) {
        self.left.forgeries -= 1;
        let (key, record) = match action {
            Action::Forge(unit, owner) => (
                unit_key(unit),
                Err(Body::Unit {
                    owner,
                    signed: None,
                    closed: false,
                }),
            ),
            Action::ForgeSigned(unit, to) => {
                let (owner, signed) = (Some(to), Some(STRANGER));
                (
                    unit_key(unit),
                    Err(Body::Unit {
                        owner,
                        signed,
                        closed: false,
                    }),
                )
            }
            Action::ForgeClosed(unit) => (
                unit_key(unit),
                Err(Body::Unit {
                    owner: None,
                    signed: None,
                    closed: true,
                }),
            ),
            Action::Replay(unit, index) => (unit_key(unit), Ok(self.log[index].1)),
            Action::ForgeTombstone(epoch) => {
                (usize::from(epoch), Err(Body::Tombstone { secret: false }))
            }
            _ => unreachable!("no stranger does this"),
        };
        let (over, body) = match record {
            // The server checked that the first time, and would refuse it now.
            Ok(Record { over, body, .. }) if broken == Some(Broken::BelieveOver) => (over, body),
            Ok(Record { body, .. }) => (0, body),
            Err(body) => (self.seq(key), body),
        };
        self.store(key, None, over, body);
    }

    /// A heartbeat or a claim is confirmed.
    fn acked(&mut self, slot: usize, left: u8, broken: Option<Broken>) {
        if broken == Some(Broken::ExtendUnseen) {
            self.members[slot].extend(left, broken);
        }
    }

    fn claim(&mut self, slot: usize, fate: Fate, broken: Option<Broken>) {
        self.left.claims -= 1;
        let key = self.claimant.len();
        self.claimant.push(u8::try_from(slot).expect("few members"));
        let body = Body::Beat {
            left: LEASE,
            own: true,
        };
        let write = Write {
            key,
            expected: Some(0),
            over: 0,
            body,
        };
        let member = &mut self.members[slot];
        member.epoch = Epoch::try_from(key).ok();
        (member.begun, member.left, member.held) = (false, 0, 0);
        // A new epoch's records are yet to come. What earlier ones ended stays ended.
        if let Some(record) = self.write(write, fate) {
            self.members[slot].held = record.seq;
            self.acked(slot, LEASE, broken);
        }
    }

    fn retire(&mut self, slot: usize, fate: Fate) {
        let member = &mut self.members[slot];
        let epoch = member.epoch.take().expect("it has an epoch");
        let held = member.held;
        (member.begun, member.left) = (false, 0);
        let body = Body::Tombstone { secret: true };
        let key = usize::from(epoch);
        let write = Write {
            key,
            expected: Some(held),
            over: held,
            body,
        };
        if let Some(record) = self.write(write, fate) {
            let member = &mut self.members[slot];
            member.known[key] = Known::Record(record);
            member.wait[key] = 0;
        }
    }

    fn give(
        &mut self,
        slot: usize,
        unit: usize,
        to: Option<Epoch>,
        closed: bool,
        fate: Fate,
        broken: Option<Broken>,
    ) {
        let write = self
            .giving(slot, unit, to, closed, broken)
            .expect("it owns the unit");
        self.left.gives -= 1;
        if broken != Some(Broken::StartAgain) {
            let ended = &mut self.members[slot].ended[unit];
            *ended = write.over.max(*ended);
        }
        self.write_unit(slot, unit, write, fate);
    }

    /// Writes a unit's record. Who writes it knows that no earlier owner acts but those that it
    /// waits for.
    fn write_unit(&mut self, slot: usize, unit: usize, write: Write, fate: Fate) {
        if let Some(record) = self.write(write, fate) {
            self.members[slot].known[unit_key(unit)] = Known::Record(record);
        }
    }

    fn write(&mut self, write: Write, fate: Fate) -> Option<Record> {
        let Write {
            key,
            expected,
            over,
            body,
        } = write;
        match fate {
            Fate::Answered => self.store(key, expected, over, body),
            Fate::Unanswered => {
                self.left.unanswered -= 1;
                self.store(key, expected, over, body);
                None
            }
            Fate::Delayed => {
                self.left.ghosts -= 1;
                let record = Record { seq: 0, over, body };
                self.ghosts.push(Ghost {
                    key,
                    expected,
                    record,
                });
                None
            }
        }
    }

    /// What must hold and does not.
    pub fn violation(&self, bounds: &Bounds) -> Option<&'static str> {
        let terms = |unit: usize| -> usize {
            let runs = |member: &&Member| member.is_valid() && member.term[unit].is_some();
            self.members.iter().filter(runs).count()
        };
        let owners: Vec<usize> = (0..bounds.units()).map(terms).collect();
        if owners.iter().any(|owners| *owners > 1) {
            return Some("one owner");
        }
        if bounds.growing && owners.iter().sum::<usize>() > 1 {
            return Some("one generation");
        }
        self.broken
    }

    /// Whether, once nothing goes wrong any more, the keys have an owner within some leases.
    pub fn recovers(&self, bounds: &Bounds) -> bool {
        let mut state = self.clone();
        state.ghosts.clear();
        state.left.gives = u8::MAX;
        state.left.claims = u8::try_from(usize::from(STRANGER) - state.claimant.len()).unwrap_or(0);
        let mut room = state.left.claims;
        for _ in 0..8 * LEASE {
            for slot in 0..state.members.len() {
                if !state.members[slot].alive {
                    continue;
                }
                state.look(slot, None);
                if state.members[slot].begun && !state.members[slot].is_valid() {
                    state.retire(slot, Fate::Answered);
                }
                if state.members[slot].epoch.is_none() {
                    if room == 0 {
                        continue;
                    }
                    room -= 1;
                    state.claim(slot, Fate::Answered, None);
                } else {
                    state.take(Action::Beat(slot, Fate::Answered), None);
                }
                state.look(slot, None);
                for _ in 0..4 {
                    if let Some(action) = state.duty(slot, bounds) {
                        state.take(action, None);
                    }
                }
            }
            state.tick(None);
        }
        let led = |unit: usize| {
            state
                .members
                .iter()
                .any(|it| it.is_valid() && it.term[unit].is_some())
        };
        let claimless = !state.members.iter().any(Member::is_valid);
        claimless || led(0) || bounds.growing && led(1)
    }

    /// One thing that the member must do to have units owned.
    fn duty(&self, slot: usize, bounds: &Bounds) -> Option<Action> {
        let fates = ANSWERED;
        let mut all = Vec::new();
        self.of_member(slot, bounds, None, &fates, &mut all);
        let rank = |action: &Action| match action {
            Action::Depose(..) => Some(0),
            Action::Create(..) => Some(1),
            Action::Make(..) | Action::Begin(..) => Some(2),
            Action::Take(..) => Some(3),
            // The next term of an owner.
            Action::Give(_, unit, Some(to), _) => {
                let member = &self.members[slot];
                let record = member.record(unit_key(*unit));
                let ended = record.is_some_and(|record| record.seq <= member.ended[*unit]);
                (ended && member.epoch == Some(*to) && member.is_valid()).then_some(4)
            }
            _ => None,
        };
        all.into_iter()
            .filter(|action| rank(action).is_some())
            .min_by_key(|it| rank(it))
    }
}
