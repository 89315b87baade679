//! What became of a term that was ended on purpose, in words and as JSON.

use std::time::Duration;

use nats_elect::admin::{AdminClient, Instance, LeaderFound, RoleReport};
use nats_elect::{FencingToken, Handoff, SteppedDown};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// Between two looks for a leader, where nobody is there to wait for.
const LOOK: Duration = Duration::from_millis(200);

/// A term that has ended, and who leads instead.
pub struct Stepped {
    pub role: String,
    pub ended: SteppedDown,
    /// Who leads now, as that instance says.
    pub leader: Option<LeaderFound>,
    /// The lease that was not freed is over after that long at most.
    pub runs_out: Option<Duration>,
}

impl Stepped {
    /// Waits for the next leader, for so long beside what is left of a lease that was not freed, by
    /// the report of the instance that led.
    pub async fn of(
        admin: &AdminClient,
        role: &str,
        ended: SteppedDown,
        report: Option<&RoleReport>,
        patience: Duration,
    ) -> Self {
        let lease = report.map(|it| it.ttl).filter(|_| !ended.released);
        let term = report.and_then(|it| it.fencing_token);
        let within = patience + lease.unwrap_or_default();
        let leader = timeout(within, next_leader(admin, role, term)).await.ok();
        Self {
            role: role.to_owned(),
            ended,
            leader,
            runs_out: lease,
        }
    }

    /// Whether somebody leads, or can.
    pub const fn is_done(&self) -> bool {
        self.ended.released || self.leader.is_some()
    }

    /// Whether whoever ended its term leads in another one: nobody else stood in time.
    pub fn is_led_again(&self, by: &Instance) -> bool {
        self.leader.as_ref().is_some_and(|it| it.instance == *by)
    }

    /// In words; `from` led before.
    pub fn words(&self, from: &str) -> String {
        let Self {
            role,
            ended,
            leader,
            runs_out,
        } = self;
        let now = leader.as_ref().map(|it| it.instance.to_string());
        match (ended.handoff, now) {
            (Some(Handoff::Accepted), Some(now)) => {
                format!("{role}: {from} handed it over, {now} leads now")
            }
            (Some(Handoff::Accepted), None) => {
                format!(
                    "{role}: {from} handed it over, and its heir claimed it; no instance that answers leads it now"
                )
            }
            (Some(Handoff::TakenByAnother), now) => format!(
                "{role}: {from} freed it for its heir, but another instance claimed it first: {}",
                now.map_or("it does not answer".into(), |now| format!(
                    "{now} leads now"
                ))
            ),
            (Some(Handoff::TimedOut), now) => format!(
                "{role}: {from} freed it for its heir, but the heir did not claim it in time; {}",
                now.map_or("no instance leads yet".into(), |now| format!(
                    "{now} leads now"
                ))
            ),
            (_, Some(now)) if now == from => {
                format!(
                    "{role}: {from} ended its term, but no other instance claimed the role, and it leads again"
                )
            }
            (_, Some(now)) if ended.released => {
                format!("{role}: {from} freed it, {now} leads now")
            }
            (_, None) if ended.released => {
                format!("{role}: {from} freed it; no instance that answers has claimed it yet")
            }
            (_, Some(now)) => {
                format!("{role}: {from} no longer leads but could not free it; {now} leads now")
            }
            (_, None) => format!(
                "{role}: {from} no longer leads, but could not free it: nobody can claim it before its lease is over, {} at most",
                runs_out.map_or("a ttl".into(), crate::text::lasted)
            ),
        }
    }

    pub fn json(&self) -> Value {
        json!({
            "released": self.ended.released,
            "handoff": self.ended.handoff,
            "leader": self.leader.as_ref().map(leader_json),
        })
    }
}

pub fn leader_json(leader: &LeaderFound) -> Value {
    json!({
        "instance_id": leader.instance.instance_id,
        "incarnation": leader.instance.incarnation,
        "fencing_token": leader.fencing_token,
    })
}

/// Who leads within that time.
pub async fn new_leader(admin: &AdminClient, role: &str, within: Duration) -> Option<LeaderFound> {
    timeout(within, next_leader(admin, role, None)).await.ok()
}

/// Asks who leads until it is somebody in a later term than that one.
async fn next_leader(admin: &AdminClient, role: &str, after: Option<FencingToken>) -> LeaderFound {
    loop {
        match admin.leader(role, Duration::from_secs(2)).await {
            Ok(leader) if Some(leader.fencing_token) > after => return leader,
            _ => sleep(LOOK).await,
        }
    }
}
