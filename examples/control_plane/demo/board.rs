//! The leaders of this moment, as the instances tell it.

use nats_elect::FencingToken;

use super::history::{Event, History, Record};
use crate::app::Role;

/// One role's leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lead {
    pub instance: String,
    pub pid: u32,
    pub fencing_token: FencingToken,
}

/// All that is known so far.
#[derive(Debug, Default)]
pub struct Board {
    pub history: History,
    pub leads: [Option<Lead>; 3],
}

impl Board {
    /// Takes note of a new record.
    pub fn add(&mut self, record: Record) {
        match record.event {
            Event::Leading {
                role,
                fencing_token,
            } => {
                self.leads[role as usize] = Some(Lead {
                    instance: record.instance.clone(),
                    pid: record.pid,
                    fencing_token,
                });
            }
            Event::Ended { role, .. } => {
                self.leads[role as usize].take_if(|lead| lead.pid == record.pid);
            }
            _ => {}
        }
        self.history.0.push(record);
    }

    /// A process is gone, and could not tell.
    pub fn died(&mut self, pid: u32) {
        for lead in &mut self.leads {
            lead.take_if(|lead| lead.pid == pid);
        }
    }

    /// The process that leads the most roles, and which.
    pub fn busiest(&self) -> Option<(Lead, Vec<Role>)> {
        let led_by = |pid| {
            Role::ALL.into_iter().filter(move |role| {
                self.leads[*role as usize]
                    .as_ref()
                    .is_some_and(|lead| lead.pid == pid)
            })
        };
        let busiest = self
            .leads
            .iter()
            .flatten()
            .max_by_key(|lead| led_by(lead.pid).count())?;
        Some((busiest.clone(), led_by(busiest.pid).collect()))
    }

    /// Whether every role is led, and by none of the process `pid`.
    pub fn all_led_without(&self, pid: u32) -> bool {
        self.leads
            .iter()
            .all(|lead| lead.as_ref().is_some_and(|lead| lead.pid != pid))
    }
}
