//! A fleet under a script, which waits for what it brings about.

use std::time::Duration;

use crate::ownership::{Finals, Ownership};
use crate::verdict::Evidence;
use crate::{Fleet, Moment, Problem, Term, Terms, say};

const POLL: Duration = Duration::from_millis(20);

/// What a script has before it.
pub struct Stage {
    /// The instances.
    pub fleet: Fleet,
    /// All terms so far.
    pub terms: Terms,
    /// The names of the units that shall have owners.
    pub units: Vec<String>,
    /// How long an instance's lease lasts.
    pub ttl: Duration,
    /// When this began.
    pub began: Moment,
    /// Processes that did not end as they should.
    pub bad_ends: Vec<String>,
    /// Tells who owns what, whenever that changes.
    pub tells_owners: bool,
    told: String,
}

impl Stage {
    /// No process runs yet.
    pub fn new(fleet: Fleet, units: Vec<String>, ttl: Duration) -> Self {
        Self {
            fleet,
            terms: Terms::default(),
            units,
            ttl,
            began: Moment::now(),
            bad_ends: Vec::new(),
            tells_owners: false,
            told: String::new(),
        }
    }

    /// Starts an instance, for the first time or again, and waits until it takes part, as those who
    /// restart a service should.
    pub async fn back(&mut self, instance: usize) -> Result<(), Problem> {
        self.fleet.start(instance)?;
        self.joined(instance).await
    }

    /// Waits until an instance takes part.
    pub async fn joined(&mut self, instance: usize) -> Result<(), Problem> {
        let joined = |stage: &Self| stage.fleet.members[instance].joined;
        if !self.until(self.patience(), joined).await? {
            let node = &self.fleet.members[instance].node;
            let (name, words) = (&node.name, node.last_words());
            return Err(format!("{name} did not join: {words}").into());
        }
        Ok(())
    }

    /// Waits for the end of a process that was asked to end.
    pub async fn gone(&mut self, instance: usize) -> Result<(), Problem> {
        let asked = Moment::now();
        while self.fleet.members[instance].node.runs() {
            self.read()?;
            let exited = self.fleet.exited(instance)?;
            let name = self.name(instance);
            if let Some(status) = exited {
                if !status.success() {
                    self.bad_ends.push(format!("{name} ended with {status}"));
                }
            } else if Moment::now().since(asked) > self.patience() {
                self.bad_ends.push(format!("{name} did not end when asked"));
                self.fleet.kill(instance, &mut self.terms)?;
            }
            tokio::time::sleep(POLL).await;
        }
        self.read()
    }

    /// Ends all instances in good order. Returns when that began.
    pub async fn close(&mut self) -> Result<Moment, Problem> {
        let closing = Moment::now();
        self.say("all instances end");
        for instance in self.fleet.well() {
            self.fleet.drain(instance)?;
        }
        for instance in 0..self.fleet.members.len() {
            self.gone(instance).await?;
        }
        Ok(closing)
    }

    /// For a lease and a half more, an instance is left as it is.
    pub async fn longer_than_the_lease(&mut self) -> Result<(), Problem> {
        let since = Moment::now();
        self.all_owned("what it had has owners").await?;
        let left = (self.ttl * 3 / 2).saturating_sub(Moment::now().since(since));
        self.until(left, |_| false).await?;
        Ok(())
    }

    /// Longer than anything here should take.
    pub fn patience(&self) -> Duration {
        self.ttl * 4 + Duration::from_secs(15)
    }

    /// Waits until each unit has an owner that is well. Returns whether it came to that.
    pub async fn all_owned(&mut self, what: &str) -> Result<bool, Problem> {
        let since = Moment::now();
        let is_owned = |stage: &Self| {
            let mut running = stage.running();
            running.all(|term| {
                term.is_some_and(|term| stage.fleet.is_well(term.instance, term.process))
            })
        };
        let is_done = self.until(self.patience(), is_owned).await?;
        let took = Moment::now().since(since).as_secs_f64();
        let owned: Vec<_> = self.owned().iter().map(ToString::to_string).collect();
        let not = if is_done { "" } else { "NOT so: " };
        let owned = owned.join(" ");
        self.say(&format!("  {not}{what}, after {took:.2} s: {owned}"));
        Ok(is_done)
    }

    /// Reads the journals until something holds. Returns whether it came to that in time.
    pub async fn until(
        &mut self,
        limit: Duration,
        holds: impl Fn(&Self) -> bool,
    ) -> Result<bool, Problem> {
        let since = Moment::now();
        loop {
            self.read()?;
            if holds(self) {
                return Ok(true);
            }
            if Moment::now().since(since) >= limit {
                return Ok(false);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Reads the journals on.
    pub fn read(&mut self) -> Result<(), Problem> {
        self.fleet.read(&mut self.terms)?;
        if self.tells_owners && self.owners() != self.told {
            self.told = self.owners();
            self.say(&format!("  {}", self.told));
        }
        Ok(())
    }

    /// How many units each instance owns.
    pub fn owned(&self) -> Vec<usize> {
        let mut owned = vec![0; self.fleet.members.len()];
        for term in self.running().flatten() {
            owned[term.instance] += 1;
        }
        owned
    }

    /// The newest term of each unit, if it has not ended.
    fn running(&self) -> impl Iterator<Item = Option<&Term>> {
        let newest = (0..).zip(&self.units);
        let newest = newest.map(|(unit, _)| self.terms.of(unit).pop());
        newest.map(|term| term.filter(|term| term.ended.is_none()))
    }

    /// Who owns what.
    fn owners(&self) -> String {
        let owners = self.units.iter().zip(self.running());
        let owners = owners.map(|(unit, term)| {
            let term = term.filter(|term| {
                let node = &self.fleet.members[term.instance].node;
                node.runs() && node.process == term.process
            });
            let owner = term.map_or("—".into(), |term| self.name(term.instance));
            format!("{unit} {owner:<8}")
        });
        owners.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    }

    /// The name of an instance.
    pub fn name(&self, instance: usize) -> String {
        self.fleet.members[instance].node.name.clone()
    }

    /// Says what happens to an instance.
    pub fn tell(&self, what: &str, instance: usize) {
        let (name, owned) = (self.name(instance), self.owned()[instance]);
        self.say(&format!("{name}, which owns {owned}: {what}"));
    }

    /// Says something, with the time.
    pub fn say(&self, text: &str) {
        let time = Moment::now().since(self.began).as_secs_f64();
        say(&format!("{time:6.1} s  {text}"));
    }

    /// What is known at the end. The script played from then to then.
    pub fn evidence(&self, opening: Moment, closing: Moment) -> Evidence {
        Evidence {
            ownership: Ownership {
                units: self.units.clone(),
                names: self.fleet.names(),
                kills: self.fleet.kills(),
                terms: self.terms.clone(),
                finals: Finals::new(),
                last_wills: false,
            },
            ttl: self.ttl,
            faults: self.fleet.faults.clone(),
            bad_ends: self.bad_ends.clone(),
            began: self.began,
            opening,
            closing,
            ended: Moment::now(),
        }
    }
}
