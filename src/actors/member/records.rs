//! What the groups' records say, beside the settings of this instance.

use std::sync::Arc;

use super::MemberState;
use crate::clock;
use crate::role::{Board, GroupScope};
use nats_elect_core::group::{GroupRecord, UnitState, Units};

impl MemberState {
    /// Enters the records of the groups on their boards, and logs where the settings say otherwise.
    pub(super) fn show_records(&mut self) {
        if self.forget.is_some() || !self.group.has_caught_up() {
            return;
        }
        for name in std::mem::take(&mut self.told) {
            let Some(scope) = self.groups.get(&name).map(Arc::clone) else {
                continue;
            };
            let misfit = self.group.misfit(&name);
            let Some(record) = misfit.or_else(|| self.group.record(&name)) else {
                continue;
            };
            if misfit.is_none() {
                self.show_record(&scope, record);
            }
            let Some(difference) = self.difference(&scope, record) else {
                self.differs.remove(&name);
                continue;
            };
            if self.differs.get(&name) == Some(&difference) {
                continue;
            }
            // A stranger that writes records on and on does not fill the log.
            let trouble = format!("settings of group {name}");
            if self.logged.is_due(&trouble, clock::now()).is_some() {
                tracing::warn!(group = %name, "{difference}");
                self.differs.insert(name, difference);
            } else {
                self.told.insert(name);
            }
        }
    }

    fn show_record(&mut self, scope: &GroupScope, record: GroupRecord) {
        let now = (record.shards(), record.generation);
        let before = scope.read(|board| (board.shards, board.generation));
        if now == before {
            return;
        }
        self.meter.unit_changed();
        let enter = |board: &mut Board| {
            board.units.clear();
            (board.shards, board.generation) = now;
        };
        if before.1 == 0 {
            scope.write(enter);
        } else {
            scope.reset(enter);
        }
        // Some may have been shown before the record.
        let units = self.group.owners(&scope.name);
        let units = units.filter(|unit| unit.key.generation == record.generation);
        self.touched.extend(units.map(|unit| unit.key.clone()));
    }

    /// In what the settings differ from the group as it is, and what to do about it.
    fn difference(&self, scope: &GroupScope, record: GroupRecord) -> Option<String> {
        match (&scope.units, record.shards()) {
            (Units::Shards(wanted), Some(shards)) => (*wanted != shards).then(|| {
                format!(
                    "the group has {shards} shards, and the settings have {wanted}: this instance takes part with {shards}. To change the group, run `nats-elect group grow {} {wanted}`; or else correct the settings",
                    scope.name
                )
            }),
            (Units::Named(names), None) => {
                let own = self.group.own_epoch();
                let units = self.group.owners(&scope.name);
                let elsewhere = units.filter(|unit| {
                    let is_owned = unit.state == UnitState::Owned && unit.owner != own;
                    is_owned && !names.contains(&unit.key.unit)
                });
                let units: Vec<_> = elsewhere.map(|unit| unit.key.unit.as_str()).collect();
                (!units.is_empty()).then(|| {
                    format!(
                        "other instances own units of the group that the settings do not name: {}. This instance leaves them to those. Give all instances the same units",
                        units.join(", ")
                    )
                })
            }
            (units, _) => {
                let (has, wants) = match units {
                    Units::Named(_) => ("shards", "named units"),
                    Units::Shards(_) => ("named units", "shards"),
                };
                Some(format!(
                    "this instance owns nothing of the group: the group has {has}, and the settings have {wants}. Give one of the two another name"
                ))
            }
        }
    }
}
