//! The story's view of the fleet, and its words for people.

use std::time::Duration;

use super::{POLL, Story, ago};
use crate::app::{Role, short};
use crate::clock::Moment;
use crate::demo::board::Board;
use crate::demo::fault::Fault;
use crate::demo::screen::say;

/// How long everything is left alone between two steps.
const CALM: Duration = Duration::from_millis(1200);

impl Story {
    /// Watches the fleet until `condition` holds; gives up after `patience` and says so by `false`.
    pub(super) async fn until(
        &mut self,
        patience: Duration,
        condition: impl Fn(&Board) -> bool,
    ) -> bool {
        let since = Moment::now();
        loop {
            self.look();
            if condition(&self.board) {
                return true;
            }
            if Moment::now().since(since) > patience {
                return false;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until others lead the fault's roles.
    pub(super) async fn wait_for_successors(&mut self, fault: &Fault) {
        let (pid, at, roles) = (fault.pid, fault.at, fault.roles.clone());
        let succeeded = move |board: &Board| {
            let found = |role: &Role| board.history.successor(*role, pid, at).is_some();
            roles.iter().all(found) && board.all_led_without(pid)
        };
        if self.until(self.patience(), succeeded).await {
            self.note(&format!("every role is led again, {}", ago(fault.at)));
        } else {
            self.lament("not every role is led again");
        }
    }

    pub(super) async fn rest(&mut self) {
        self.until(CALM, |_| false).await;
    }

    /// Longer than any recovery should take.
    pub(super) fn patience(&self) -> Duration {
        self.ttl * 2 + Duration::from_secs(2)
    }

    /// Reads the news, and shows the leaders if they changed.
    pub(super) fn look(&mut self) {
        let before = self.board.leads.clone();
        let ended = self.fleet.look(&mut self.board);
        if self.board.leads != before {
            self.show_leaders();
        }
        for (name, status) in ended {
            match &mut self.leaving {
                Some((leaving, how)) if *leaving == name => {
                    *how = Some((status, Moment::now()));
                    self.note(&format!("{name} has ended ({status})"));
                }
                _ => {
                    let words = self.fleet.last_words(name);
                    self.lament(&format!("{name} has ended ({status}) {words}"));
                }
            }
        }
    }

    pub(super) fn step(&mut self, title: &str) {
        self.steps += 1;
        say(&self.style.bold(&format!("{}. {title}", self.steps)));
    }

    pub(super) fn show_leaders(&self) {
        self.note(&self.style.leaders(&self.board.leads));
    }

    pub(super) fn show_work(&self) {
        for role in Role::ALL {
            if let Some(last) = self.board.history.work(role).last() {
                let token = short(last.fencing_token);
                self.note(&format!(
                    "{role:<9} {} {token} {}",
                    last.instance, last.result
                ));
            }
        }
    }

    pub(super) fn note(&self, text: &str) {
        let time = Moment::now().since(self.began).as_secs_f64();
        say(&format!("  {time:7.3}s  {text}"));
    }

    pub(super) fn lament(&self, text: &str) {
        self.note(&self.style.bad(text));
    }
}
