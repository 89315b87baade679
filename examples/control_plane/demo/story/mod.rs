//! The story: the fleet's fate, step by step.

mod watch;

use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use nats_elect::BoxError;

use super::args::{Args, Sabotage};
use super::board::{Board, Lead};
use super::fault::{Fault, Kind};
use super::fleet::{Fleet, NAMES};
use super::screen::{self, Style, list, say};
use super::verdict::judge;
use crate::app::{EndRequests, Role};
use crate::clock::Moment;

const POLL: Duration = Duration::from_millis(10);
/// Exit code of a program that was interrupted.
const INTERRUPTED: u8 = 130;

/// Tells the story; then ends with a verdict, or runs on until it is interrupted.
pub async fn run(args: &Args) -> Result<ExitCode, BoxError> {
    let mut end = EndRequests::listen()?;
    let mut story = Story::begin(args)?;
    let told = tokio::select! {
        told = story.tell() => told.map(|()| true),
        () = end.next() => Ok(false),
    };
    if matches!(told, Ok(true)) && !args.once {
        let all_well = story.verdict();
        story.run_on(&mut end).await;
        story.end().await;
        return Ok(if all_well {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    story.end().await;
    match told {
        Ok(true) if story.verdict() => Ok(ExitCode::SUCCESS),
        Ok(true) => {
            story.fleet.keep_folder();
            say(&format!(
                "the histories stay in {}",
                story.fleet.folder().display()
            ));
            Ok(ExitCode::FAILURE)
        }
        Ok(false) => Ok(ExitCode::from(INTERRUPTED)),
        Err(problem) => Err(problem),
    }
}

struct Story {
    fleet: Fleet,
    board: Board,
    faults: Vec<Fault>,
    sabotage: Option<Sabotage>,
    ttl: Duration,
    style: Style,
    began: Moment,
    /// The instance whose process shall end now, and how it did.
    leaving: Option<(&'static str, Option<(ExitStatus, Moment)>)>,
    steps: usize,
}

impl Story {
    fn begin(args: &Args) -> Result<Self, BoxError> {
        let style = Style::of_stdout();
        let roles = list(&Role::ALL);
        let how = if args.spread { "share" } else { "elect" };
        say(&style.bold(&format!("A control plane: three instances {how} {roles}")));
        let fleet = Fleet::prepare(args)?;
        say(&format!("  NATS     {}", fleet.describe_nats()));
        say(&format!("  history  {}", fleet.folder().display()));
        for (name, url) in fleet.metrics_urls() {
            say(&format!("  metrics  {name} {url}"));
        }
        Ok(Self {
            fleet,
            board: Board::default(),
            faults: Vec::new(),
            sabotage: args.sabotage,
            ttl: args.ttl,
            style,
            began: Moment::now(),
            leaving: None,
            steps: 0,
        })
    }

    async fn tell(&mut self) -> Result<(), BoxError> {
        self.election().await?;
        self.kill().await?;
        self.cut().await?;
        self.graceful_stop().await
    }

    async fn election(&mut self) -> Result<(), BoxError> {
        self.step("Election: three processes start, each stands for every role");
        for name in NAMES {
            self.fleet.launch(name)?;
        }
        if !self
            .until(Duration::from_secs(15), |board| board.all_led_without(0))
            .await
        {
            let words: Vec<_> = NAMES
                .iter()
                .map(|name| self.fleet.last_words(name))
                .collect();
            return Err(format!("not every role found a leader: {}", words.join("; ")).into());
        }
        self.rest().await;
        self.show_work();
        Ok(())
    }

    async fn kill(&mut self) -> Result<(), BoxError> {
        let (victim, roles) = self.victim().await?;
        let name = known(&victim.instance);
        self.step(&format!(
            "{name} is killed (SIGKILL) while it leads {}",
            list(&roles)
        ));
        let mut fault = Fault::new(Kind::Kill, &victim, &roles);
        if !self.sabotaged(Sabotage::NoKill) {
            fault.exit = self.fleet.kill(name)?;
            fault.gone = Some(Moment::now());
            self.board.died(victim.pid);
            self.show_leaders();
        }

        self.step("Failover: the others wait until its leases have surely ended");
        self.wait_for_successors(&fault).await;

        self.step(&format!("{name} comes back, under its old name"));
        fault.undone = Some(Moment::now());
        if fault.gone.is_some() && !self.sabotaged(Sabotage::NoReturn) {
            self.fleet.launch(name)?;
        }
        let returned = move |board: &Board| {
            let started = board.history.started(name, fault.at);
            started.is_some_and(|pid| board.history.sees_all(pid, &Role::ALL, fault.at).is_some())
        };
        if self.until(self.patience(), returned).await {
            self.note(&format!("{name} follows"));
        } else {
            self.lament(&format!("{name} did not come back"));
        }
        self.rest().await;
        fault.until = Moment::now();
        self.faults.push(fault);
        self.show_work();
        Ok(())
    }

    async fn cut(&mut self) -> Result<(), BoxError> {
        let (victim, roles) = self.victim().await?;
        let name = known(&victim.instance);
        self.step(&format!(
            "{name} is cut off from the network while it leads {}",
            list(&roles)
        ));
        let mut fault = Fault::new(Kind::Cut, &victim, &roles);
        if !self.sabotaged(Sabotage::NoCut) {
            self.fleet.cut(name);
        }

        self.step("It stops by itself, before anyone else starts");
        let (pid, at, led) = (victim.pid, fault.at, roles.clone());
        let stopped = move |board: &Board| {
            led.iter()
                .all(|role| board.history.ended(pid, *role, at).is_some())
        };
        if self.until(self.patience(), stopped).await {
            self.note(&format!("{name} has stopped its work, {}", ago(fault.at)));
        } else {
            self.lament(&format!("{name} did not stop"));
        }
        self.wait_for_successors(&fault).await;
        self.rest().await;

        self.step(&format!(
            "{name} is connected again; what was held back arrives now"
        ));
        let restored = Moment::now();
        fault.undone = Some(restored);
        if !self.sabotaged(Sabotage::NoRestore) {
            self.fleet.restore(name);
        }
        let back = move |board: &Board| board.history.sees_all(pid, &roles, restored).is_some();
        if self.until(self.patience(), back).await {
            self.note(&format!("{name} follows"));
        } else {
            self.lament(&format!("{name} did not find back"));
        }
        self.rest().await;
        fault.until = Moment::now();
        self.faults.push(fault);
        Ok(())
    }

    async fn graceful_stop(&mut self) -> Result<(), BoxError> {
        let (victim, roles) = self.victim().await?;
        let name = known(&victim.instance);
        self.step(&format!(
            "{name} is stopped (SIGTERM) while it leads {}",
            list(&roles)
        ));
        let mut fault = Fault::new(Kind::Stop, &victim, &roles);
        if !self.sabotaged(Sabotage::NoStop) {
            self.leaving = Some((name, None));
            self.fleet.terminate(name)?;
        }
        self.wait_for_successors(&fault).await;
        let asked = Moment::now();
        while matches!(self.leaving, Some((_, None)))
            && Moment::now().since(asked) < self.patience()
        {
            self.look();
            tokio::time::sleep(POLL).await;
        }
        if let Some((_, Some((exit, gone)))) = self.leaving.take() {
            (fault.exit, fault.gone) = (Some(exit), Some(gone));
        }
        self.rest().await;
        fault.until = Moment::now();
        self.faults.push(fault);
        self.show_work();
        Ok(())
    }

    /// Until Ctrl-C, or until nobody reads on.
    async fn run_on(&mut self, end: &mut EndRequests) {
        if let Some(fault) = self.faults.last() {
            let name = known(&fault.victim);
            self.step(&format!(
                "{name} is started again, and the fleet runs on: Ctrl-C stops it"
            ));
            if let Err(error) = self.fleet.launch(name) {
                self.lament(&format!("{name} did not start: {error}"));
            }
        }
        let watch = async {
            while !screen::is_closed() {
                self.look();
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::select! {
            () = watch => {}
            () = end.next() => {}
        }
    }

    async fn end(&mut self) {
        self.note("stopping");
        self.fleet.stop().await;
        self.fleet.clean_up().await;
        self.look();
    }

    fn verdict(&self) -> bool {
        judge(&self.board.history, &self.faults, self.ttl, self.style)
    }

    /// The leader of the most roles, at a moment when all are led.
    async fn victim(&mut self) -> Result<(Lead, Vec<Role>), BoxError> {
        let all_led = self
            .until(self.patience(), |board| board.all_led_without(0))
            .await;
        match self.board.busiest() {
            Some(victim) if all_led => Ok(victim),
            _ => Err("not every role is led: nothing more can be told".into()),
        }
    }

    fn sabotaged(&self, how: Sabotage) -> bool {
        self.sabotage == Some(how)
    }
}

fn ago(at: Moment) -> String {
    format!("{:.2} s later", Moment::now().since(at).as_secs_f64())
}

fn known(name: &str) -> &'static str {
    NAMES
        .into_iter()
        .find(|known| *known == name)
        .expect("an instance of this fleet")
}
