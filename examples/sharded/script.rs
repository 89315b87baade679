//! The scenes: what happens to the instances, one thing after the other.

use std::io::Write as _;
use std::time::Duration;

use clap::ValueEnum;
use nats_elect::BoxError;
use nats_elect::admin::AdminClient;
use nats_elect::duration::exact;
use nats_elect_testing::NatsServer;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use tokio::signal::ctrl_c;

use crate::args::Args;
use crate::clock::Moment;
use crate::fleet::Fleet;
use crate::instance::{BUCKET, GROUP};
use crate::ownership::{Ownership, finals};
use crate::picture::draw;
use crate::terms::{Term, Terms};
use crate::verdict::{Evidence, judge};

const POLL: Duration = Duration::from_millis(20);
/// How long the search for instances may take.
const SEARCH: Duration = Duration::from_secs(1);

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scene {
    /// An instance is killed.
    Kill,
    /// The instance that plans for the group is killed.
    KillPlanner,
    /// An instance gives its shards away and ends.
    Drain,
    /// An instance is killed while another one drains.
    KillAmidDrain,
    /// The instance that plans for the group is killed while shards move.
    KillPlannerAmidMoves,
    /// All instances are restarted, one after the other.
    RollingRestart,
    /// An instance stands still for longer than its lease.
    Pause,
    /// An instance is cut off from NATS for longer than its lease.
    Cut,
    /// A new instance joins.
    Join,
}

/// Plays the scenes. Returns whether all holds that should.
pub async fn run(args: &Args) -> Result<bool, BoxError> {
    let folder = tempfile::Builder::new().prefix("sharded-").tempdir()?;
    let server = NatsServer::start()?;
    let seed = args
        .seed
        .unwrap_or_else(|| rand::random_range(0..1_000_000));
    let url = server.url();
    let mut play = Play {
        url: &url,
        fleet: Fleet::new(args, &server, folder.path())?,
        terms: Terms::default(),
        chance: StdRng::seed_from_u64(seed),
        args,
        began: Moment::now(),
        rolling: Vec::new(),
        bad_ends: Vec::new(),
        balanced: 0,
        uneven: Vec::new(),
        opening: Moment::now(),
    };
    play.say(&format!(
        "{} shards, {} instances, ttl {}, seed {seed}",
        args.shards,
        args.instances,
        exact(args.ttl)
    ));
    let closing = tokio::select! {
        played = play.play() => played?,
        _ = ctrl_c() => return Err("interrupted".into()),
    };
    let evidence = Evidence {
        ownership: Ownership {
            shards: args.shards,
            names: play.fleet.nodes.iter().map(|it| it.name.clone()).collect(),
            terms: std::mem::take(&mut play.terms),
            finals: finals(&url, BUCKET, GROUP, args.shards).await?,
            kills: play.fleet.kills(),
            last_wills: false,
        },
        ttl: args.ttl,
        faults: std::mem::take(&mut play.fleet.faults),
        rolling: play.rolling,
        bad_ends: play.bad_ends,
        balanced: play.balanced,
        uneven: play.uneven,
        began: play.began,
        opening: play.opening,
        closing,
        ended: Moment::now(),
    };
    if let Some(path) = &args.svg {
        std::fs::write(path, draw(&evidence))?;
    }
    let verdict = judge(&evidence);
    println!("{verdict}");
    if !verdict.holds() {
        let kept = folder.keep();
        println!("the journals and logs stay in {}", kept.display());
    }
    Ok(verdict.holds())
}

struct Play<'a> {
    /// The server's address.
    url: &'a str,
    fleet: Fleet,
    terms: Terms,
    chance: StdRng,
    args: &'a Args,
    began: Moment,
    /// From when to when all instances were restarted in turn.
    rolling: Vec<(Moment, Moment)>,
    /// Processes that did not end as they should.
    bad_ends: Vec<String>,
    /// How often the shards were even in time after something had happened.
    balanced: usize,
    /// How many shards each instance owned when they were not.
    uneven: Vec<String>,
    /// When the first scene began.
    opening: Moment,
}

