//! The story: the fleet's fate, step by step.

use std::process::{Command, ExitCode};
use std::time::Duration;

use drill::verdict::Verdict;
use drill::{Fleet, Moment, Node, Stage, is_heard, say};
use nats_elect::BoxError;
use nats_elect::duration::exact;
use nats_elect_testing::NatsServer;

use super::args::Args;
use crate::app::{EndRequests, Role};

/// How long everything is left alone between two steps.
const CALM: Duration = Duration::from_millis(1200);
/// Exit code of a program that was interrupted.
const INTERRUPTED: u8 = 130;

/// Tells the story; then ends with a verdict, or runs on until it is interrupted.
pub async fn run(args: &Args) -> Result<ExitCode, BoxError> {
    let mut end = EndRequests::listen()?;
    let folder = tempfile::Builder::new()
        .prefix("control-plane-")
        .tempdir()?;
    let server = NatsServer::start()?;
    let ttl = exact(args.ttl).to_string();
    let launch = move |_: &Node| {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--ttl", &ttl]);
        Ok(command)
    };
    let fleet = Fleet::new(&server, folder.path(), Box::new(launch));
    let roles = Role::ALL.map(|role| role.name().into()).into();
    let mut stage = Stage::new(fleet, roles, args.ttl);
    stage.tells_owners = true;
    let roles = stage.units.join(", ");
    let (major, minor, patch) = server.version();
    say(&format!("A control plane: three instances elect {roles}"));
    say(&format!(
        "  NATS: a private nats-server {major}.{minor}.{patch} at {}",
        server.url()
    ));
    say(&format!("  journals and logs: {}", folder.path().display()));

    let mut story = Story { stage, steps: 0 };
    let told = tokio::select! {
        told = story.tell() => told?,
        () = end.next() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let closing = if args.once {
        story.stage.close().await?
    } else {
        Moment::now()
    };
    let evidence = story.stage.evidence(story.stage.began, closing);
    let verdict = Verdict::on(&evidence);
    say(&format!(
        "Verdict, from what the instances recorded:\n{verdict}"
    ));
    if !args.once {
        story.run_on(told, &mut end).await?;
    }
    if verdict.holds() {
        return Ok(ExitCode::SUCCESS);
    }
    say(&format!("the journals stay in {}", folder.keep().display()));
    Ok(ExitCode::FAILURE)
}

struct Story {
    stage: Stage,
    steps: usize,
}

impl Story {
    /// Returns the instance that was stopped.
    async fn tell(&mut self) -> Result<usize, BoxError> {
        self.election().await?;
        self.kill().await?;
        self.cut().await?;
        self.graceful_stop().await
    }

    async fn election(&mut self) -> Result<(), BoxError> {
        self.step("Election: three processes start, each stands for every role");
        for number in 1..=3 {
            let instance = self.stage.fleet.add(&format!("node-{number}"))?;
            self.stage.fleet.start(instance)?;
        }
        for instance in 0..3 {
            self.stage.joined(instance).await?;
        }
        self.led("every role is led").await
    }

    async fn kill(&mut self) -> Result<(), BoxError> {
        let (victim, name) = self.victim("is killed (SIGKILL)");
        self.stage.fleet.kill(victim, &mut self.stage.terms)?;
        self.step("Failover: the others wait until its leases have surely ended");
        self.led("every role is led again").await?;
        self.step(&format!("{name} comes back, under its old name"));
        self.stage.back(victim).await?;
        self.stage.say(&format!("  {name} follows"));
        self.led("every role is led").await
    }

    async fn cut(&mut self) -> Result<(), BoxError> {
        let (victim, name) = self.victim("is cut off from the network");
        self.stage.fleet.cut(victim);
        self.step("It stops by itself, before anyone else starts");
        self.stage.longer_than_the_lease().await?;
        self.step(&format!(
            "{name} is connected again; what was held back arrives now"
        ));
        self.stage.fleet.members[victim].joined = false;
        self.stage.fleet.restore(victim);
        self.stage.joined(victim).await?;
        self.stage.say(&format!("  {name} follows"));
        self.led("every role is led").await
    }

    async fn graceful_stop(&mut self) -> Result<usize, BoxError> {
        let (victim, name) = self.victim("is stopped (SIGTERM)");
        self.stage.fleet.drain(victim)?;
        self.led("every role is led again").await?;
        self.stage.gone(victim).await?;
        self.stage.say(&format!("  {name} has ended"));
        Ok(victim)
    }

    /// Until Ctrl-C, or until nobody reads on.
    async fn run_on(&mut self, stopped: usize, end: &mut EndRequests) -> Result<(), BoxError> {
        let name = self.stage.name(stopped);
        self.step(&format!(
            "{name} is started again, and the fleet runs on: Ctrl-C stops it"
        ));
        self.stage.fleet.start(stopped)?;
        let stage = &mut self.stage;
        let watch = async {
            while is_heard() {
                stage.read()?;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok::<_, BoxError>(())
        };
        tokio::select! {
            watched = watch => watched?,
            () = end.next() => {}
        }
        self.stage.close().await?;
        Ok(())
    }

    /// Waits until every role is led, and leaves everything alone for a while.
    async fn led(&mut self, what: &str) -> Result<(), BoxError> {
        if !self.stage.all_owned(what).await? {
            return Err("not every role is led: nothing more can be told".into());
        }
        self.stage.until(CALM, |_| false).await?;
        Ok(())
    }

    /// Begins a step with the instance that leads the most roles. Returns its number and its name.
    fn victim(&mut self, what: &str) -> (usize, String) {
        let owned = self.stage.owned();
        let victim = (0..owned.len()).max_by_key(|instance| owned[*instance]);
        let victim = victim.unwrap_or_default();
        let (name, led) = (self.stage.name(victim), owned[victim]);
        self.step(&format!("{name} {what} while it leads {led} of the roles"));
        (victim, name)
    }

    fn step(&mut self, title: &str) {
        self.steps += 1;
        say(&format!("{}. {title}", self.steps));
    }
}
