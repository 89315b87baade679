//! What became of a term that was ended on purpose.

use std::time::Duration;

use nats_elect::admin::{AdminClient, Instance, LeaderFound, RoleReport};
use nats_elect::{FencingToken, Handoff, SteppedDown};
use serde::Serialize;
use tokio::time::{sleep, timeout};

use crate::instances::named;
use crate::text::lasted;

/// Between two looks for a leader, where nobody is there to wait for.
const LOOK: Duration = Duration::from_millis(200);
/// So many times only the heir is asked. It has claimed the role, and begins to lead in a moment.
const LOOKS: usize = 10;

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

    /// No term has ended: that instance leads on.
    pub fn none(role: &str, leader: LeaderFound) -> Self {
        Self {
            role: role.to_owned(),
            released: false,
            handoff: None,
            leader: Some(leader.into()),
            runs_out: None,
        }
    }

    /// Waits for the leader of a later term, for so long beside what is left of a lease that was not
    /// freed. An heir that accepted the role is known: nobody else is searched for at first.
    pub async fn wait(
        &mut self,
        admin: &AdminClient,
        term: Option<FencingToken>,
        heirs: &[Instance],
        patience: Duration,
    ) {
        let accepted = self.handoff == Some(Handoff::Accepted);
        let heirs = if accepted { heirs } else { &[] };
        let within = patience + self.runs_out.unwrap_or_default();
        let next = timeout(within, next_leader(admin, &self.role, term, heirs));
        self.leader = next.await.ok().map(Leads::from);
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
        let role = &self.role;
        let leader = self.leader.as_ref().map(|it| &it.instance);
        let now = leader.map(|it| format!("{it} leads now"));
        match (self.handoff, now) {
            (Some(Handoff::Accepted), Some(now)) => format!("{role}: {from} handed it over, {now}"),
            (Some(Handoff::Accepted), None) => format!(
                "{role}: {from} handed it over, and its heir claimed it; no instance that answers leads it now"
            ),
            (Some(Handoff::TakenByAnother), now) => format!(
                "{role}: {from} freed it for its heir, but another instance claimed it first: {}",
                now.unwrap_or_else(|| "it does not answer".into())
            ),
            (Some(Handoff::TimedOut), now) => format!(
                "{role}: {from} freed it for its heir, but the heir did not claim it in time; {}",
                now.unwrap_or_else(|| "no instance leads yet".into())
            ),
            _ if self.is_led_again(from) => format!(
                "{role}: {from} ended its term, but no other instance claimed the role, and it leads again"
            ),
            (_, Some(now)) if self.released => format!("{role}: {from} freed it, {now}"),
            (_, None) if self.released => {
                format!("{role}: {from} freed it; no instance that answers has claimed it yet")
            }
            (_, Some(now)) => {
                format!("{role}: {from} no longer leads but could not free it; {now}")
            }
            (_, None) => format!(
                "{role}: {from} no longer leads, but could not free it: nobody can claim it before its lease is over, {} at most",
                self.runs_out.map_or("a ttl".into(), lasted)
            ),
        }
    }
}

/// Who leads within that time.
pub async fn new_leader(admin: &AdminClient, role: &str, within: Duration) -> Option<Leads> {
    let found = timeout(within, next_leader(admin, role, None, &[])).await;
    found.ok().map(Leads::from)
}

/// Asks who leads until it is somebody in a later term than that one.
async fn next_leader(
    admin: &AdminClient,
    role: &str,
    after: Option<FencingToken>,
    heirs: &[Instance],
) -> LeaderFound {
    let mut looks = 0;
    loop {
        let mut found = None;
        for heir in heirs {
            if let Ok(report) = admin.status_of(heir, role).await {
                found = found.or(LeaderFound::of(heir, role, &report));
            }
        }
        if found.is_none() && (heirs.is_empty() || looks >= LOOKS) {
            found = admin.leader(role, Duration::from_secs(2)).await.ok();
        }
        match found {
            Some(leader) if Some(leader.fencing_token) > after => return leader,
            _ => sleep(LOOK).await,
        }
        looks += 1;
    }
}