impl Play<'_> {
    /// Returns when the final stop began.
    async fn play(&mut self) -> Result<Moment, BoxError> {
        let limit = self.args.seconds.map(Duration::from_secs);
        let is_over = |began: Moment| limit.is_some_and(|limit| Moment::now().since(began) > limit);
        for _ in 0..self.args.instances {
            let instance = self.fleet.add()?;
            self.fleet.start(instance)?;
        }
        let all_joined = |play: &Self| play.fleet.nodes.iter().all(|node| node.joined);
        if !self.until(self.patience(), all_joined).await? {
            return Err("not all instances joined".into());
        }
        self.all_owned("all shards have an owner").await?;
        self.settled().await?;
        // So that everybody has counted before anything happens.
        self.until(self.args.pace * 2, |_| false).await?;
        self.opening = Moment::now();
        let all = self.args.scenes.clone();
        let mut scenes = all.clone();
        loop {
            for scene in scenes {
                if is_over(self.began) {
                    break;
                }
                self.play_scene(scene).await?;
            }
            if limit.is_none() || is_over(self.began) {
                break;
            }
            scenes = vec![*all.choose(&mut self.chance).ok_or("no scene")?];
        }
        self.settled().await?;
        let closing = Moment::now();
        self.say("all instances end");
        for instance in self.fleet.well() {
            self.fleet.drain(instance)?;
        }
        for instance in 0..self.fleet.nodes.len() {
            self.gone(instance).await?;
        }
        Ok(closing)
    }

    async fn play_scene(&mut self, scene: Scene) -> Result<(), BoxError> {
        match scene {
            Scene::Kill | Scene::KillPlanner => {
                let victim = match scene {
                    Scene::KillPlanner => self.planner().await?,
                    _ => self.victim(None)?,
                };
                self.tell("kill -9", victim);
                self.fleet.kill(victim, &mut self.terms)?;
                self.all_owned("its shards have owners").await?;
                self.back(victim).await
            }
            Scene::Drain => {
                let victim = self.victim(None)?;
                self.tell("SIGTERM", victim);
                self.fleet.drain(victim)?;
                self.gone(victim).await?;
                self.all_owned("its shards have owners").await?;
                self.back(victim).await
            }
            Scene::Pause => {
                let victim = self.victim(None)?;
                self.tell("SIGSTOP", victim);
                self.fleet.pause(victim)?;
                self.longer_than_the_lease().await?;
                self.fleet.resume(victim)?;
                self.tell("SIGCONT", victim);
                self.settled().await
            }
            Scene::Cut => {
                let victim = self.victim(None)?;
                self.tell("cut off from NATS", victim);
                self.fleet.cut(victim);
                self.longer_than_the_lease().await?;
                self.fleet.restore(victim);
                self.tell("connected again", victim);
                self.settled().await
            }
            Scene::KillAmidDrain | Scene::KillPlannerAmidMoves => {
                let victim = match scene {
                    Scene::KillPlannerAmidMoves => self.planner().await?,
                    _ => self.victim(None)?,
                };
                let leaver = self.victim(Some(victim))?;
                self.tell("SIGTERM", leaver);
                self.fleet.drain(leaver)?;
                let process = self.fleet.nodes[leaver].process;
                let limit = self.patience();
                self.until(limit, |play| {
                    let of_it = |term: &&Term| (term.instance, term.process) == (leaver, process);
                    let mut terms = play.terms.all().filter(of_it);
                    terms.any(|term| term.ended.is_some())
                })
                .await?;
                self.tell("kill -9, while shards move", victim);
                self.fleet.kill(victim, &mut self.terms)?;
                self.gone(leaver).await?;
                self.all_owned("their shards have owners").await?;
                self.back(leaver).await?;
                self.back(victim).await
            }
            Scene::RollingRestart => {
                self.say("rolling restart of all instances");
                let begun = Moment::now();
                for instance in self.fleet.well() {
                    self.fleet.drain(instance)?;
                    self.gone(instance).await?;
                    self.back(instance).await?;
                    // If the next one leaves before, shards move more often.
                    self.settled().await?;
                }
                self.rolling.push((begun, Moment::now()));
                Ok(())
            }
            Scene::Join => {
                let instance = self.fleet.add()?;
                self.tell("a new instance", instance);
                self.back(instance).await?;
                self.settled().await
            }
        }
    }

    /// An instance that owns shards.
    fn victim(&mut self, but: Option<usize>) -> Result<usize, BoxError> {
        let owned = self.owned();
        let well = self.fleet.well().into_iter();
        let owners: Vec<_> = well
            .filter(|instance| Some(*instance) != but && owned[*instance] > 0)
            .collect();
        let victim = owners.choose(&mut self.chance);
        Ok(*victim.ok_or("no instance owns anything")?)
    }

    /// The instance that plans.
    async fn planner(&self) -> Result<usize, BoxError> {
        let client = async_nats::connect(self.url).await?;
        let admin = AdminClient::new(client, BUCKET)?;
        for member in admin.fleet(SEARCH).await? {
            if admin.group_plan(&member.instance, GROUP).await?.is_planners {
                let id = member.instance.instance_id;
                let mut nodes = self.fleet.nodes.iter();
                return Ok(nodes.position(|node| node.name == id).ok_or(id)?);
            }
        }
        Err("nobody plans".into())
    }

    /// Starts an instance again, and waits until it can own shards, as those who restart a service
    /// should.
    async fn back(&mut self, instance: usize) -> Result<(), BoxError> {
        self.fleet.start(instance)?;
        let limit = self.patience();
        let joined = |play: &Self| play.fleet.nodes[instance].joined;
        if !self.until(limit, joined).await? {
            let name = &self.fleet.nodes[instance].name;
            return Err(format!("{name} did not join").into());
        }
        Ok(())
    }

    /// Waits for the end of a process that was asked to end.
    async fn gone(&mut self, instance: usize) -> Result<(), BoxError> {
        let asked = Moment::now();
        while self.fleet.runs(instance) {
            self.fleet.read(&mut self.terms)?;
            if let Some(status) = self.fleet.exited(instance)? {
                if !status.success() {
                    let name = &self.fleet.nodes[instance].name;
                    self.bad_ends.push(format!("{name} ended with {status}"));
                }
            } else if Moment::now().since(asked) > self.patience() {
                let name = &self.fleet.nodes[instance].name;
                self.bad_ends.push(format!("{name} did not end when asked"));
                self.fleet.kill(instance, &mut self.terms)?;
            }
            tokio::time::sleep(POLL).await;
        }
        self.fleet.read(&mut self.terms)
    }

    /// For a lease and a half more, an instance is left as it is.
    async fn longer_than_the_lease(&mut self) -> Result<(), BoxError> {
        let since = Moment::now();
        self.all_owned("its shards have owners").await?;
        let left = (self.args.ttl * 3 / 2).saturating_sub(Moment::now().since(since));
        self.until(left, |_| false).await?;
        Ok(())
    }

    /// Gives the instances time to move shards for balance.
    async fn settled(&mut self) -> Result<(), BoxError> {
        let limit = self.args.ttl * 4;
        let is_balanced = |play: &Self| {
            let owned = play.owned();
            let well = play.fleet.well();
            let least = well.iter().map(|instance| owned[*instance]).min();
            let most = well.iter().map(|instance| owned[*instance]).max();
            least
                .zip(most)
                .is_some_and(|(least, most)| most <= least + 1)
        };
        let since = Moment::now();
        if self.until(limit, is_balanced).await? {
            let took = Moment::now().since(since).as_secs_f64();
            self.say(&format!("  balanced, after {took:.2} s"));
            self.balanced += 1;
        } else {
            let owned = self.owned();
            self.uneven
                .push(format!("{owned:?} after {}", exact(limit)));
        }
        self.all_owned("all shards have an owner").await
    }

    /// Longer than anything here should take.
    fn patience(&self) -> Duration {
        self.args.ttl * 4 + Duration::from_secs(15)
    }

    async fn all_owned(&mut self, what: &str) -> Result<(), BoxError> {
        let since = Moment::now();
        let limit = self.patience();
        let is_owned = |play: &Self| {
            let mut running = play.running();
            running.all(|term| {
                term.is_some_and(|term| play.fleet.is_well(term.instance, term.process))
            })
        };
        let is_done = self.until(limit, is_owned).await?;
        let took = Moment::now().since(since).as_secs_f64();
        let owned: Vec<_> = self.owned().iter().map(ToString::to_string).collect();
        let told = if is_done {
            what
        } else {
            "NOT all shards have an owner"
        };
        self.say(&format!("  {told}, after {took:.2} s: {}", owned.join(" ")));
        Ok(())
    }

    /// Reads the journals until something holds. Returns whether it came to that in time.
    async fn until(
        &mut self,
        limit: Duration,
        holds: impl Fn(&Self) -> bool,
    ) -> Result<bool, BoxError> {
        let since = Moment::now();
        loop {
            self.fleet.read(&mut self.terms)?;
            if holds(self) {
                return Ok(true);
            }
            if Moment::now().since(since) >= limit {
                return Ok(false);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// How many shards each instance owns.
    fn owned(&self) -> Vec<usize> {
        let mut owned = vec![0; self.fleet.nodes.len()];
        for term in self.running().flatten() {
            owned[term.instance] += 1;
        }
        owned
    }

    /// The newest term of each shard, if it has not ended.
    fn running(&self) -> impl Iterator<Item = Option<&Term>> {
        let newest = (0..self.args.shards).map(|shard| self.terms.of(shard).pop());
        newest.map(|term| term.filter(|term| term.ended.is_none()))
    }

    fn tell(&self, what: &str, instance: usize) {
        let owned = self.owned()[instance];
        let name = &self.fleet.nodes[instance].name;
        self.say(&format!("{name}, which owns {owned}: {what}"));
    }

    fn say(&self, text: &str) {
        let time = Moment::now().since(self.began).as_secs_f64();
        // A reader that went away is no reason to fail.
        let _ = writeln!(std::io::stdout(), "{time:6.1} s  {text}");
    }
}
