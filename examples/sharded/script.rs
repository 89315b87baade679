//! The scenes: what happens to the instances, one thing after the other.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;
use drill::ownership::{finals, shards, stores};
use drill::{Fleet, Moment, Node, Stage, Term};
use nats_elect::BoxError;
use nats_elect::admin::AdminClient;
use nats_elect::duration::exact;
use nats_elect_testing::NatsServer;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use tokio::signal::ctrl_c;

use crate::args::Args;
use crate::instance::{BUCKET, GROUP};
use crate::picture::draw;
use crate::verdict::{Told, judge};

/// How long the search for instances may take.
const SEARCH: Duration = Duration::from_secs(1);

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scene {
    /// An instance is killed.
    Kill,
    /// The instance that plans for the group is killed.
    KillCoordinator,
    /// An instance gives its shards away and ends.
    Drain,
    /// An instance is killed while another one drains.
    KillAmidDrain,
    /// The instance that plans for the group is killed while shards move.
    KillCoordinatorAmidMoves,
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
    let any = || rand::random_range(0..1_000_000);
    let seed = args.seed.unwrap_or_else(any);
    let url = server.url();
    let fleet = fleet(args, &server, folder.path());
    let mut play = Play {
        url: &url,
        stage: Stage::new(fleet, shards(args.shards), args.ttl),
        chance: StdRng::seed_from_u64(seed),
        args,
        told: Told::default(),
    };
    for _ in 0..args.instances {
        let instance = play.add()?;
        play.stage.fleet.start(instance)?;
    }
    let (shards, instances, ttl) = (args.shards, args.instances, exact(args.ttl));
    let about = format!("{shards} shards, {instances} instances, ttl {ttl}, seed {seed}");
    play.stage.say(&about);
    let (opening, closing) = tokio::select! {
        played = play.play() => played?,
        _ = ctrl_c() => return Err("interrupted".into()),
    };
    let mut evidence = play.stage.evidence(opening, closing);
    evidence.ownership.finals = finals(&url, BUCKET, stores(GROUP, args.shards)).await?;
    if let Some(path) = &args.svg {
        std::fs::write(path, draw(&evidence))?;
    }
    let verdict = judge(&evidence, &play.told);
    println!("{verdict}");
    if !verdict.holds() {
        let kept = folder.keep();
        println!("the journals and logs stay in {}", kept.display());
    }
    Ok(verdict.holds())
}

/// No instance runs yet.
fn fleet(args: &Args, server: &NatsServer, folder: &Path) -> Fleet {
    let text = |duration| exact(duration).to_string();
    let arguments = [
        ("--shards", args.shards.to_string()),
        ("--ttl", text(args.ttl)),
        ("--pace", text(args.pace)),
    ];
    let earlier = args.earlier.clone();
    let launch = move |node: &Node| {
        let earlier = earlier.clone().filter(|_| node.process == 0);
        let mut command = Command::new(earlier.map_or_else(std::env::current_exe, Ok)?);
        for (name, value) in &arguments {
            command.args([name, &**value]);
        }
        Ok(command)
    };
    Fleet::new(server, folder, Box::new(launch))
}

struct Play<'a> {
    /// The server's address.
    url: &'a str,
    stage: Stage,
    chance: StdRng,
    args: &'a Args,
    told: Told,
}

