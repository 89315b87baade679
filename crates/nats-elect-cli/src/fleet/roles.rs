//! Roles, their leaders, and how they change.

use std::collections::BTreeMap;
use std::time::Duration;

use nats_elect::{ChangeCause, LeaderInfo, Observed, RoleChange, Standing};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use super::{Seconds, Time, Token, Whole};

#[derive(Clone, Serialize, JsonSchema)]
pub struct Leader {
    /// Empty if its record tells none
    pub instance_id: String,
    /// The start of that instance. Records of other libraries have none
    pub incarnation: Option<Uuid>,
    pub priority: Whole,
    /// What it tells about itself
    pub meta: BTreeMap<String, String>,
    /// The key that signed for it, if keys are trusted
    pub signer: Option<String>,
}

impl From<&LeaderInfo> for Leader {
    fn from(leader: &LeaderInfo) -> Self {
        Self {
            instance_id: leader.instance_id.clone(),
            incarnation: leader.incarnation,
            priority: leader.priority.into(),
            meta: leader.meta.clone(),
            signer: leader.signer.clone(),
        }
    }
}

#[derive(Clone, Serialize, JsonSchema)]
pub struct Role {
    pub role: String,
    #[schemars(with = "String", extend("enum" = Standing::ALL))]
    pub standing: Standing,
    pub leader: Option<Leader>,
    /// Whether the leader was seen alive while this process was watching
    pub confirmed: bool,
    /// When the term began, by the server's clock
    pub since: Option<Time>,
    pub ttl_seconds: Option<Seconds>,
    /// Time since the last record of the leader was received here
    pub age_seconds: Option<Seconds>,
    /// Time until the lease has passed as seen from here, if no heartbeat comes
    pub remaining_seconds: Option<Seconds>,
    pub fencing_token: Option<Token>,
    pub revision: Option<Whole>,
    /// Whether its record can be understood
    pub readable: bool,
    /// Why its record is not trusted, if keys are
    pub distrust: Option<&'static str>,
    pub last_leader: Option<Leader>,
    /// For how long the leader has led, or has been seen to.
    #[serde(skip)]
    pub led_for: Option<Duration>,
}

/// How soon somebody has to look after a role or a group: the most urgent ones come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nobody leads the role; a unit has no owner.
    Bad,
    /// There may be a leader, or an owner, that was not seen alive.
    Doubtful,
    Good,
}

impl Role {
    pub fn of(role: &str, seen: &Observed) -> Self {
        Self {
            role: role.to_owned(),
            standing: seen.standing,
            leader: seen.leader.as_ref().map(Into::into),
            confirmed: seen.confirmed,
            since: seen.since_at.map(Into::into),
            ttl_seconds: seen.ttl.map(Seconds),
            age_seconds: seen.age.map(Seconds),
            remaining_seconds: seen.remaining.map(Seconds),
            fencing_token: seen.fencing_token.map(Token),
            revision: seen.revision.map(Into::into),
            readable: !seen.opaque,
            distrust: seen.distrust.map(nats_elect::Distrust::as_str),
            last_leader: seen.last_leader.as_ref().map(Into::into),
            led_for: seen.since,
        }
    }

    pub fn urgency(&self) -> Urgency {
        let is_left = self.remaining_seconds.is_some_and(|it| !it.0.is_zero());
        match self.standing {
            Standing::Led if self.confirmed && is_left => Urgency::Good,
            Standing::Led | Standing::Unknown => Urgency::Doubtful,
            _ => Urgency::Bad,
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub struct Change {
    #[schemars(extend("const" = "change"))]
    event: &'static str,
    at: Time,
    role: String,
    from: Option<Leader>,
    to: Option<Leader>,
    #[schemars(with = "String", extend("enum" = Standing::ALL))]
    standing: Standing,
    #[schemars(with = "String", extend("enum" = ChangeCause::ALL))]
    cause: ChangeCause,
    /// For a new leader: time from the last sign of the one before to the claim, if both were
    /// received as they came
    silence_seconds: Option<Seconds>,
}

impl From<&RoleChange> for Change {
    fn from(change: &RoleChange) -> Self {
        Self {
            event: "change",
            at: change.at.into(),
            role: change.role.clone(),
            from: change.from.as_ref().map(Into::into),
            to: change.to.as_ref().map(Into::into),
            standing: change.standing,
            cause: change.cause,
            silence_seconds: change.silence.map(Seconds),
        }
    }
}
