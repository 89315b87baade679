//! What the group's map says, beside the settings of this instance.

use super::GroupState;
use crate::clock;
use nats_elect_core::assignment::{Map, Units};
use nats_elect_core::name::UnitName;

/// The kind of a group's units, in words.
const fn kind(units: &Units) -> &'static str {
    match units {
        Units::Shards(_) => "shards",
        Units::Names(_) => "named units",
    }
}

impl GroupState {
    /// Logs where the settings differ from the group, once for each difference.
    pub(super) fn log_difference(&mut self) {
        let is_strange = self.member.is_strange();
        let sequence = self.shown.as_ref().map_or(0, |map| map.sequence());
        if self.compared == (sequence, is_strange) {
            return;
        }
        let difference = if is_strange {
            Some(self.strange())
        } else {
            self.shown.as_ref().and_then(|map| self.difference(map))
        };
        if let Some(text) = difference
            .as_ref()
            .filter(|it| self.differs.as_ref() != Some(it))
        {
            // Somebody who writes maps on and on does not fill the log.
            let logged = &mut self.trouble.logged;
            if logged.is_due("settings", clock::now()).is_none() {
                return;
            }
            tracing::warn!(group = %self.scope.name, "{text}");
        }
        self.differs = difference;
        self.compared = (sequence, is_strange);
    }

    fn strange(&self) -> String {
        let wants = kind(&self.scope.units);
        let has = match self.other_kind {
            Some(has) => format!(
                "the group has {has}, and the settings have {wants}. Give one of the two another name"
            ),
            None => "its map is of a later version of this library".into(),
        };
        format!("this instance owns nothing of the group: {has}")
    }

    fn difference(&self, map: &Map) -> Option<String> {
        let group = &self.scope.name;
        match (&self.scope.units, map.units()) {
            (Units::Shards(wanted), Units::Shards(shards)) => (wanted != shards).then(|| {
                format!(
                    "the group has {shards} shards, and the settings have {wanted}: this instance takes part with {shards}. To change the group, run `nats-elect group grow {group} {wanted}`; or else correct the settings"
                )
            }),
            (Units::Names(names), Units::Names(all)) => {
                let own = self.member.epoch();
                let owned = (0..).zip(all).filter(|(place, _)| {
                    let owner = map.owner(*place);
                    owner.is_some() && owner != own
                });
                let others = owned.map(|(_, name)| name);
                let others = others.filter(|name| !names.contains(name));
                let others: Vec<_> = others.map(UnitName::as_str).collect();
                (!others.is_empty()).then(|| {
                    format!(
                        "other instances own units of the group that the settings do not name: {}. This instance leaves them to those. Give all instances the same units",
                        others.join(", ")
                    )
                })
            }
            _ => None,
        }
    }

    /// Notes the kind of a map that this member may not follow.
    pub(super) fn note_kind(&mut self, map: Option<&Map>) {
        self.other_kind = map.map(|map| kind(map.units()));
    }
}