impl Play<'_> {
    /// Returns when the first scene began, and when the final stop did.
    async fn play(&mut self) -> Result<(Moment, Moment), BoxError> {
        let limit = self.args.seconds.map(Duration::from_secs);
        let began = self.stage.began;
        let is_over = || limit.is_some_and(|limit| Moment::now().since(began) > limit);
        for instance in 0..self.stage.fleet.members.len() {
            self.stage.joined(instance).await?;
        }
        self.stage.all_owned("all shards have an owner").await?;
        self.settled().await?;
        // So that everybody has counted before anything happens.
        self.stage.until(self.args.pace * 2, |_| false).await?;
        let opening = Moment::now();
        let all = self.args.scenes.clone();
        let mut scenes = all.clone();
        loop {
            for scene in scenes {
                if is_over() {
                    break;
                }
                self.play_scene(scene).await?;
            }
            if limit.is_none() || is_over() {
                break;
            }
            scenes = vec![*all.choose(&mut self.chance).ok_or("no scene")?];
        }
        self.settled().await?;
        let closing = self.stage.close().await?;
        Ok((opening, closing))
    }

    async fn play_scene(&mut self, scene: Scene) -> Result<(), BoxError> {
        match scene {
            Scene::Kill | Scene::KillCoordinator => {
                let victim = match scene {
                    Scene::KillCoordinator => self.coordinator().await?,
                    _ => self.victim(None)?,
                };
                let stage = &mut self.stage;
                stage.tell("kill -9", victim);
                stage.fleet.kill(victim, &mut stage.terms)?;
                stage.all_owned("its shards have owners").await?;
                stage.back(victim).await
            }
            Scene::Drain => {
                let victim = self.victim(None)?;
                let stage = &mut self.stage;
                stage.tell("SIGTERM", victim);
                stage.fleet.drain(victim)?;
                stage.gone(victim).await?;
                stage.all_owned("its shards have owners").await?;
                stage.back(victim).await
            }
            Scene::Pause | Scene::Cut => {
                let victim = self.victim(None)?;
                let stage = &mut self.stage;
                if scene == Scene::Pause {
                    stage.tell("SIGSTOP", victim);
                    stage.fleet.pause(victim)?;
                } else {
                    stage.tell("cut off from NATS", victim);
                    stage.fleet.cut(victim);
                }
                stage.longer_than_the_lease().await?;
                if scene == Scene::Pause {
                    stage.fleet.resume(victim)?;
                    stage.tell("SIGCONT", victim);
                } else {
                    stage.fleet.restore(victim);
                    stage.tell("connected again", victim);
                }
                self.settled().await
            }
            Scene::KillAmidDrain | Scene::KillCoordinatorAmidMoves => {
                let victim = match scene {
                    Scene::KillCoordinatorAmidMoves => self.coordinator().await?,
                    _ => self.victim(None)?,
                };
                let leaver = self.victim(Some(victim))?;
                let stage = &mut self.stage;
                stage.tell("SIGTERM", leaver);
                stage.fleet.drain(leaver)?;
                let process = stage.fleet.members[leaver].node.process;
                let has_begun = |stage: &Stage| {
                    let of_it = |term: &&Term| (term.instance, term.process) == (leaver, process);
                    let mut terms = stage.terms.all().filter(of_it);
                    terms.any(|term| term.ended.is_some())
                };
                stage.until(stage.patience(), has_begun).await?;
                stage.tell("kill -9, while shards move", victim);
                stage.fleet.kill(victim, &mut stage.terms)?;
                stage.gone(leaver).await?;
                stage.all_owned("their shards have owners").await?;
                stage.back(leaver).await?;
                stage.back(victim).await
            }
            Scene::RollingRestart => {
                self.stage.say("rolling restart of all instances");
                let begun = Moment::now();
                for instance in self.stage.fleet.well() {
                    self.stage.fleet.drain(instance)?;
                    self.stage.gone(instance).await?;
                    self.stage.back(instance).await?;
                    // If the next one leaves before, shards move more often.
                    self.settled().await?;
                }
                self.told.rolling.push((begun, Moment::now()));
                Ok(())
            }
            Scene::Join => {
                let instance = self.add()?;
                self.stage.tell("a new instance", instance);
                self.stage.back(instance).await?;
                self.settled().await
            }
        }
    }

    fn add(&mut self) -> Result<usize, BoxError> {
        let fleet = &mut self.stage.fleet;
        let number = fleet.members.len() + 1;
        fleet.add(&format!("i{number}"))
    }

    /// An instance that owns shards.
    fn victim(&mut self, but: Option<usize>) -> Result<usize, BoxError> {
        let owned = self.stage.owned();
        let well = self.stage.fleet.well().into_iter();
        let owners = well.filter(|instance| Some(*instance) != but && owned[*instance] > 0);
        let owners: Vec<_> = owners.collect();
        let victim = owners.choose(&mut self.chance);
        Ok(*victim.ok_or("no instance owns anything")?)
    }

    /// The instance that plans.
    async fn coordinator(&self) -> Result<usize, BoxError> {
        let client = async_nats::connect(self.url).await?;
        let admin = AdminClient::new(client, BUCKET)?;
        for (instance, _) in admin.fleet(SEARCH).await? {
            let asked = admin.explain_unit(&instance, GROUP, "0").await?;
            if asked.is_coordinators {
                let id = instance.instance_id;
                let mut names = self.stage.fleet.names().into_iter();
                return Ok(names.position(|name| name == id).ok_or(id)?);
            }
        }
        Err("nobody plans".into())
    }

    /// Gives the instances time to move shards for balance.
    async fn settled(&mut self) -> Result<(), BoxError> {
        let limit = self.args.ttl * 4;
        let is_balanced = |stage: &Stage| {
            let owned = stage.owned();
            let well = stage.fleet.well();
            let least = well.iter().map(|instance| owned[*instance]).min();
            let most = well.iter().map(|instance| owned[*instance]).max();
            let both = least.zip(most);
            both.is_some_and(|(least, most)| most <= least + 1)
        };
        let since = Moment::now();
        if self.stage.until(limit, is_balanced).await? {
            let took = Moment::now().since(since).as_secs_f64();
            self.stage.say(&format!("  balanced, after {took:.2} s"));
            self.told.balanced += 1;
        } else {
            let owned = self.stage.owned();
            let uneven = format!("{owned:?} after {}", exact(limit));
            self.told.uneven.push(uneven);
        }
        self.stage.all_owned("all shards have an owner").await?;
        Ok(())
    }
}
