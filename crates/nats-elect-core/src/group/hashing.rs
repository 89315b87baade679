//! Feeds a hasher with the state of a member. It is for model checkers alone: no rule uses it.
//!
//! Each `hash_state` names all fields of its type. So a new field asks here whether it decides
//! anything. It does not matter how long a thing has been due or over.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use super::agenda::Agenda;
use super::failures::Failures;
use super::key::{GroupKey, UnitKey};
use super::lease::Lease;
use super::machine::Group;
use super::planner::{Advice, Planning};
use super::view::{Member, SeenGroup, Unit, View};
use crate::moment::Moment;

impl Group {
    /// Feeds a hasher everything that decides what this machine does from `now` on.
    ///
    /// Two machines with the same settings that feed the same, up to a shift of time, behave the
    /// same. It is for model checkers, which must tell new situations from known ones.
    pub fn hash_state(&self, now: Moment, hasher: &mut impl Hasher) {
        let Self {
            settings,
            view,
            lease,
            tenures,
            ended: _,
            lost,
            past,
            begun,
            hints,
            plans,
            advice,
            free_since,
            failures,
            agenda,
            sent,
            // The keys of what was sent.
            busy: _,
            refused,
            shown_at,
            rewatched,
            awaits_watch,
            draining,
            // It only needs to be greater than the ones in use.
            last_op: _,
            // Set at the beginning of each step, or empty at its end.
            now: _,
            out: _,
        } = self;
        view.hash_state(now, hasher);
        (lease, tenures, lost, past, begun, hints, draining).hash(hasher);
        self.hash_ended(hasher);
        for (group, planning) in plans {
            group.hash(hasher);
            planning.hash_state(now, self.tells_load(group), hasher);
        }
        let recent = now - settings.heartbeat;
        for (group, advice) in advice {
            let Advice {
                at,
                heirs,
                withheld,
            } = advice;
            // An older plan is made anew, but for the one by which a member leaves.
            if *at >= recent || *draining {
                (group, at, heirs, withheld).hash(hasher);
            }
        }
        failures.hash_state(now, hasher);
        self.hash_since(free_since, now, hasher);
        self.hash_since(refused, now, hasher);
        let Agenda { by_time, times: _ } = agenda;
        by_time.hash(hasher);
        for write in sent.values() {
            write.hash(hasher);
        }
        let begins = *awaits_watch || view.looks_back;
        let counts =
            |at: &Moment| begins || refused.values().any(|(_, since)| since < at) || *at > recent;
        (awaits_watch, rewatched.filter(counts)).hash(hasher);
        let unshown = lease.as_ref().and_then(Lease::unshown);
        let comes = unshown.is_some_and(|(sequence, _)| !view.has_shown(sequence));
        comes.then_some((*shown_at).max(recent)).hash(hasher);
    }

    /// Terms have ended up to a record that is not there any more: that says nothing of later ones.
    fn hash_ended(&self, hasher: &mut impl Hasher) {
        let counts = |(unit, ended): &(&UnitKey, &u64)| {
            let seen = self.view.unit(unit);
            seen.is_some_and(|seen| (1..=**ended).contains(&seen.sequence))
        };
        for (unit, _) in self.ended.iter().filter(counts) {
            unit.hash(hasher);
        }
    }

    /// Since when something is so of what stands at a sequence. The turns of all members are over
    /// some time, and so is the patience with a refusal, and with a handler that does not end. An
    /// entry about another sequence than the one that stands there does not count any more.
    fn hash_since(
        &self,
        entries: &BTreeMap<GroupKey, (u64, Moment)>,
        now: Moment,
        hasher: &mut impl Hasher,
    ) {
        let members = u32::try_from(self.view.members.len()).unwrap_or(u32::MAX);
        let all_turns = self.settings.heartbeat * members.saturating_add(1);
        let longest = all_turns.max(self.settings.stop_budget);
        for (key, (sequence, since)) in entries {
            let stands = match key {
                GroupKey::Member(epoch) => self.view.member(*epoch).map(|it| it.sequence),
                GroupKey::Group(name) => self.view.group(name).map(|it| it.sequence),
                GroupKey::Unit(unit) => self.view.unit(unit).map(|it| it.sequence),
            };
            if stands.unwrap_or(0) == *sequence {
                (key, (*since).max(now - longest)).hash(hasher);
            }
        }
    }
}

