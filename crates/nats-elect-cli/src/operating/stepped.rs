//! What became of a term that was ended on purpose.

use std::time::Duration;

use nats_elect::admin::{AdminClient, Instance, LeaderFound, RoleReport};
use nats_elect::{FencingToken, Handoff, StepDown, SteppedDown};
use serde::Serialize;
use tokio::time::{sleep, timeout};

use crate::instances::named;
use crate::text::lasted;

/// Between two looks for a leader, where nobody is there to wait for.
const LOOK: Duration = Duration::from_millis(200);
/// A term that has ended, and who leads instead.
#[derive(Serialize)]
pub struct Stepped {
    #[serde(skip)]
    pub role: String,
    pub released: bool,
    pub handoff: Option<Handoff>,
    /// Who leads now, as that instance says.
    pub leader: Option<Leads>,
    /// The lease that was not freed is over after that long at most.
    #[serde(skip)]
    runs_out: Option<Duration>,
}

/// An instance and its term.
#[derive(Serialize)]
pub struct Leads {
    #[serde(flatten, serialize_with = "named")]
    pub instance: Instance,
    fencing_token: FencingToken,
}

impl From<LeaderFound> for Leads {
    fn from(leader: LeaderFound) -> Self {
        Self {
            instance: leader.instance,
            fencing_token: leader.fencing_token,
        }
    }
}

impl Stepped {
    /// By the report of the instance that led.
    pub fn of(role: &str, ended: SteppedDown, report: Option<&RoleReport>) -> Self {
        Self {
            role: role.to_owned(),
            released: ended.released,
            handoff: ended.handoff,
            leader: None,
            runs_out: report.map(|it| it.ttl).filter(|_| !ended.released),
        }
    }

    /// Waits for the leader of a later term, for so long beside what is left of a lease that was not
    /// freed.
    pub async fn wait(
        &mut self,
        admin: &AdminClient,
        term: Option<FencingToken>,
        patience: Duration,
    ) {
        let within = patience + self.runs_out.unwrap_or_default();
        self.leader = next_leader(admin, &self.role, term, within).await;
    }

    /// Whether somebody leads, or can.
    pub const fn is_done(&self) -> bool {
        self.released || self.leader.is_some()
    }

    /// Whether whoever ended its term leads in another one: nobody else stood in time.
    pub fn is_led_again(&self, by: &Instance) -> bool {
        self.leader.as_ref().is_some_and(|it| it.instance == *by)
    }

    /// In words; `from` led before.
    pub fn words(&self, from: &Instance) -> String {
        let ended = match self.handoff {
            Some(Handoff::Accepted) => "handed it over",
            Some(Handoff::TakenByAnother) => {
                "freed it for its heir, but another instance claimed it first"
            }
            Some(Handoff::TimedOut) => {
                "freed it for its heir, but the heir did not claim it in time"
            }
            _ if self.is_led_again(from) => {
                "ended its term, but no other instance claimed the role"
            }
            _ if self.released => "freed it",
            _ => "no longer leads, but could not free it",
        };
        let now = match &self.leader {
            Some(_) if self.is_led_again(from) => "it leads again".into(),
            Some(leader) => format!("{} leads now", leader.instance),
            None if self.released => "no instance that answers has claimed it yet".into(),
            None => format!(
                "nobody can claim it before its lease is over, {} at most",
                self.runs_out.map_or("a ttl".into(), lasted)
            ),
        };
        format!("{}: {from} {ended}, {now}", self.role)
    }
}

/// How a leader is to step down.
pub fn how(to: Option<&str>, hold_off: Option<Duration>, term: Option<FencingToken>) -> StepDown {
    let mut how = to.map_or_else(StepDown::any, StepDown::to);
    if let Some(time) = hold_off {
        how = how.hold_off(time);
    }
    if let Some(token) = term {
        how = how.expecting(token);
    }
    how
}

/// Asks who leads, until it is somebody in a later term than that one, or the time is over.
pub async fn next_leader(
    admin: &AdminClient,
    role: &str,
    after: Option<FencingToken>,
    within: Duration,
) -> Option<Leads> {
    let asking = async {
        loop {
            match admin.leader(role, Duration::from_secs(2)).await {
                Ok(leader) if Some(leader.fencing_token) > after => return leader.into(),
                _ => sleep(LOOK).await,
            }
        }
    };
    timeout(within, asking).await.ok()
}
