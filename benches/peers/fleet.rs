//! The candidates of one system, each a process of its own, as the driver sees them.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use crate::candidate::{Event, Order, Orders};
use crate::server::Server;
use crate::system::System;
use drill::driven::Driven;
use drill::{Moment, Problem};

/// So many start at once.
const BATCH: usize = 20;
/// For what takes no longer than the longest lease.
const PATIENCE: Duration = Duration::from_secs(90);

/// Candidates for one role. Dropping them kills them.
pub struct Fleet {
    orders: Orders,
    pub processes: Driven<Event>,
    /// The names of those that live, by number.
    names: BTreeMap<usize, String>,
    leader: usize,
    /// The candidate that is missing since the last handoff or crash.
    absent: Option<Absent>,
    /// The lease that the system granted, if it has any.
    pub granted: Option<Duration>,
}

enum Absent {
    Left(usize),
    Dead(String),
}

/// How long a handoff took.
#[derive(Clone, Copy, Debug)]
pub struct Handoff {
    /// From the end of the old handler to the start of the new one.
    pub gap: Duration,
    /// From the order to the start of the new handler.
    pub whole: Duration,
    /// When the old handler ended, and the new one started.
    pub span: (Moment, Moment),
}

impl Fleet {
    /// Starts candidates, and waits until one leads and all others follow.
    pub fn start(
        system: System,
        server: &Server,
        role: &str,
        ttl: Duration,
        candidates: usize,
    ) -> Result<Self, Problem> {
        let mut fleet = Self::of(system, server, role, 1, ttl);
        // The first one leads, and makes what all share.
        let first = fleet.spawn("candidate-0")?;
        fleet.stand(&[first], false)?;
        let mut rest: Vec<_> = (1..candidates).collect();
        while !rest.is_empty() {
            let batch = rest.drain(..BATCH.min(rest.len()));
            let spawned: Result<Vec<_>, _> = batch
                .map(|number| fleet.spawn(&format!("candidate-{number}")))
                .collect();
            fleet.stand(&spawned?, true)?;
        }
        Ok(fleet)
    }

    /// Starts one instance of this library with many roles, and waits until all of them are led. Says
    /// how long that took.
    pub fn with_roles(
        server: &Server,
        name: &str,
        roles: u32,
        ttl: Duration,
    ) -> Result<(Self, Duration), Problem> {
        let mut fleet = Self::of(System::Ours, server, "role", roles, ttl);
        let number = fleet.spawn(name)?;
        let began = Moment::now();
        fleet.stand(&[number], true)?;
        Ok((fleet, Moment::now().since(began)))
    }

    /// No candidate runs yet.
    fn of(system: System, server: &Server, role: &str, roles: u32, ttl: Duration) -> Self {
        Self {
            orders: Orders {
                system,
                address: server.address().to_owned(),
                name: String::new(),
                role: role.to_owned(),
                roles,
                ttl,
            },
            processes: Driven::default(),
            names: BTreeMap::new(),
            leader: 0,
            absent: None,
            granted: None,
        }
    }

    /// The leader leaves, as it is ordered. [`Fleet::fill`] has it stand again.
    pub fn hand_off(&mut self, order: &Order) -> Result<Handoff, Problem> {
        let old = self.leader;
        let handed = self.change(order)?.ok_or("the leader refused to leave")?;
        self.absent = Some(Absent::Left(old));
        Ok(handed)
    }

    /// The leader hands the role to the next candidate, by name.
    pub fn hand_to_next(&mut self) -> Result<Handoff, Problem> {
        let heir = self.names.range(self.leader + 1..).next();
        let heir = heir.or_else(|| self.names.iter().next());
        let (_, name) = heir.ok_or("no candidates")?;
        let order = Order::HandTo(name.clone());
        loop {
            if let Some(handed) = self.change(&order)? {
                return Ok(handed);
            }
            // It led not long ago.
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Has the leader hand the role over, unless it refuses to.
    fn change(&mut self, order: &Order) -> Result<Option<Handoff>, Problem> {
        let (old, began) = (self.leader, Moment::now());
        self.processes.order(old, order)?;
        let (mut ended, mut started) = (None, None);
        // A leader that hands over by name goes on standing.
        let mut has_left = matches!(order, Order::HandTo(_));
        while ended.is_none() || started.is_none() || !has_left {
            match self.next("a handoff")? {
                (who, Event::Ended(at)) if who == old => ended = Some(at),
                (who, Event::Left) if who == old => has_left = true,
                (who, Event::Refused) if who == old => return Ok(None),
                (who, Event::Started(at)) => started = Some((who, at)),
                _ => {}
            }
        }
        Ok(Some(self.handed(began, ended, started)))
    }

    /// Kills the leader's process, and says how long it took until the next handler started.
    /// [`Fleet::fill`] starts another process of that name.
    pub fn crash(&mut self) -> Result<Handoff, Problem> {
        let dead = self.names.remove(&self.leader).ok_or("no leader")?;
        let killed = Moment::now();
        self.processes.kill(self.leader)?;
        let (next, started) = loop {
            let told = self.next("the leader after a crash")?;
            if let (who, Event::Started(at)) = told
                && self.names.contains_key(&who)
            {
                break (who, at);
            }
        };
        self.absent = Some(Absent::Dead(dead));
        Ok(self.handed(killed, Some(killed), Some((next, started))))
    }

    /// As many stand as at the start.
    pub fn fill(&mut self) -> Result<(), Problem> {
        let number = match self.absent.take() {
            None => return Ok(()),
            Some(Absent::Left(number)) => number,
            Some(Absent::Dead(name)) => self.spawn(&name)?,
        };
        self.stand(&[number], true)
    }

    fn handed(
        &mut self,
        began: Moment,
        ended: Option<Moment>,
        started: Option<(usize, Moment)>,
    ) -> Handoff {
        let (ended, (next, started)) = (ended.unwrap_or(began), started.expect("both came"));
        self.leader = next;
        Handoff {
            gap: started.since(ended),
            whole: started.since(began),
            span: (ended, started),
        }
    }

    fn spawn(&mut self, name: &str) -> Result<usize, Problem> {
        let orders = Orders {
            name: name.to_owned(),
            ..self.orders.clone()
        };
        let number = self.processes.start(&orders)?;
        self.names.insert(number, orders.name);
        Ok(number)
    }

    /// Has candidates stand, and waits until they do, and somebody leads.
    fn stand(&mut self, who: &[usize], mut is_led: bool) -> Result<(), Problem> {
        for number in who {
            self.processes.order(*number, &Order::Stand)?;
        }
        let mut missing = who.len();
        while missing > 0 || !is_led {
            match self.next("candidates")? {
                (_, Event::Stands { granted }) => {
                    self.granted = granted;
                    missing -= 1;
                }
                (who, Event::Started(_)) => {
                    self.leader = who;
                    is_led = true;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn next(&self, what: &str) -> Result<(usize, Event), Problem> {
        let told = self.processes.next(PATIENCE);
        told.map_err(|_| {
            let system = self.orders.system.name();
            format!("{system}: waited in vain for {what}").into()
        })
    }
}