impl Planning {
    fn hash_state(&self, now: Moment, loads: bool, hasher: &mut impl Hasher) {
        let Self {
            round,
            hinted,
            rests_until,
            weights,
            weigh_at,
            // It is told only.
            imbalance: _,
        } = self;
        round.hash(hasher);
        for under_way in hinted.iter().filter(|(_, hinted)| now < hinted.until) {
            under_way.hash(hasher);
        }
        (*rests_until).max(now).hash(hasher);
        // While no member ever told a load, all units weigh the same whenever they are weighed.
        let weighs = loads || !weights.is_empty();
        (weights, weighs.then(|| (*weigh_at).max(now))).hash(hasher);
    }
}

impl Failures {
    fn hash_state(&self, now: Moment, hasher: &mut impl Hasher) {
        for (unit, in_a_row, until) in self.counting(now) {
            (unit, in_a_row, until).hash(hasher);
        }
    }
}

impl View {
    fn hash_state(&self, now: Moment, hasher: &mut impl Hasher) {
        let Self {
            members,
            units,
            // Follows from the units.
            owned: _,
            groups,
            known,
            shards,
            watch,
            caught_up,
            joined,
            last,
            last_before,
            found_until,
            awaited,
            unknown_until,
            looks_back,
            behind,
            contradicts,
            regressed_until,
            earlier,
        } = self;
        for (epoch, member) in members {
            epoch.hash(hasher);
            member.hash_state(now, *watch, hasher);
        }
        for (key, unit) in units {
            key.hash(hasher);
            unit.hash_state(now, *watch, !*caught_up || !awaited.is_empty(), hasher);
        }
        for (name, group) in groups {
            name.hash(hasher);
            group.hash_state(*watch, hasher);
        }
        (known, shards, caught_up, joined, last, earlier).hash(hasher);
        let until = regressed_until.map(|until| until.max(now));
        let unknown_until = (*unknown_until).max(now);
        ((*found_until).max(now), until, awaited, unknown_until).hash(hasher);
        // The next watch sets them anew.
        let present = (last_before, behind, contradicts);
        looks_back.then_some(present).hash(hasher);
    }
}

impl Member {
    fn hash_state(&self, now: Moment, present: u64, hasher: &mut impl Hasher) {
        let Self {
            sequence,
            identity,
            // It is told only.
            id: _,
            info,
            made,
            since,
            flapped,
            deposed,
            lacked,
            over_at,
            watch,
        } = self;
        // The name of the epoch proves the rest of it.
        (sequence, identity.is_some(), info, deposed).hash(hasher);
        (now < *over_at).then_some(made).hash(hasher);
        let well = (info.is_some() || lacked.is_some()).then_some((since, flapped));
        let lacked = lacked.map(|(sequence, until)| (sequence, until.max(now)));
        lacked.hash(hasher);
        (well, (*over_at).max(now), *watch == present).hash(hasher);
    }
}

impl Unit {
    fn hash_state(&self, now: Moment, present: u64, joins: bool, hasher: &mut impl Hasher) {
        let Self {
            sequence,
            known,
            quiet_until,
            unproved,
            lacked,
            newborn,
            was_found,
            watch,
        } = self;
        (sequence, known, (*quiet_until).max(now), unproved, newborn).hash(hasher);
        lacked.hash(hasher);
        // It counts while this member joins.
        (*was_found && joins, *watch == present).hash(hasher);
    }
}

impl SeenGroup {
    fn hash_state(&self, present: u64, hasher: &mut impl Hasher) {
        let Self {
            sequence,
            record,
            since,
            is_behind,
            began,
            watch,
        } = self;
        (sequence, record, since).hash(hasher);
        (is_behind, began, *watch == present).hash(hasher);
    }
}
