//! The effects of broken rules that need more than a changed condition.

use std::collections::BTreeMap;
use std::time::Duration;

use super::effect::Effect;
use super::input::{Input, Snapshot};
use super::phase::Phase;
use super::scene::Scene;
use crate::moment::Moment;
use crate::mutation::Mutation;
use crate::record::{Content, Entry};

impl Phase {
    /// Extends the lease without any proof.
    pub fn extend_unproved(mut self, at: &mut Scene) -> Self {
        let (now, lease) = (at.now, at.lease_until(at.now));
        if let Self::Leading(leadership) = &mut self {
            let held = &mut leadership.held;
            held.extend(held.revision, now, lease, now + at.settings.heartbeat);
            at.emit_before_events(Effect::Extend {
                term: held.term,
                lease,
                acting: Some(lease),
                proved: now,
            });
        }
        self
    }

    /// Whether a read shows a message where the last confirmed record was stored.
    pub fn shows_held(&self, snapshot: &Snapshot) -> bool {
        let shown = snapshot.role.as_ref().map(|entry| entry.revision);
        shown.is_some() && shown == self.held().map(|held| held.revision)
    }
}

impl Scene {
    /// Changes records of the own id into records of the own incarnation.
    pub fn disguise(&self, mut input: Input) -> Input {
        let seen = match &mut input {
            Input::Observed(entry) => Some(entry),
            Input::ReadEnded {
                outcome: Ok(snapshot),
                ..
            } => snapshot.role.as_mut(),
            _ => None,
        };
        if Mutation::OwnIdIsOwn.is_on()
            && let Some(Entry {
                content: Content::Record(record),
                ..
            }) = seen
            && record.id == self.candidate.instance_id
        {
            record.incarnation = Some(self.candidate.incarnation);
        }
        input
    }

    /// The record's metadata, with the time on its writer's clock.
    pub fn stamped_meta(&self) -> BTreeMap<String, String> {
        let mut meta = self.settings.meta.clone();
        if Mutation::CountFromTimestamp.is_on() {
            meta.insert("at".to_owned(), self.now.as_nanos().to_string());
        }
        meta
    }
}

/// When the observed role is free, by a broken rule.
pub(super) fn free_at(entry: Option<&Entry>, now: Moment, wait: Duration) -> Option<Moment> {
    let content = entry.map(|entry| &entry.content);
    let freed = match content {
        None => Mutation::MissingIsFree.is_on() || Mutation::TrustServerExpiry.is_on(),
        Some(Content::ForeignMarker) => {
            Mutation::MarkerIsRelease.is_on() || Mutation::TrustServerExpiry.is_on()
        }
        Some(Content::Record(record))
            if Mutation::StrangerEndsLease.is_on() && record.incarnation.is_none() =>
        {
            return Some(now + record.ttl.unwrap_or(wait));
        }
        Some(Content::Record(record)) if Mutation::CountFromTimestamp.is_on() => {
            let nanos = record.meta.get("at")?.parse().ok()?;
            return Some(Moment::from_nanos(nanos) + wait);
        }
        _ => false,
    };
    freed.then_some(now)
}
