//! The roles, their settings and the conduct of the command, from the options, the environment and
//! the file.

use std::collections::BTreeSet;
use std::time::Duration;

use nats_elect::duration::exact;
use nats_elect::{Group, ManagerConfig, MemberConfig, RoleConfig, RoleManagerBuilder, Takeover};
use rustix::process::Signal;

use super::Exec;
use crate::exec::handler::{Conduct, RunCommand};
use crate::exec::signals::SIGNALS;
use crate::exit::Failure;
use crate::options::Shared;

/// Shorter ones leave no room for two who kill one after the other.
const LEAST_STOP_BUDGET: Duration = Duration::from_millis(100);

/// A role to stand for, or of which to have a slot.
pub(super) struct Role {
    pub name: String,
    pub config: RoleConfig,
    pub conduct: Conduct,
}

impl Role {
    /// Has the instance take part, in the election or in the group of the slots.
    pub fn begin(
        self,
        builder: RoleManagerBuilder,
        slots: Option<u16>,
        handler: RunCommand,
    ) -> RoleManagerBuilder {
        let Some(slots) = slots else {
            return builder.role(self.name, self.config, handler);
        };
        let group = Group::sharded(self.name, slots.into(), handler);
        builder.group(match self.config.data_limit {
            Some(limit) => group.data_limit(limit),
            None => group,
        })
    }
}

impl Exec {
    /// What to connect by, the roles, and their settings.
    pub(super) fn configuration(
        &self,
        shared: &Shared,
    ) -> Result<(ManagerConfig, Vec<Role>), Failure> {
        let mut names = self.roles.clone();
        let (mut manager, file) = self.instance.read(shared)?;
        manager.last_will.enabled |= self.last_will;
        let mut elections = file.unwrap_or_default();
        if let Some(path) = &self.instance.config {
            if names.is_empty() && elections.roles.len() == 1 {
                names.extend(elections.roles.keys().cloned());
            }
            if names.is_empty() {
                return Err(Failure::usage(format!(
                    "{} has {} roles: choose with --role",
                    path.display(),
                    elections.roles.len()
                )));
            }
            let unknown = names.iter().find(|it| !elections.roles.contains_key(*it));
            if let Some(role) = unknown {
                let what = format!("{} has no role {role:?}", path.display());
                return Err(Failure::usage(what));
            }
        }
        self.check(&names)?;
        elections.roles.retain(|name, _| names.contains(name));
        for name in &names {
            elections.roles.entry(name.clone()).or_default();
        }
        let mut configured = elections.with_env()?.roles;
        let mut roles = Vec::new();
        for name in names {
            let mut config = configured.remove(&name).unwrap_or_default();
            config.ttl = self.ttl.unwrap_or(config.ttl);
            config.priority = self.priority.unwrap_or(config.priority);
            config.takeover = self.takeover.unwrap_or(config.takeover);
            config.stop_budget = self.stop_budget.or(config.stop_budget);
            if self.slots.is_some() {
                manager.member = Self::slot_lease(&config, &manager)?;
            }
            let conduct = self.conduct(config.settings()?.stop_budget)?;
            roles.push(Role {
                name,
                config,
                conduct,
            });
        }
        Ok((manager, roles))
    }

    /// Whether these roles can go together, with what was asked for.
    fn check(&self, names: &[String]) -> Result<(), Failure> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
            return Err(Failure::usage(format!("--role {twice} is there twice")));
        }
        let for_one = self.slots.is_some() || self.try_once || self.wait_timeout.is_some();
        if names.len() > 1 && for_one {
            return Err(Failure::usage(
                "--slots, --try and --wait-timeout are for one role: run one `exec` for each role",
            ));
        }
        Ok(())
    }

    /// The lease of an instance that has one slot at most.
    fn slot_lease(role: &RoleConfig, manager: &ManagerConfig) -> Result<MemberConfig, Failure> {
        let is_preferred = role.takeover != Takeover::Never || role.priority != 0;
        let excluded = [
            (
                is_preferred,
                "a priority or a takeover: slots go to any instances",
            ),
            (
                manager.last_will.enabled,
                "a last will: it frees roles alone",
            ),
        ];
        if let Some((_, what)) = excluded.iter().find(|(is_set, _)| *is_set) {
            return Err(Failure::usage(format!("--slots does not go with {what}")));
        }
        let member = manager.member.clone().ttl(role.ttl).max_units(1);
        let member = member.validate_on_critical_ops(role.validate_on_critical_ops);
        Ok(match role.stop_budget {
            Some(budget) => member.stop_budget(budget),
            None => member,
        })
    }

    fn conduct(&self, stop_budget: Duration) -> Result<Conduct, Failure> {
        if stop_budget < LEAST_STOP_BUDGET {
            return Err(Failure::usage(format!(
                "the stop budget is {}, but `exec` needs at least 100ms: choose a ttl of at least 500ms, or a longer stop budget",
                exact(stop_budget)
            )));
        }
        Ok(Conduct {
            restart: self.restart,
            restart_delay: self.restart_delay.max(Duration::from_millis(10)),
            on_exit: self.on_exit,
            on_loss: self.on_loss,
            signal: self.signal,
            stop_budget,
        })
    }
}

pub(super) fn signal(name: &str) -> Result<Signal, String> {
    let name = name.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let signal = SIGNALS.iter().find(|(it, _)| *it == name);
    let signal = signal.map(|(_, signal)| *signal);
    signal.ok_or_else(|| format!("it must be one of {}", SIGNALS.map(|it| it.0).join(", ")))
}

pub(super) fn takeover(how: &str) -> Result<Takeover, String> {
    match how {
        "never" => Ok(Takeover::Never),
        "cooperative" => Ok(Takeover::Cooperative),
        _ => Err("it must be never or cooperative".into()),
    }
}
