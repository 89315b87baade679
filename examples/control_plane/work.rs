//! The three roles, and the small work that each does while it leads.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nats_elect::{BoxError, FencingToken, LeaderInfo, RoleHandler, Term};
use serde::{Deserialize, Serialize};

use crate::args::Sabotage;
use crate::clock::Moment;
use crate::history::{What, Writer};
use crate::screen;

/// The roles of this control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Assigns jobs to workers.
    Scheduler,
    /// Allocates addresses.
    Network,
    /// Aggregates counts.
    Metrics,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Scheduler, Self::Network, Self::Metrics];

    /// The name under which it is elected.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduler => "scheduler",
            Self::Network => "network",
            Self::Metrics => "metrics",
        }
    }

    /// How long one piece of its work takes.
    const fn effort(self) -> Duration {
        Duration::from_millis(match self {
            Self::Scheduler => 20,
            Self::Network => 30,
            Self::Metrics => 50,
        })
    }

    /// The result of the term's `n`th piece of work.
    fn result(self, token: FencingToken, n: u64) -> String {
        // Numbers that begin with the token are unique across all terms, without asking anyone.
        let number = format!("{}/{n}", short(token));
        match self {
            Self::Scheduler => format!("job {number} to worker-{}", n % 4 + 1),
            Self::Network => format!("10.0.{}.{} as lease {number}", n / 250 % 250, n % 250 + 2),
            Self::Metrics => format!("round {number}: {} samples", 40 + n * 7 % 13),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The last digits of a fencing token: enough to tell the terms of one story apart.
pub fn short(token: FencingToken) -> String {
    format!("#{:05}", token.sequence % 100_000)
}

/// The handler of one role.
pub struct Worker {
    pub role: Role,
    pub history: Arc<Writer>,
    /// Tell people about it, on standard output.
    pub talks: bool,
    pub sabotage: Option<Sabotage>,
}

impl RoleHandler for Worker {
    async fn lead(&self, term: Term) -> Result<(), BoxError> {
        let role = self.role;
        let fencing_token = self.token_of(&term);
        self.history.write(What::Leading {
            role,
            fencing_token,
        });
        self.tell(&format!("leads {role} with token {fencing_token}"));
        let mut n = 0;
        while !term.is_cancelled() {
            n += 1;
            let start = Moment::now();
            // Dropped half-way when the term is wound down: the time until then counts as work all the same.
            term.run_until_cancelled(tokio::time::sleep(role.effort()))
                .await;
            self.history.write(What::Work {
                role,
                fencing_token,
                start,
                end: Moment::now(),
                result: role.result(fencing_token, n),
            });
        }
        self.history.write(What::Ended {
            role,
            fencing_token,
        });
        self.tell(&format!("no longer leads {role}, after {n} pieces of work"));
        if self.sabotage == Some(Sabotage::Overlap) {
            self.work_on(fencing_token);
        }
        Ok(())
    }

    async fn on_leader_change(&self, leader: Option<LeaderInfo>) {
        let role = self.role;
        if let Some(leader) = leader.as_ref().filter(|leader| !leader.is_self) {
            self.tell(&format!("sees {} lead {role}", leader.instance_id));
        }
        let leader = leader.map(|leader| leader.instance_id);
        self.history.write(What::Sees { role, leader });
    }
}

impl Worker {
    fn tell(&self, what: &str) {
        if self.talks {
            screen::say(what);
        }
    }

    fn token_of(&self, term: &Term) -> FencingToken {
        let token = term.fencing_token();
        if self.sabotage == Some(Sabotage::Token) {
            return FencingToken {
                epoch: token.epoch,
                sequence: u64::MAX - token.sequence,
            };
        }
        token
    }

    /// Sabotage: what an application does that spawns its work and forgets about it.
    fn work_on(&self, fencing_token: FencingToken) {
        let (role, history) = (self.role, Arc::clone(&self.history));
        tokio::spawn(async move {
            for n in 0..200 {
                let start = Moment::now();
                tokio::time::sleep(role.effort()).await;
                history.write(What::Work {
                    role,
                    fencing_token,
                    start,
                    end: Moment::now(),
                    result: role.result(fencing_token, n),
                });
            }
        });
    }
}
